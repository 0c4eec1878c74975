"""attention_varlen against PyTorch's attention of each sequence in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith.torch as tt

# Outputs and gradients of order 1 from sums of at most 16 terms with weights of float32 exponentials.
CLOSE = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24}
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
LENGTHS_Q, LENGTHS_KV = (3, 0, 7, 1), (5, 4, 7, 0)


def starts(lengths: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """(seq, heads, head_dim) of one sequence; causal aligns the last query with the last key."""
    k, v = (tensor.repeat_interleave(HEADS // KV_HEADS, 1) for tensor in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD_DIM**0.5
    if causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1 + scores.shape[2] - scores.shape[1])
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1).nan_to_num(), v)


@pytest.mark.parametrize("causal", [False, True])
def test_each_sequence_by_itself(causal: bool) -> None:
    q = torch.randn(sum(LENGTHS_Q), HEADS, HEAD_DIM, requires_grad=True)
    k, v = (torch.randn(sum(LENGTHS_KV), KV_HEADS, HEAD_DIM, requires_grad=True) for _ in range(2))
    cu_q, cu_kv = starts(LENGTHS_Q), starts(LENGTHS_KV)
    o, lse = tt.attention_varlen(q, k, v, cu_q, cu_kv, max(LENGTHS_Q), max(LENGTHS_KV), causal=causal, return_lse=True)
    assert lse.shape == (HEADS, sum(LENGTHS_Q))
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    parts = zip(exact[0].split(LENGTHS_Q), exact[1].split(LENGTHS_KV), exact[2].split(LENGTHS_KV), strict=True)
    expected = torch.cat([reference(*part, causal) for part in parts])
    torch.testing.assert_close(o.detach().double(), expected.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    expected.backward(upstream.double())
    for ours, theirs in zip((q, k, v), exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_no_sequence_are_zeros(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(16, HEADS, HEAD_DIM).to(dtype).requires_grad_() for _ in range(3))
    cu = torch.tensor([2, 5, 5, 10], dtype=torch.int32)
    poison = [torch.full((16, HEADS, HEAD_DIM), torch.nan) for _ in range(8)]
    del poison  # its memory is what is allocated next
    o, lse = tt.attention_varlen(q, k, v, cu, cu, 5, 5, return_lse=True)
    outside = torch.tensor([0, 1, *range(10, 16)])
    assert not o[outside].any()
    assert torch.equal(lse[:, outside], torch.full((HEADS, 8), -torch.inf))
    assert lse[:, 2:10].isfinite().all()
    o.backward(torch.randn_like(o))
    for one in (q, k, v):
        assert one.grad is not None and not one.grad[outside].any()
        assert one.grad[2:10].any(-1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"q": torch.randn(1, 3, HEADS, HEAD_DIM)}, "q has 4 dimensions"), ({"cu": torch.tensor([0, 3])}, "torch.int64")],
)
def test_what_it_rejects(change: dict[str, Any], message: str) -> None:
    q = torch.randn(3, HEADS, HEAD_DIM)
    arguments = {"q": q, "cu": torch.tensor([0, 3], dtype=torch.int32), **change}
    with pytest.raises(ValueError, match=message):
        tt.attention_varlen(arguments["q"], q, q, arguments["cu"], arguments["cu"], 3, 3)
