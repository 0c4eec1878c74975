"""paged_attention against PyTorch in float64: drawn problems with holes, shared pages, garbage and NaN, and its errors."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import pytest
import torch

import tunesmith.torch as tt

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
#: What a table holds where no length reaches.
GARBAGE = (-1, 2**31 - 1, -(2**31), 12345678)


@dataclasses.dataclass
class Cache:
    """Keys and values in pages, NaN where no sequence has a key."""

    k: torch.Tensor
    v: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor

    def keys(self, b: int, page_size: int, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of a sequence in float64: (length, kv_heads, head_dim)."""
        j = torch.arange(int(self.lengths[b]))
        pages, slots = self.table[b, j // page_size].long(), j % page_size
        pools = [pool if layout == "bshd" else pool.transpose(1, 2) for pool in (self.k, self.v)]
        k, v = (pool[pages, slots].double() for pool in pools)
        return k, v


def make_cache(
    draw: random.Random,
    lengths: list[int],
    page_size: int,
    kv_heads: int,
    dims: tuple[int, int],
    dtype: torch.dtype,
    layout: str = "bshd",
    strided: bool = False,
    columns: int = 0,
) -> Cache:
    """Return a cache whose pages are in random order; sequences of equal first keys share a page where the draw says so."""
    used = [-(-length // page_size) for length in lengths]
    columns = columns or max([*used, 1]) + draw.randint(0, 2)
    pages = sum(used) + 3
    order = draw.sample(range(pages), pages)
    table = torch.tensor([[draw.choice(GARBAGE) for _ in range(columns + 1)] for _ in lengths], dtype=torch.int32)
    table = table[:, :columns] if draw.random() < 0.5 else table[:, :columns].contiguous()
    slots = torch.zeros(pages, page_size, dtype=torch.bool)
    for b, count in enumerate(used):
        for i in range(count):
            whole = (i + 1) * page_size <= min(lengths[b], lengths[b - 1] if b else 0)
            page = int(table[b - 1, i]) if whole and draw.random() < 0.4 else order.pop()
            table[b, i] = page
            slots[page, : lengths[b] - i * page_size] = True
    pools = []
    for dim in dims:
        shape = (pages, page_size, kv_heads, dim) if layout == "bshd" else (pages, kv_heads, page_size, dim)
        pool = torch.full(shape, torch.nan, dtype=dtype)
        if strided:  # K and V in one array, with a gap after each row
            pool = torch.full((pages, 2, *shape[1:-1], dim + 8), torch.nan, dtype=dtype)[:, 1, ..., :dim]
        known = pool if layout == "bshd" else pool.transpose(1, 2)
        known[slots] = torch.randn(int(slots.sum()), kv_heads, dim).to(dtype)
        pools.append(pool)
    return Cache(*pools, table, torch.tensor(lengths, dtype=torch.int32))


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return o (seq_q, heads, head_dim_v) and lse (heads, seq_q) of one sequence in float64."""
    seq_q, heads, dim = q.shape
    group = heads // k.shape[1]
    k, v = (one.repeat_interleave(group, 1) for one in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * options.get("scale", dim**-0.5)
    cap = options.get("softcap", 0.0)
    scores = cap * torch.tanh(scores / cap) if cap else scores
    if "score_mod" in options:
        scores = scores + torch.arange(heads)[:, None, None] * 0.25
    position = torch.arange(seq_q)[:, None] + len(k) - seq_q
    distance = position - torch.arange(len(k))
    if "alibi_slopes" in options:
        scores = scores - options["alibi_slopes"].double()[:, None, None] * distance.abs()
    left, right = options.get("window", (None, None))
    hidden = torch.zeros(seq_q, len(k), dtype=torch.bool)
    hidden |= (distance < 0) if options.get("causal") else hidden
    hidden |= (distance > left) if left is not None else hidden
    hidden |= (-distance > right) if right is not None else hidden
    if "mask_mod" in options:
        hidden |= (torch.arange(len(k)) % 3 == 1)[None]
    scores = scores.masked_fill(hidden, -torch.inf)
    if "sinks" in options:
        scores = torch.cat([scores, options["sinks"].double()[:, None, None].expand(heads, seq_q, 1)], -1)
    lse = torch.logsumexp(scores, -1) if scores.shape[-1] else torch.full((heads, seq_q), -torch.inf, dtype=torch.float64)
    weights = torch.exp(scores - lse[..., None]).nan_to_num()[..., : len(k)]
    return torch.einsum("hqk,khd->qhd", weights, v), lse


def mods(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with functions for the names of mods."""

    def more(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + h * 0.25

    def some(b: Any, h: Any, q: Any, k: Any) -> Any:
        return k % 3 != 1

    functions = {"score_mod": more, "mask_mod": some}
    return {name: functions.get(name, value) for name, value in options.items()}


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    # Values are below 6, weights sum to 1 and are rounded to the dtype, as is the result. Scores, below 16, are sums of at
    # most 24 products, whose roundings change weights by as much.
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=6 * (4 * EPS[dtype] + 16 * 24 * EPS[torch.float32]))


PAGE_SIZES = (1, 7, 16, 64, 256)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"causal": True, "window": (5, None), "softcap": 2.0},
    {"window": (9, 2), "scale": 0.5},
    {"alibi": True, "sinks": True, "causal": True},
    {"score_mod": True, "mask_mod": True},
]


#: Fixed ones, and two of the day; the number of a seed that fails goes into the list.
SEEDS = [*range(20), *(int(time.time()) // 86400 * 2 + i for i in range(2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_problems(seed: int) -> None:
    draw = random.Random(seed)
    page_size, options = PAGE_SIZES[seed % 5], dict(OPTIONS[seed % 6])
    dtype = (torch.float32, torch.bfloat16, torch.float16)[seed % 3]
    layout = "bhsd" if seed % 4 == 1 else "bshd"
    kv_heads = (1, 2, 2)[seed % 3]
    heads, dims = kv_heads * (1, 4)[seed % 2], ((16, 16), (24, 40))[seed // 5 % 2]
    packed = seed % 7 in (2, 5)
    batch = draw.randint(1, 4)
    queries = [draw.choice((0, 1, 2, 9)) for _ in range(batch)] if packed else [(1, 1, 3, 17)[seed % 4]] * batch
    borders = (0, 1, page_size - 1, page_size, page_size + 1, 40)
    lengths = [draw.choice(borders) for _ in range(batch)]
    cache = make_cache(draw, lengths, page_size, kv_heads, dims, dtype, layout, strided=seed % 3 == 0)
    if options.pop("alibi", False):
        options["alibi_slopes"] = torch.rand(heads)
    if options.get("sinks"):
        options["sinks"] = torch.randn(heads)
    start = draw.randint(0, 2) if packed else 0
    total = start + sum(queries) + (2 if packed else 0)
    q = torch.randn(total, heads, dims[0]).to(dtype)
    arguments: dict[str, Any] = {"layout": layout, **mods(options)}
    if packed:
        starts = [start]
        for count in queries:
            starts.append(starts[-1] + count)
        arguments |= {"cu_seqlens_q": torch.tensor(starts, dtype=torch.int32), "max_seq_q": max([1, *queries])}
        given = q
    else:
        given = q.unflatten(0, (batch, -1))
        given = given.transpose(1, 2) if layout == "bhsd" else given
    o, lse = tt.paged_attention(given, cache.k, cache.v, cache.table, cache.lengths, return_lse=True, **arguments)
    if not packed:
        o = o.transpose(1, 2) if layout == "bhsd" else o
        assert o.shape == (batch, queries[0], heads, dims[1]) and lse.shape == (batch, heads, queries[0])
        o, lse = o.flatten(0, 1), lse.transpose(0, 1).flatten(1)
    at = start
    for b, count in enumerate(queries):
        k, v = cache.keys(b, page_size, layout)
        expected, exact_lse = reference(q[at : at + count], k, v, options)
        close(o[at : at + count], expected, dtype)
        torch.testing.assert_close(lse[:, at : at + count].double(), exact_lse, rtol=0, atol=16 * 24 * EPS[torch.float32])
        at += count
    outside = [*range(start), *range(at, total)]
    assert not o[outside].any() and lse[:, outside].eq(-torch.inf).all()


def small(page_size: int = 7, dtype: torch.dtype = torch.float32, lengths: tuple[int, ...] = (9, 0, 15)) -> Any:
    cache = make_cache(random.Random(3), list(lengths), page_size, 2, (16, 16), dtype, columns=4)
    return torch.randn(len(lengths), 1, 4, 16).to(dtype), cache


def expected_of(q: torch.Tensor, cache: Cache, page_size: int = 7, **options: Any) -> torch.Tensor:
    rows = [reference(q[b], *cache.keys(b, page_size, "bshd"), options)[0] for b in range(len(q))]
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
        expected, _ = reference(q[b], k[b, :length].double(), v[b, :length].double(), {"causal": True})
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
        close(o[b], reference(q[b], k[seen], v[seen], {})[0], torch.float32)


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
