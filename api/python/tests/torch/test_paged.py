"""paged_attention with pages that change, in compiled functions, and its errors. random_caches.py draws its calls."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from random_caches import Cache, exact_attention, make_cache

import tunesmith.torch as tt

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    # Values are below 6, weights sum to 1 and are rounded to the dtype, as is the result. Scores, below 16, are sums of at
    # most 24 products, whose roundings change weights by as much.
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=6 * (4 * EPS[dtype] + 16 * 24 * EPS[torch.float32]))


def small(page_size: int = 7, dtype: torch.dtype = torch.float32, lengths: tuple[int, ...] = (9, 0, 15)) -> Any:
    cache = make_cache(random.Random(3), list(lengths), page_size, 2, (16, 16), dtype, columns=4)
    return torch.randn(len(lengths), 1, 4, 16).to(dtype), cache


def expected_of(q: torch.Tensor, cache: Cache, page_size: int = 7, **options: Any) -> torch.Tensor:
    rows = [exact_attention(q[b], *cache.keys(b, page_size, "bshd"), options)[0] for b in range(len(q))]
    return torch.stack(rows)


def test_lengths_and_tables_are_read_when_the_kernel_runs() -> None:
    q, cache = small()
    tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths)
    for lengths in ((0, 0, 0), (1, 0, 7), (9, 0, 15)):
        cache.lengths.copy_(torch.tensor(lengths))
        o = tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths)
        close(o, expected_of(q, cache), torch.float32)
    cache.table.copy_(cache.table[[2, 1, 0]].clone())
    cache.lengths.copy_(torch.tensor((7, 0, 9)))
    close(tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths), expected_of(q, cache), torch.float32)


def test_a_cache_without_pages() -> None:
    q, k, v = torch.randn(3, 2, 4, 16), torch.randn(3, 20, 2, 16), torch.randn(3, 20, 2, 16)
    lengths = torch.tensor([0, 2, 20], dtype=torch.int32)
    for b, length in enumerate(lengths.tolist()):
        k[b, length:] = v[b, length:] = torch.nan
    o = tt.paged_attention(q, k, v, None, lengths, causal=True)
    for b, length in enumerate(lengths.tolist()):
        expected, _ = exact_attention(q[b], k[b, :length].double(), v[b, :length].double(), {"causal": True})
        close(o[b], expected, torch.float32)


def test_lengths_beyond_their_bound_count_as_the_bound() -> None:
    q, cache = small(lengths=(9, 0, 15))
    o = tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths, max_seq_kv=9)
    cache.lengths.clamp_(max=9)
    close(o, expected_of(q, cache), torch.float32)


def test_prefill_in_chunks_equals_prefill_at_once() -> None:
    q, cache = torch.randn(1, 15, 4, 16), small(lengths=(15,))[1]
    whole = tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths, causal=True)
    close(whole, expected_of(q, cache, causal=True), torch.float32)
    for first, last in ((0, 6), (6, 7), (7, 15)):
        lengths = torch.tensor([last], dtype=torch.int32)
        part = tt.paged_attention(q[:, first:last], cache.k, cache.v, cache.table, lengths, causal=True)
        close(part, whole[:, first:last].double(), torch.float32)


def test_a_mask_that_reads_a_tensor() -> None:
    q, cache = small()
    prefix = torch.tensor([4, 3, 8])
    o = tt.paged_attention(
        q, cache.k, cache.v, cache.table, cache.lengths, mask_mod=lambda b, h, q, k: (k < prefix[b]) | (k > 8)
    )
    for b in range(3):
        k, v = cache.keys(b, 7, "bshd")
        seen = (torch.arange(len(k)) < prefix[b]) | (torch.arange(len(k)) > 8)
        close(o[b], exact_attention(q[b], k[seen], v[seen], {})[0], torch.float32)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_has_no_graph_breaks(dynamic: bool) -> None:
    def step(q: Any, k: Any, v: Any, table: Any, lengths: Any, starts: Any) -> Any:
        decoded = tt.paged_attention(2 * q, k, v, table, lengths, causal=True)
        packed, lse = tt.paged_attention(
            q.flatten(0, 1), k, v, table, lengths, cu_seqlens_q=starts, max_seq_q=1, return_lse=True
        )
        return decoded.flatten(0, 1) + packed, lse

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for lengths in ((9, 0, 15), (3, 4)):
        q, cache = small(lengths=lengths)
        starts = torch.arange(len(lengths) + 1, dtype=torch.int32)
        arguments = (q, cache.k, cache.v, cache.table, cache.lengths, starts)
        torch.testing.assert_close(compiled(*arguments), step(*arguments))


def test_opcheck() -> None:
    from tunesmith.torch.attention_operators import FORWARD

    q, cache = small()
    tensors = {"q": q, "k": cache.k, "v": cache.v, "block_table": cache.table, "kv_lengths": cache.lengths}
    torch.library.opcheck(torch.ops.tunesmith.attention.default, tuple(FORWARD.arguments(tensors, FORWARD.values())))


def test_autocast_and_vmap() -> None:
    q, cache = small(dtype=torch.bfloat16)
    plain = tt.paged_attention(q, cache.k, cache.v, cache.table, cache.lengths)
    with torch.autocast("cpu"):
        o = tt.paged_attention(q.float(), cache.k, cache.v, cache.table, cache.lengths)
    assert torch.equal(o, plain)
    each = torch.vmap(lambda one: tt.paged_attention(one, cache.k, cache.v, cache.table, cache.lengths))
    assert torch.equal(each(torch.stack([q, q])), torch.stack([plain, plain]))


def bytes_of(q: torch.Tensor, cache: Cache) -> tuple[Any, ...]:
    e4m3 = torch.float8_e4m3fn
    return q, cache.k.to(e4m3), cache.v.to(e4m3), cache.table, cache.lengths


@pytest.mark.parametrize("kind", ["tensor", "head", "batch_head", "token_head"])
def test_the_shape_of_scales_says_what_shares_one(kind: str) -> None:
    q, cache = small(dtype=torch.bfloat16)
    rows = cache.k.shape[:-1]
    shape = {"tensor": (1,), "head": (2,), "batch_head": (3, 2), "token_head": rows}[kind]
    scales = {"k_scale": torch.rand(shape) + 0.5, "v_scale": torch.rand(shape) + 0.5}
    o, lse = tt.paged_attention(*bytes_of(q, cache), **scales, return_lse=True)
    assert o.dtype == torch.bfloat16
    assert lse.shape == (3, 4, 1)
    for b in range(3):
        pools = [pool.to(torch.float8_e4m3fn).float() for pool in (cache.k, cache.v)]
        if kind == "token_head":
            pools = [pool * scale[..., None] for pool, scale in zip(pools, scales.values(), strict=True)]
        k, v = Cache(*pools, cache.table, cache.lengths).keys(b, 7, "bshd")
        if kind != "token_head":
            of_b = [scale[b] if kind == "batch_head" else scale for scale in scales.values()]
            k, v = k * of_b[0].double().view(1, -1, 1), v * of_b[1].double().view(1, -1, 1)
        close(o[b], exact_attention(q[b], k, v, {})[0], torch.bfloat16)


def test_an_8_bit_cache_that_kv_append_writes() -> None:
    q, cache = small(dtype=torch.bfloat16, lengths=(5,))
    _, k, v, table, lengths = bytes_of(q, cache)
    rows = [torch.randn(5, 2, 16).bfloat16() for _ in "kv"]
    slots = table[0, torch.arange(5) // 7].long() * 7 + torch.arange(5) % 7
    scales = {"k_scale": torch.tensor([0.01, 0.02]), "v_scale": torch.tensor([0.03, 0.01])}
    tt.kv_append(*rows, k, v, slots, **scales)
    o = tt.paged_attention(q, k, v, table, lengths, **scales)
    expected, _ = exact_attention(q[0], *(one.double() for one in rows), {})
    torch.testing.assert_close(o[0].double(), expected, rtol=0, atol=0.2)


def test_compile_and_autocast_of_an_8_bit_cache() -> None:
    q, cache = small(dtype=torch.bfloat16)
    arguments = bytes_of(q, cache)
    scales = {"k_scale": torch.rand(3, 2) + 0.5, "v_scale": torch.rand(3, 2) + 0.5}
    plain = tt.paged_attention(*arguments, **scales)
    compiled = torch.compile(lambda *a, **b: tt.paged_attention(*a, **b), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*arguments, **scales), plain)
    with torch.autocast("cpu"):
        assert torch.equal(tt.paged_attention(q.float(), *arguments[1:], **scales), plain)


def wrong(**changes: Any) -> Any:
    q, cache = small()
    arguments: dict[str, Any] = {"q": q, "k": cache.k, "v": cache.v, "block_table": cache.table, "kv_lengths": cache.lengths}
    return tt.paged_attention(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.randn(3, 4, 16)}, "q has 3 dimensions; expected 4"),
        ({"k": torch.randn(5, 7, 2, 24)}, "k has the shape"),
        ({"v": torch.randn(5, 9, 2, 16)}, "v has the shape"),
        ({"k": torch.randn(5, 7, 3, 16), "v": torch.randn(5, 7, 3, 16)}, "heads is 4 and kv_heads is 3"),
        ({"block_table": torch.zeros(2, 4, dtype=torch.int32)}, r"block_table has the shape \(2, 4\); expected \(3, 4\)"),
        ({"block_table": torch.zeros(3, 4, dtype=torch.int64)}, r"block_table is torch\.int64"),
        ({"block_table": torch.zeros(12, dtype=torch.int32)}, "block_table has 1 dimensions"),
        ({"kv_lengths": torch.zeros(3, dtype=torch.int64)}, r"kv_lengths is torch\.int64"),
        ({"kv_lengths": torch.zeros(4, dtype=torch.int32)}, r"kv_lengths has the shape \(4,\); expected \(3,\)"),
        ({"kv_lengths": None}, "kv_lengths is missing"),
        ({"max_seq_kv": 100}, "seq_kv is 100, but 4 pages of 7 keys have room for 28"),
        ({"max_seq_kv": -1}, "seq_kv is -1"),
        ({"max_seq_q": 3}, "max_seq_q is 3; allowed: only with cu_seqlens_q"),
        ({"block_table": None, "max_seq_kv": 3}, "max_seq_kv is 3; allowed: only with block_table"),
        ({"cu_seqlens_q": torch.zeros(4, dtype=torch.int32)}, "q has 4 dimensions; expected 3"),
        ({"cu_seqlens_q": torch.zeros(3, dtype=torch.int32), "q": torch.randn(3, 4, 16)}, "expected"),
        ({"cu_seqlens_q": torch.zeros(4, dtype=torch.int64), "q": torch.randn(3, 4, 16)}, r"cu_seqlens_q is torch\.int64"),
        ({"causal": "left"}, "causal is 'left'"),
        ({"layout": "sbhd"}, "layout is 'sbhd'"),
        ({"window": (-2, 1)}, "window_left is -2"),
        ({"k_scale": torch.ones(1)}, "v_scale is missing; expected with k_scale"),
        ({"k_scale": torch.ones(1), "v_scale": torch.ones(1)}, "kv_scales is tensor"),
        ({"k": torch.zeros(8, 7, 2, 16, dtype=torch.float8_e4m3fn)}, r"v is torch\.float32"),
    ],
)
def test_errors_name_the_argument(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong(**changes)


@pytest.mark.parametrize("name", ["q", "k", "sinks"])
def test_there_is_no_gradient(name: str) -> None:
    leaf = {"q": torch.randn(3, 1, 4, 16), "k": small()[1].k, "sinks": torch.randn(4)}[name].requires_grad_()
    with pytest.raises(NotImplementedError, match=f"paged_attention has no gradient of {name}; detach it"):
        wrong(**{name: leaf})
    with torch.no_grad():
        wrong(**{name: leaf})


def test_split_keys_give_the_same_bits_alone_and_in_a_batch() -> None:
    torch.manual_seed(4)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16) for shape in ((3, 1, 4, 16), (60, 16, 2, 16), (60, 16, 2, 16)))
    table = torch.randperm(60).reshape(3, 20).int()
    lengths = torch.tensor([320, 65, 130], dtype=torch.int32)

    def run(chosen: slice, split_keys: int) -> torch.Tensor:
        o = tt.paged_attention(q[chosen], k, v, table[chosen], lengths[chosen], split_keys=split_keys)
        assert isinstance(o, torch.Tensor)
        return o

    together = run(slice(None), 64)
    torch.testing.assert_close(together, run(slice(None), 0))
    for b in range(3):
        assert torch.equal(run(slice(b, b + 1), 64), together[b : b + 1])
