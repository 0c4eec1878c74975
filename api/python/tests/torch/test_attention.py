"""attention, its gradient, scaled_dot_product_attention and Python mods against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import tunesmith.torch as tt
from tunesmith import mods

# Dot products of 16 terms in float32 give scores below 16 with 16 roundings each; outputs are convex combinations, and
# gradients sums over 17 positions of products of such numbers.
CLOSE = {"rtol": 0.0, "atol": 16 * 16 * 2.0**-24}
GRADIENT = {"rtol": 0.0, "atol": 17 * 16 * 16 * 2.0**-24}
SEQ, HEADS, HEAD_DIM = 17, 2, 16


def inputs(kv_heads: int = HEADS, layout: str = "bhsd", requires_grad: bool = False) -> list[torch.Tensor]:
    made = [torch.randn(2, heads, SEQ, HEAD_DIM) for heads in (HEADS, kv_heads, kv_heads)]
    if layout == "bshd":
        made = [tensor.transpose(1, 2).contiguous() for tensor in made]
    return [tensor.requires_grad_(requires_grad) for tensor in made]


def exact_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in tensors]


SDPA: list[dict[str, Any]] = [{}, {"is_causal": True}, {"scale": 0.5}]


@pytest.mark.parametrize("options", SDPA, ids=str)
def test_sdpa_and_its_gradients(options: dict[str, Any]) -> None:
    tensors = inputs(requires_grad=True)
    exact = exact_of(tensors)
    assert tt.why_not_scaled_dot_product_attention(*tensors, **options) is None
    o = tt.scaled_dot_product_attention(*tensors, **options)
    reference = torch.nn.functional.scaled_dot_product_attention(*exact, **options)
    torch.testing.assert_close(o.detach().double(), reference.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    reference.backward(upstream.double())
    for ours, theirs in zip(tensors, exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **GRADIENT)


def test_sdpa_with_grouped_heads() -> None:
    tensors = inputs(kv_heads=1)
    o = tt.scaled_dot_product_attention(*tensors, enable_gqa=True)
    exact = torch.nn.functional.scaled_dot_product_attention(*exact_of(tensors), enable_gqa=True)
    torch.testing.assert_close(o.double(), exact, **CLOSE)
    assert "enable_gqa is False" in str(tt.why_not_scaled_dot_product_attention(*tensors))


def test_sdpa_falls_back_and_says_why() -> None:
    tensors, mask = inputs(), torch.ones(SEQ, SEQ, dtype=torch.bool)
    assert "attn_mask" in str(tt.why_not_scaled_dot_product_attention(*tensors, attn_mask=mask))
    o = tt.scaled_dot_product_attention(*tensors, attn_mask=mask)
    torch.testing.assert_close(o, torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask))
    assert "dropout_p is 1.0; allowed" in str(tt.why_not_scaled_dot_product_attention(*tensors, dropout_p=1.0))


def test_dropout_and_its_gradients() -> None:
    dropout = 0.25
    q, k = (torch.randn(2, HEADS, SEQ, HEAD_DIM, requires_grad=True) for _ in range(2))
    v = torch.randn(2, HEADS, SEQ, HEAD_DIM, requires_grad=True)
    state = torch.tensor([3, 5])
    eye = torch.eye(SEQ, 24).expand(2, HEADS, SEQ, 24)
    kept = tt.attention(q.detach(), k.detach(), eye, layout="bhsd", dropout=dropout, rng_state=state)[..., :SEQ] != 0
    # A binomial distribution of 1156 pairs: six standard deviations.
    pairs = kept.numel()
    assert abs(int((~kept).sum()) - dropout * pairs) < 6 * (pairs * dropout * (1 - dropout)) ** 0.5
    exact = exact_of([q, k, v])
    weights = torch.softmax(exact[0] @ exact[1].mT / HEAD_DIM**0.5, -1)
    expected = (weights * kept / (1 - dropout)) @ exact[2]
    o = tt.attention(q, k, v, layout="bhsd", dropout=dropout, rng_state=state)
    torch.testing.assert_close(o.detach().double(), expected.detach(), **CLOSE)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    expected.backward(upstream.double())
    for ours, theirs in zip((q, k, v), exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, **GRADIENT)


def test_dropout_follows_torchs_generator() -> None:
    tensors = inputs()

    def draw() -> torch.Tensor:
        return tt.scaled_dot_product_attention(*tensors, dropout_p=0.5)

    torch.manual_seed(11)
    first, second = draw(), draw()
    torch.manual_seed(11)
    assert torch.equal(first, draw())
    assert not torch.equal(first, second)
    assert torch.equal(tt.attention(*tensors, dropout=0.0, rng_state=torch.tensor([1, 2])), tt.attention(*tensors))
    compiled = torch.compile(draw, backend="aot_eager", fullgraph=True)
    torch.manual_seed(11)
    assert torch.equal(first, compiled())


def test_sdpa_falls_back_for_other_head_dims() -> None:
    tensors = [torch.randn(1, 1, 4, 12) for _ in range(3)]
    assert "head_dim is 12" in str(tt.why_not_scaled_dot_product_attention(*tensors))
    tt.scaled_dot_product_attention(*tensors)


def reference_of(tensors: list[torch.Tensor], change: Any) -> torch.Tensor:
    """Attention in float64 with a function of scores (batch, heads, queries, keys)."""
    q, k, v = exact_of(tensors)
    return torch.softmax(change(q @ k.transpose(-1, -2) / HEAD_DIM**0.5), -1) @ v


def test_options_and_lse() -> None:
    tensors = inputs(layout="bshd")
    o, lse = tt.attention(*tensors, causal=True, window=(3, None), softcap=2.0, return_lse=True)
    position = torch.arange(SEQ)
    distance = position[:, None] - position
    seen = (distance >= 0) & (distance <= 3)
    q, k, v = (tensor.transpose(1, 2) for tensor in exact_of(tensors))
    scores = (2 * torch.tanh(q @ k.transpose(-1, -2) / 4 / 2)).masked_fill(~seen, -torch.inf)
    torch.testing.assert_close(lse.double(), torch.logsumexp(scores, -1), **CLOSE)
    torch.testing.assert_close(o.double(), (torch.softmax(scores, -1) @ v).transpose(1, 2), **CLOSE)
    assert torch.equal(tt.attention(*tensors, causal=True, window=(3, -1), softcap=2.0), o)  # as FlashAttention writes it


def test_traced_functions() -> None:
    tensors = inputs()
    slopes, document, window = torch.tensor([0.5, 0.25]), torch.arange(SEQ) // 5, 6

    def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.where(q >= k, score - slopes[h] * abs(q - k), score * 0.5)

    def documents(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (document[q] == document[k]) | ((q - k) // window == 0) | ((q - k) % window == 1)

    o = tt.attention(*tensors, layout="bhsd", score_mod=alibi, mask_mod=documents)
    q, k = torch.arange(SEQ)[:, None], torch.arange(SEQ)
    seen = (document[:, None] == document) | ((q - k) // window == 0) | ((q - k) % window == 1)
    penalty = slopes.double()[:, None, None] * (q - k).abs()

    def change(scores: torch.Tensor) -> torch.Tensor:
        return torch.where(q >= k, scores - penalty, scores * 0.5).masked_fill(~seen, -torch.inf)

    torch.testing.assert_close(o.double(), reference_of(tensors, change), **CLOSE)


def test_a_captured_number_that_changes_is_seen() -> None:
    reach = 1

    def near(b: Any, h: Any, q: Any, k: Any) -> Any:
        return abs(q - k) <= reach

    first = mods.trace(near, "mask_mod")
    assert mods.trace(near, "mask_mod") is first
    reach = 2
    assert "<= (2)" in mods.trace(near, "mask_mod").source


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda score, b, h, q, k: score if q > k else 0.0, "branches on a number"),
        (lambda score, b, h, q, k: float(score), "converts a number"),
        (lambda score, b, h, q, k: torch.erf(score), "calls erf"),
        (lambda score, b, h, q, k: torch.zeros(2, 2)[q], "not indexed"),
        (lambda score, b, h, q, k: "text", "uses a str as a number"),
    ],
)
def test_what_cannot_be_traced_is_named_with_its_line(function: Any, reason: str) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(mods.TraceError, match=rf"test_attention\.py:{line}: .*cannot be traced.*{reason}"):
        mods.trace(function, "score_mod")


def test_the_line_is_that_of_the_statement() -> None:
    def capped(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        near = abs(q - k)
        near = near + 1
        return score if near < 4 else 0.0

    line = capped.__code__.co_firstlineno + 3
    with pytest.raises(mods.TraceError, match=rf"test_attention\.py:{line}: capped cannot be traced"):
        mods.trace(capped, "score_mod")


def test_mask_mod_has_no_gradients() -> None:
    limit = torch.zeros(2, requires_grad=True)
    with pytest.raises(mods.TraceError, match="masks have no gradients; detach the tensor"):
        mods.trace(lambda b, h, q, k: q < limit[h], "mask_mod")


def test_mask_mod_returns_a_truth_value() -> None:
    with pytest.raises(mods.TraceError, match="its result is of type int; expected a truth value"):
        mods.trace(lambda b, h, q, k: q - k, "mask_mod")


def test_autocast_casts_the_inputs() -> None:
    with torch.autocast("cpu"):
        assert tt.attention(*inputs()).dtype == torch.bfloat16


def test_a_graph_has_a_score_mod_in_one_line() -> None:
    # Inductor of PyTorch 2.11 writes arguments into comments of Python code as they are.
    text = (
        "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {\n"
        "  return score + (q - k) * 0.125f;\n}\n"
    )
    q = torch.randn(1, 5, 2, 16)
    graph = make_fx(lambda q: tt.attention(q, q, q, score_mod=text))(q)
    nodes = [node for node in graph.graph.nodes if "attention" in str(node.target)]
    assert len(nodes) == 1
    assert not any("\n" in str(argument) for argument in nodes[0].args)
    torch.testing.assert_close(graph(q), tt.attention(q, q, q, score_mod=lambda s, b, h, i, k: s + (i - k) * 0.125))
