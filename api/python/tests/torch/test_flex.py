"""flex_attention against PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import flex_attention as torchs

import tunesmith.torch as tt
from tunesmith import mods

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


@pytest.mark.parametrize("score_mod", [None, alibi, capped], ids=["none", "alibi", "capped"])
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_captured_tensors_have_gradients(
    tensors: list[torch.Tensor], dtype: torch.dtype, deterministic: bool, compiled: bool
) -> None:
    bias = torch.randn(HEADS, 2 * SEQ - 1, requires_grad=True)
    gain = torch.rand(HEADS).to(dtype).requires_grad_()
    fixed = torch.rand(SEQ)

    def biased(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return torch.tanh(score * gain[h]) + bias[h, kv - q + SEQ - 1] * fixed[q]

    traced = mods.trace(biased, "score_mod")

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return tt.attention(q, k, v, layout="bhsd", score_mod=traced)

    torch.use_deterministic_algorithms(deterministic)
    try:
        if compiled:
            o = torch.compile(run, backend="aot_eager", fullgraph=True)(*tensors)
        else:
            assert tt.why_not_flex_attention(*tensors, biased) is None
            o = tt.flex_attention(*tensors, biased)
        upstream = torch.randn_like(o)
        o.backward(upstream)
    finally:
        torch.use_deterministic_algorithms(False)

    exact = [tensor.detach().double().requires_grad_() for tensor in (*tensors, bias, gain)]
    q, kv = torch.arange(SEQ)[:, None], torch.arange(SEQ)
    scores = torch.tanh(exact[0] @ exact[1].mT / HEAD_DIM**0.5 * exact[4][:, None, None])
    scores = scores + exact[3][:, kv - q + SEQ - 1] * fixed.double()[:, None]
    (torch.softmax(scores, -1) @ exact[2]).backward(upstream.double())
    for ours, theirs in zip((*tensors, bias), exact, strict=False):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **GRADIENT)
    assert gain.grad is not None and gain.grad.dtype == dtype
    # A sum over all pairs of two batch entries; its dtype rounds it.
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(gain.grad.double(), exact[4].grad, rtol=epsilon, atol=2 * SEQ * GRADIENT["atol"])
    assert fixed.grad is None


def test_only_captured_tensors_require_grad() -> None:
    plain = [torch.randn(1, HEADS, SEQ, HEAD_DIM) for _ in range(3)]
    slopes = torch.rand(HEADS, requires_grad=True)
    o = tt.flex_attention(*plain, lambda score, b, h, q, kv: score - slopes[h] * abs(q - kv))
    o.sum().backward()
    assert slopes.grad is not None and slopes.grad.isfinite().all()


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
