"""Tensors next to q, k and v in attention, at any strides: captured ones, ALiBi slopes, sinks; with their gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import flex_attention as torchs

import tunesmith.torch as tt
from tunesmith import mods

SEQ, HEADS, HEAD_DIM = 12, 4, 16
# As in test_flex.py: sums of 16 terms of float32 products, and sums of those over the positions.
CLOSE = {"rtol": 0.0, "atol": 16 * 16 * 2.0**-24}
GRADIENT = {"rtol": 0.0, "atol": 32 * 16 * 16 * 2.0**-24}


def views(*shape: int) -> dict[str, torch.Tensor]:
    """Return tensors of a shape that are not contiguous; between their elements lies NaN."""
    stepped = torch.full((*shape[:-1], 2 * shape[-1]), torch.nan)[..., ::2].copy_(torch.randn(shape))
    return {
        "transposed": torch.randn(shape[::-1]).permute(*reversed(range(len(shape)))),
        "stepped": stepped,
        "broadcast": torch.randn(*shape[:-1], 1).expand(shape),
    }


VIEWS = ["transposed", "stepped", "broadcast"]


def exact_attention(tensors: list[torch.Tensor], change: Any) -> list[torch.Tensor]:
    """Return o in float64 of scores (batch, heads, queries, keys) that `change` changed, and the exact q, k and v."""
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    scores = change(exact[0] @ exact[1].mT / HEAD_DIM**0.5)
    return [torch.softmax(scores, -1) @ exact[2], *exact]


def check(o: torch.Tensor, tensors: list[torch.Tensor], change: Any, *others: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Compare o and gradients. others: tensors that want a gradient, and the float64 ones that `change` uses."""
    expected, *exact = exact_attention(tensors, change)
    torch.testing.assert_close(o.detach().double(), expected.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    expected.backward(upstream.double())
    for ours, theirs in [*zip(tensors, exact, strict=True), *others]:
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **GRADIENT)


