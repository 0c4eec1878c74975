"""flex_attention against PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import flex_attention as torchs

import tunesmith.torch as tt

# Dot products of 16 terms in float32 give scores below 16 with 16 roundings each; outputs are convex combinations, and
# gradients sums over 32 positions of products of such numbers.
CLOSE = {"rtol": 0.0, "atol": 16 * 16 * 2.0**-24}
GRADIENT = {"rtol": 0.0, "atol": 32 * 16 * 16 * 2.0**-24}
SEQ, HEADS, HEAD_DIM = 32, 2, 16
SLOPES = torch.tensor([0.5, 0.25])


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def alibi(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return score - SLOPES[h] * (q - kv)


def capped(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return 2 * torch.tanh(score / 2)


def clamped(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return score if score > 0 else -score


@pytest.fixture
def tensors() -> list[torch.Tensor]:
    return [torch.randn(2, HEADS, SEQ, HEAD_DIM, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("score_mod", [None, alibi, capped], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_outputs_and_gradients(tensors: list[torch.Tensor], score_mod: Any, masked: bool) -> None:
    block_mask = torchs.create_block_mask(causal, None, None, SEQ, SEQ, device="cpu", BLOCK_SIZE=16) if masked else None
    assert tt.why_not_flex_attention(*tensors, score_mod, block_mask) is None
    o = tt.flex_attention(*tensors, score_mod, block_mask)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    # Its eager mode is exact; it has no gradient on the CPU, so autograd takes the formula.
    scores = exact[0] @ exact[1].mT / HEAD_DIM**0.5
    q, kv = torch.arange(SEQ)[:, None], torch.arange(SEQ)
    if score_mod is not None:
        scores = torch.stack([score_mod(scores[:, h], None, h, q, kv) for h in range(HEADS)], 1)
    if masked:
        scores = scores.masked_fill(~causal(None, None, q, kv), -torch.inf)
    expected = torch.softmax(scores, -1) @ exact[2]
    torch.testing.assert_close(o.detach().double(), expected.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    expected.backward(upstream.double())
    for ours, theirs in zip(tensors, exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **GRADIENT)


def test_it_falls_back_and_says_why(tensors: list[torch.Tensor]) -> None:
    plain = [tensor.detach() for tensor in tensors]
    assert "test_flex.py" in str(tt.why_not_flex_attention(*plain, clamped))
    assert tt.why_not_flex_attention(*plain, kernel_options={"BLOCK_M": 64}) == "kernel_options is given; allowed: None"
    assert "return_lse" in str(tt.why_not_flex_attention(*tensors, return_lse=True))
    o, lse = tt.flex_attention(*plain, return_lse=True)
    theirs = torchs.flex_attention(*plain, return_lse=True)
    torch.testing.assert_close((o, lse), theirs, **CLOSE)
    wide = [torch.randn(1, 1, SEQ, 12) for _ in range(3)]
    assert "head_dim is 12" in str(tt.why_not_flex_attention(*wide))
    torch.testing.assert_close(tt.flex_attention(*wide), torchs.flex_attention(*wide))
