"""Random calls of the functions over a KV cache, paged_attention and kv_append, and what they compute in float64."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import torch
from random_draws import Call, Draw

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
    columns: int = 0,
) -> Cache:
    """Return a cache whose pages are in random order; sequences of equal first keys share a page where the draw says so."""
    used = [-(-length // page_size) for length in lengths]
    columns = columns or max([*used, 1]) + draw.randint(0, 2)
    pages = sum(used) + 3
    order = draw.sample(range(pages), pages)
    table = torch.tensor([[draw.choice(GARBAGE) for _ in range(columns)] for _ in lengths], dtype=torch.int32)
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
        known = pool if layout == "bshd" else pool.transpose(1, 2)
        known[slots] = torch.randn(int(slots.sum()), kv_heads, dim).to(dtype)
        pools.append(pool)
    return Cache(*pools, table, torch.tensor(lengths, dtype=torch.int32))


def exact_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return o (seq_q, heads, head_dim_v) and lse (heads, seq_q) of one sequence in float64.

    options: of paged_attention; also bias, which is added to the scores of each head, and first, the first visible key.
    """
    seq_q, heads, dim = q.shape
    group = heads // k.shape[1]
    k, v = (one.repeat_interleave(group, 1) for one in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * options.get("scale", dim**-0.5)
    cap = options.get("softcap", 0.0)
    scores = cap * torch.tanh(scores / cap) if cap else scores
    if "bias" in options:
        scores = scores + options["bias"].double()[:, None, None]
    position = torch.arange(seq_q)[:, None] + len(k) - seq_q
    distance = position - torch.arange(len(k))
    if "alibi_slopes" in options:
        scores = scores - options["alibi_slopes"].double()[:, None, None] * distance.abs()
    left, right = options.get("window", (None, None))
    hidden = torch.zeros(seq_q, len(k), dtype=torch.bool)
    hidden |= (distance < 0) if options.get("causal") else hidden
    hidden |= (distance > left) if left is not None else hidden
    hidden |= (-distance > right) if right is not None else hidden
    hidden |= (torch.arange(len(k)) < options.get("first", 0))[None]
    scores = scores.masked_fill(hidden, -torch.inf)
    if "sinks" in options:
        scores = torch.cat([scores, options["sinks"].double()[:, None, None].expand(heads, seq_q, 1)], -1)
    lse = torch.logsumexp(scores, -1) if scores.shape[-1] else torch.full((heads, seq_q), -torch.inf, dtype=torch.float64)
    weights = torch.exp(scores - lse[..., None]).nan_to_num()[..., : len(k)]
    return torch.einsum("hqk,khd->qhd", weights, v), lse


def _scales(draw: Draw, cache: Cache, batch: int, kv_heads: int) -> dict[str, torch.Tensor]:
    """Return k_scale and v_scale of one kind, or none. Scales of rows without keys are NaN."""
    kind = draw.choice(["none", "tensor", "head", "batch_head", "token_head"])
    if kind == "none":
        return {}
    rows = cache.k.shape[:-1]
    shape = {"tensor": (1,), "head": (kv_heads,), "batch_head": (batch, kv_heads), "token_head": rows}[kind]
    found = {}
    for name in ("k_scale", "v_scale"):
        found[name] = torch.rand(shape, generator=draw.generator) + 0.25
        if kind == "token_head":
            found[name][cache.k.isnan().all(-1)] = torch.nan
    return found


def _scales_of(scale: torch.Tensor, cache: Cache, b: int, page_size: int, layout: str) -> torch.Tensor:
    """Return the scales of the keys of a sequence, or of its values, as (length or 1, kv_heads or 1, 1)."""
    if scale.dim() == 3:
        return dataclasses.replace(cache, k=scale[..., None], v=scale[..., None]).keys(b, page_size, layout)[0]
    return (scale[b] if scale.dim() == 2 else scale).double().view(1, -1, 1)


def paged_attention(draw: Draw) -> Call:
    import tunesmith.torch as tt
    from tunesmith import mods as tracer

    page_size, layout, dtype = draw.choice([1, 7, 16, 64]), draw.choice(["bshd", "bhsd"]), draw.dtype()
    kv_heads, batch, dims = draw.choice([1, 2]), draw.choice([1, 2, 4]), draw.choice([(16, 16), (24, 40)])
    heads = kv_heads * draw.choice([1, 4])
    lengths = [draw.choice([0, 1, page_size - 1, page_size, page_size + 1, 40]) for _ in range(batch)]
    paged = draw.maybe(0.8)
    if not paged:  # one page a sequence
        page_size = max(lengths) + draw.randrange(2) or 1
    cache = make_cache(draw, lengths, page_size, kv_heads, dims, dtype, layout)
    if not paged:
        order = [int(cache.table[b, 0]) if length else 0 for b, length in enumerate(lengths)]
        cache = Cache(cache.k[order], cache.v[order], torch.arange(batch, dtype=torch.int32)[:, None], cache.lengths)

    scales = _scales(draw, cache, batch, kv_heads) if (quantized := draw.maybe(0.3)) else {}
    if quantized:
        cache = dataclasses.replace(cache, k=cache.k.to(torch.float8_e4m3fn), v=cache.v.to(torch.float8_e4m3fn))

    packed = draw.maybe(0.3)
    queries = [draw.choice((0, 1, 2, 9)) for _ in range(batch)] if packed else [draw.choice([1, 1, 3, 17])] * batch
    start, rest = (draw.randrange(3), draw.randrange(3)) if packed else (0, 0)
    total = start + sum(queries) + rest
    if packed:
        q = draw.floats("q", total, heads, dims[0], dtype=dtype)
    else:
        order_of_q = (queries[0], heads) if layout == "bshd" else (heads, queries[0])
        q = draw.floats("q", batch, *order_of_q, dims[0], dtype=dtype)
    tensors = {
        "q": q,
        "k": draw.laid_out("k", cache.k, repeated=False),
        "v": draw.laid_out("v", cache.v, repeated=False),
        "kv_lengths": draw.laid_out("kv_lengths", cache.lengths, repeated=False),
        **{name: draw.laid_out(name, scale, repeated=False) for name, scale in scales.items()},
    }
    options: dict[str, Any] = {"layout": layout, "return_lse": True}
    if paged:
        tensors["block_table"] = draw.laid_out("block_table", cache.table, repeated=False)
        if draw.maybe():
            options["max_seq_kv"] = max([*lengths, 1])
    if packed:
        starts = torch.tensor([0, *queries]).cumsum(0).int() + start
        tensors["cu_seqlens_q"] = draw.laid_out("cu_seqlens_q", starts, repeated=False)
        if draw.maybe():
            options["max_seq_q"] = max([1, *queries])
    if draw.maybe(0.5):
        options["causal"] = True
    if draw.maybe(0.2):
        options["window"] = draw.choice([(5, None), (9, 2)])
    if draw.maybe(0.2):
        options["softcap"] = 2.0
    if draw.maybe(0.2):
        options["scale"] = 0.5
    for name in ("alibi_slopes", "sinks"):
        if draw.maybe(0.2):
            tensors[name] = draw.floats(name, heads)
    if draw.maybe():
        tensors["bias"] = draw.floats("bias", heads, dtype=draw.dtype())
    if draw.maybe():
        tensors["first"] = draw.integers("first", 8, batch, dtype=draw.choice([torch.int64, torch.int32, torch.uint8]))

    def function(bias: Any = None, first: Any = None) -> Callable[..., Any]:
        traced = {}
        if bias is not None:
            traced["score_mod"] = tracer.trace(lambda score, b, h, q, k: score + bias[h], "score_mod")
        if first is not None:
            traced["mask_mod"] = tracer.trace(lambda b, h, q, k: k >= first[b], "mask_mod")
        return lambda **others: tt.paged_attention(**{"block_table": None, **others, **traced, **options})

    def reference(q: Any, k: Any, v: Any, kv_lengths: Any, first: Any = None, **given: Any) -> Any:
        table = given.get("block_table", cache.table)
        known = Cache(k.float(), v.float(), table, kv_lengths) if quantized else Cache(k, v, table, kv_lengths)
        of_heads = {name: given[name] for name in ("alibi_slopes", "sinks", "bias") if name in given}
        rows = q if packed else (q if layout == "bshd" else q.transpose(1, 2)).flatten(0, 1)
        o = torch.zeros(total, heads, dims[1], dtype=torch.float64)
        lse = torch.full((heads, total), -torch.inf, dtype=torch.float64)
        at = start
        for b, count in enumerate(queries):
            visible = {} if first is None else {"first": int(first[b])}
            own = slice(at, at + count)
            keys, values = known.keys(b, page_size, layout)
            if scales:
                of_k, of_v = (_scales_of(given[name], known, b, page_size, layout) for name in ("k_scale", "v_scale"))
                keys, values = keys * of_k, values * of_v
            o[own], lse[:, own] = exact_attention(rows[own], keys, values, {**options, **of_heads, **visible})
            at += count
        if packed:
            return o, lse
        o = o.unflatten(0, (batch, -1))
        return o if layout == "bshd" else o.transpose(1, 2), lse.unflatten(1, (batch, -1)).transpose(0, 1)

    text = f"paged_attention({options}, {page_size=}, {lengths=}, {queries=}, {start=}, {rest=})"
    return Call(text, function, reference, tensors, [], "none", roundings=64, captured=("bias", "first"))


def exact_append(arguments: dict[str, Any]) -> list[torch.Tensor]:
    """Return q_out, if there is q, and the caches in float64. arguments: of kv_append."""

    def prepared(x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        x = x.double()
        if weight is not None:
            norm = torch.rsqrt(x.square().mean(-1, keepdim=True) + arguments.get("eps", 1e-6))
            x = x * norm * (weight.double() + arguments.get("weight_offset", 0.0))
        if arguments.get("cos_sin") is None:
            return x
        cos, sin = (one[:, None] for one in arguments["cos_sin"][arguments["positions"]].double().chunk(2, -1))
        half, rotated = cos.shape[-1], x.clone()
        pairs = (slice(0, half), slice(half, 2 * half))
        if arguments.get("rope") == "gpt-j":
            pairs = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        a, b = (x[..., pair] for pair in pairs)
        rotated[..., pairs[0]], rotated[..., pairs[1]] = a * cos - b * sin, b * cos + a * sin
        return rotated

    found = [prepared(arguments["q"], arguments.get("q_weight"))] if arguments.get("q") is not None else []
    for name in ("k", "v"):
        rows = arguments[name].double() if name == "v" else prepared(arguments["k"], arguments.get("k_weight"))
        if arguments.get(f"{name}_scale") is not None:
            rows = (rows / arguments[f"{name}_scale"].double().view(1, -1, 1)).clamp(-448, 448)
        cache = arguments[f"{name}_cache"].double().clone()
        pages = cache if arguments["layout"] == "bshd" else cache.transpose(1, 2)
        for t, slot in enumerate(arguments["slot_mapping"].tolist()):
            if slot >= 0:
                pages[slot // pages.shape[1], slot % pages.shape[1]] = rows[t]
        found.append(cache)
    return found


def _pool(draw: Draw, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return a cache that kv_append writes: heads are contiguous; between them lies NaN."""
    pool = torch.randn(shape, generator=draw.generator).to(dtype)
    layout = draw.choice(["contiguous", "permuted", "stepped", "padded", "offset"])
    order = [*draw.sample(range(3), 3), 3] if layout == "permuted" else [0, 1, 2, 3]
    step = draw.randrange(3) if layout == "stepped" else None
    wide = [2 * shape[i] if i == step else shape[i] for i in order]
    first = 16 // dtype.itemsize if layout == "offset" else 0
    wide[3] += 16 if layout == "padded" else 0
    memory = torch.full((first + torch.Size(wide).numel(),), torch.nan, dtype=torch.float32).to(dtype)
    view = memory[first:].view(wide)[..., : shape[3]].permute([order.index(i) for i in range(4)])
    draw.notes.append(f"{name}: {str(dtype).partition('.')[2]}{list(shape)} {layout}")
    return view[tuple(slice(None, None, 2 if i == step else None) for i in range(4))].copy_(pool)


def kv_append(draw: Draw) -> Call:
    import tunesmith.torch as tt

    tokens, kv_heads, heads = draw.choice([1, 4, 9]), draw.choice([1, 2]), draw.choice([1, 4])
    dim, dim_v, dtype = draw.choice([8, 32, 64]), draw.choice([8, 32]), draw.dtype()
    pages, page_size, layout = draw.choice([3, 6]), draw.choice([3, 4, 16]), draw.choice(["bshd", "bhsd"])
    quantized, rotated, normalized = draw.maybe(), draw.maybe(0.6), draw.maybe()
    shape = (pages, page_size, kv_heads) if layout == "bshd" else (pages, kv_heads, page_size)
    cached = torch.float8_e4m3fn if quantized else dtype
    slots = [slot if draw.maybe(0.8) else -1 - slot for slot in draw.sample(range(pages * page_size), tokens)]
    tensors = {
        "k": draw.floats("k", tokens, kv_heads, dim, dtype=dtype),
        "v": draw.floats("v", tokens, kv_heads, dim_v, dtype=dtype),
        "k_cache": _pool(draw, "k_cache", (*shape, dim), cached),
        "v_cache": _pool(draw, "v_cache", (*shape, dim_v), cached),
        "slot_mapping": draw.laid_out("slot_mapping", torch.tensor(slots), repeated=False),
    }
    options: dict[str, Any] = {"layout": layout}
    asked = (rotated or normalized) and draw.maybe(0.8)
    if asked:
        tensors["q"] = draw.floats("q", tokens, heads, dim, dtype=dtype)
    if rotated:
        width = draw.choice([dim, dim // 2 if dim > 8 else dim])
        angles = torch.rand(20, width // 2, generator=draw.generator) * 6
        tensors["positions"] = draw.integers("positions", 20, tokens)
        table = torch.cat([angles.cos(), angles.sin()], -1).to(draw.choice([torch.float32, dtype]))
        tensors["cos_sin"] = draw.laid_out("cos_sin", table)
        options["rope"] = draw.choice(["neox", "gpt-j"])
    if normalized:
        weight_dtype = draw.choice([torch.float32, dtype])
        for name in ("k_weight", "q_weight") if asked else ("k_weight",):
            tensors[name] = draw.floats(name, dim, dtype=weight_dtype)
        options |= {"eps": draw.choice([1e-6, 0.25]), "weight_offset": draw.choice([0.0, 1.0])}
    if quantized:
        count = draw.choice([1, kv_heads])
        for name in ("k_scale", "v_scale"):
            tensors[name] = draw.laid_out(name, torch.rand(count, generator=draw.generator) * 0.05 + 0.005)

    def function(**given: Any) -> Any:
        q_out = tt.kv_append(**given, **options)
        caches = given["k_cache"], given["v_cache"]
        return caches if q_out is None else (q_out, *caches)

    def reference(**given: Any) -> Any:
        return tuple(exact_append({**given, **options}))

    text = f"kv_append({options}, {slots=})"
    return Call(text, function, reference, tensors, [], "none", roundings=2, written=("k_cache", "v_cache"))