@pytest.fixture
def tensors() -> list[torch.Tensor]:
    return [torch.randn(2, HEADS, SEQ, HEAD_DIM, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("call", ["attention", "flex_attention", "compiled"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_captured_tensor(tensors: list[torch.Tensor], view: str, call: str) -> None:
    bias = views(SEQ, SEQ)[view].detach().requires_grad_()

    def biased(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + bias[q, k]

    if call == "flex_attention":
        assert tt.why_not_flex_attention(*tensors, biased) is None
        o = tt.flex_attention(*tensors, biased)
    else:
        traced = mods.trace(biased, "score_mod")

        def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return tt.attention(q, k, v, layout="bhsd", score_mod=traced)

        o = (torch.compile(run, backend="aot_eager", fullgraph=True) if call == "compiled" else run)(*tensors)
    exact = bias.detach().double().requires_grad_()
    check(o, tensors, lambda scores: scores + exact, (bias, exact))


@pytest.mark.parametrize("view", VIEWS)
def test_a_tensor_of_a_mask(tensors: list[torch.Tensor], view: str) -> None:
    level = views(SEQ, SEQ)[view]
    o = tt.attention(*tensors, layout="bhsd", mask_mod=lambda b, h, q, k: (level[q, k] > 0) | (q == k))
    seen = (level > 0) | torch.eye(SEQ, dtype=torch.bool)
    check(o, tensors, lambda scores: scores.masked_fill(~seen, -torch.inf))


def test_slopes_of_another_shape(tensors: list[torch.Tensor]) -> None:
    slopes = torch.rand(HEADS, 1, 1, requires_grad=True)
    o = tt.attention(*tensors, layout="bhsd", alibi_slopes=slopes)
    assert torch.equal(o, tt.attention(*tensors, layout="bhsd", alibi_slopes=slopes.flatten()))
    (gradient,) = torch.autograd.grad(o.sum(), slopes)
    assert gradient.shape == slopes.shape


@pytest.mark.parametrize("view", ["stepped", "broadcast"])
@pytest.mark.parametrize("wanted", [False, True])
def test_slopes_and_sinks(tensors: list[torch.Tensor], view: str, wanted: bool) -> None:
    slopes, sinks = (views(HEADS)[view].detach().requires_grad_(wanted) for _ in range(2))
    o = tt.attention(*tensors, layout="bhsd", alibi_slopes=slopes, sinks=sinks)
    exact_slopes, exact_sinks = (one.detach().double().requires_grad_() for one in (slopes, sinks))
    distance = (torch.arange(SEQ)[:, None] - torch.arange(SEQ)).abs()
    expected, *exact = exact_attention(tensors, lambda scores: scores)
    scores = exact[0] @ exact[1].mT / HEAD_DIM**0.5 - exact_slopes[:, None, None] * distance
    sink = exact_sinks[:, None, None].expand(2, HEADS, SEQ, 1)
    expected = torch.softmax(torch.cat([scores, sink], -1), -1)[..., :SEQ] @ exact[2]
    torch.testing.assert_close(o.detach().double(), expected.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    expected.backward(upstream.double())
    pairs = [*zip(tensors, exact, strict=True), *([(slopes, exact_slopes), (sinks, exact_sinks)] if wanted else [])]
    for ours, theirs in pairs:
        assert ours.grad is not None
        # Slopes and sinks are sums over the positions of two batch entries, and distances reach SEQ.
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=0, atol=2 * SEQ * GRADIENT["atol"])


def test_slopes_and_sinks_of_packed_sequences_have_gradients() -> None:
    q, k, v = (torch.randn(2 * SEQ, HEADS, HEAD_DIM, requires_grad=True) for _ in range(3))
    slopes, sinks = (torch.rand(HEADS, requires_grad=True) for _ in range(2))
    starts = torch.tensor([0, SEQ, 2 * SEQ], dtype=torch.int32)
    packed = tt.attention_varlen(q, k, v, starts, starts, SEQ, SEQ, alibi_slopes=slopes, sinks=sinks)
    upstream = torch.randn_like(packed)
    found = torch.autograd.grad(packed, [q, slopes, sinks], upstream)
    batch = [one.unflatten(0, (2, SEQ)) for one in (q, k, v)]
    o = tt.attention(*batch, alibi_slopes=slopes, sinks=sinks)
    expected = torch.autograd.grad(o, [q, slopes, sinks], upstream.view_as(o))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2 * SEQ * GRADIENT["atol"])


def test_eight_captured_tensors_have_gradients(tensors: list[torch.Tensor]) -> None:
    shares = [torch.randn(HEADS, requires_grad=True) for _ in range(8)]

    def shared(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + sum(share[h] for share in shares) * (q - k)

    o = tt.flex_attention(*tensors, shared)
    o.sum().backward()
    for share in shares:
        assert share.grad is not None  # sums of the same terms in any order
        torch.testing.assert_close(share.grad, shares[0].grad, rtol=0, atol=2 * SEQ * GRADIENT["atol"])
    nine = [*shares, torch.randn(HEADS)]
    with pytest.raises(mods.TraceError, match="more than 8 tensors"):
        tt.attention(*tensors, score_mod=lambda score, b, h, q, k: score + sum(share[h] for share in nine))


def test_a_captured_tensor_of_more_than_31_bits() -> None:
    # Untouched pages of zeros take no memory.
    table = torch.zeros(3, 1 << 30, dtype=torch.uint8)
    table[2, SEQ - 1] = 1
    q, k, v = (torch.randn(1, 1, SEQ, HEAD_DIM) for _ in range(3))
    o = tt.attention(q, k, v, layout="bhsd", mask_mod=lambda b, h, i, j: table[b + 2, j] == 1)
    torch.testing.assert_close(o, v[:, :, -1:].expand_as(o), **CLOSE)


def test_a_zero_scale_is_no_default() -> None:
    q = torch.randn(1, SEQ, HEADS, HEAD_DIM)
    with pytest.raises(ValueError, match="scale is 0"):
        tt.attention(q, q, q, scale=0.0)
    starts = torch.tensor([0, SEQ], dtype=torch.int32)
    with pytest.raises(ValueError, match="scale is 0"):
        tt.attention_varlen(q[0], q[0], q[0], starts, starts, SEQ, SEQ, scale=0.0)
    heads = q.transpose(1, 2)
    expected = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, scale=0.0)
    torch.testing.assert_close(tt.scaled_dot_product_attention(heads, heads, heads, scale=0.0), expected)


def _lists(*rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers and indices of blocks, as BlockMask.from_kv_blocks() takes them."""
    indices = torch.tensor([[row + [0] * (3 - len(row)) for row in rows]], dtype=torch.int32)
    return torch.tensor([[[len(row) for row in rows]]], dtype=torch.int32), indices[:, None]


def everything(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= 0


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


# What torch does where it compiles flex_attention; its eager mode reads mask_mod alone.
@pytest.mark.parametrize("mask_mod", [None, everything, causal])
def test_block_lists_made_by_hand(tensors: list[torch.Tensor], mask_mod: Any) -> None:
    partial, full = _lists([0], [1, 0], [2]), _lists([], [2], [1])
    given = {} if mask_mod is None else {"mask_mod": mask_mod}
    block_mask = torchs.BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=(4, 4), **given)
    assert tt.why_not_flex_attention(*tensors, None, block_mask) is None
    seen = torch.zeros(SEQ, SEQ, dtype=torch.bool)
    inside = torch.ones(4, 4, dtype=torch.bool).tril() if mask_mod is causal else torch.ones(4, 4, dtype=torch.bool)
    for q, k in ((0, 0), (1, 1), (2, 2)):
        seen[4 * q : 4 * q + 4, 4 * k : 4 * k + 4] = inside
    for q, k in ((1, 0), (1, 2), (2, 1)):  # a partial one, where all is visible anyway, and full ones
        seen[4 * q : 4 * q + 4, 4 * k : 4 * k + 4] = True
    o = tt.flex_attention(*tensors, None, block_mask)
    check(o, tensors, lambda scores: scores.masked_fill(~seen, -torch.inf))


def test_block_lists_that_follow_from_the_mask_mod_cost_nothing(
    tensors: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tunesmith.torch import flex

    seen = []
    monkeypatch.setattr(flex, "attention", lambda *_, **named: seen.append(named["mask_mod"]))
    documents = torch.tensor([0] * 5 + [1] * 7)

    def document(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (documents[q] == documents[kv]) & (q >= kv)

    for mask_mod in (causal, document):
        block_mask = torchs.create_block_mask(mask_mod, None, None, SEQ, SEQ, device="cpu", BLOCK_SIZE=4)
        tt.flex_attention(*tensors, None, block_mask)
        assert seen.pop() is mask_mod


def test_a_block_mask_for_other_lengths_falls_back(tensors: list[torch.Tensor]) -> None:
    block_mask = torchs.create_block_mask(causal, None, 3, 8, 8, device="cpu", BLOCK_SIZE=4)
    assert "3 heads" in str(tt.why_not_flex_attention(*tensors, None, block_mask))
    block_mask = torchs.create_block_mask(causal, None, None, 8, 8, device="cpu", BLOCK_SIZE=4)
    assert "2 blocks of 4 queries" in str(tt.why_not_flex_attention(*tensors, None, block_mask))
