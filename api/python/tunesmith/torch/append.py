"""kv_append."""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import DTYPES
from .launchers import Prepared, by_options, launcher, plain
from .launching import launch
from .operators import register_fake
from .transforms import reject_gradients

__all__ = ["kv_append"]

_TENSORS = (
    *("k", "v", "k_cache", "v_cache", "slot_mapping", "q", "positions", "cos_sin"),
    *("q_weight", "k_weight", "k_scale", "v_scale"),
)
_WRITTEN = ("k_cache", "v_cache")


def kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    q: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
    cos_sin: torch.Tensor | None = None,
    rope: str = "neox",
    q_weight: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    layout: str = "bshd",
) -> torch.Tensor | None:
    """Write keys and values of tokens to a KV cache in pages; return the queries that belong to them, or None without q.

    k: (tokens, kv_heads, head_dim), v: (tokens, kv_heads, head_dim_v), q: (tokens, heads, head_dim), with any stride from
    token to token; other strides cost a copy. k_cache, v_cache: (pages, page_size, kv_heads, head_dim), with layout "bhsd"
    (pages, kv_heads, page_size, head_dim), in any strides but head_dim's, at addresses that are multiples of 16 bytes;
    written in place. slot_mapping: int64 (tokens), page * page_size + slot in the page, each slot once; a token with a
    negative slot is not appended, but its queries are computed.

    With cos_sin (max_positions, rotary_dim), cosines and then sines, and positions, int64 (tokens), its rows: the first
    rotary_dim elements of the heads of q and k are rotated. rope: "neox" pairs elements i and i + rotary_dim / 2, "gpt-j"
    elements 2 i and 2 i + 1. With k_weight, and q_weight where there is q, (head_dim): heads are divided by their root mean
    square first, and multiplied by weight + weight_offset. The cache has k's dtype or is torch.float8_e4m3fn; then k_scale
    and v_scale, float32 (1) or (kv_heads), divide what is stored.

    Nothing is read on the host: a CUDA graph serves all steps. There is no gradient.
    """
    tensors = (k, v, k_cache, v_cache, slot_mapping, q, positions, cos_sin, q_weight, k_weight, k_scale, v_scale)
    named = dict(zip(_TENSORS, tensors, strict=True))
    reject_gradients("kv_append", **{name: one for name, one in named.items() if name not in ("slot_mapping", "positions")})
    for one, other in (("cos_sin", "positions"), ("k_scale", "v_scale")):
        if (named[one] is None) != (named[other] is None):
            missing, given = (one, other) if named[one] is None else (other, one)
            raise ValueError(f"kv_append: {missing} is missing; expected with {given}")
    if q_weight is not None and k_weight is None:
        raise ValueError("kv_append: k_weight is missing; expected with q_weight")
    found = torch.ops.tunesmith.kv_append(*tensors, rope, float(eps), float(weight_offset), layout)
    return None if q is None else found


def _fields(tensors: dict[str, torch.Tensor | None], rope: str, eps: float, offset: float, layout: str) -> dict[str, Any]:
    """Return the problem's fields. Raises ValueError for shapes that disagree."""

    def given(name: str) -> torch.Tensor:
        tensor = tensors[name]
        assert tensor is not None
        return tensor

    k, v = given("k"), given("v")
    for name, dimensions in (("k", 3), ("v", 3), ("q", 3), ("k_cache", 4), ("v_cache", 4), ("cos_sin", 2)):
        tensor = tensors[name]
        if tensor is not None and tensor.dim() != dimensions:
            raise ValueError(f"kv_append: {name} has {tensor.dim()} dimensions; expected {dimensions}")
    slots, heads_at = (1, 2) if layout == "bshd" else (2, 1)
    fields: dict[str, Any] = {
        **{"tokens": k.shape[0], "kv_heads": k.shape[1], "head_dim": k.shape[2], "head_dim_v": v.shape[2]},
        **{"dtype": DTYPES[k.dtype], "cache_dtype": DTYPES[given("k_cache").dtype], "layout": layout},
        **{"page_size": given("k_cache").shape[slots], "pages": given("k_cache").shape[0]},
    }
    for name in ("k", "v"):
        fields[f"{name}_stride"] = given(name).stride(0)
        for of, dimension in (("page", 0), ("slot", slots), ("head", heads_at)):
            fields[f"{name}_{of}_stride"] = given(f"{name}_cache").stride(dimension)
    if tensors["q"] is not None:
        fields |= {"heads": given("q").shape[1], "q_stride": given("q").stride(0)}
    if tensors["cos_sin"] is not None:
        table = given("cos_sin")
        fields |= {"rope": rope, "max_positions": table.shape[0], "rotary_dim": table.shape[1]}
        fields["cos_sin_dtype"] = DTYPES[table.dtype]
    if tensors["k_weight"] is not None:
        weight_dtype = DTYPES[given("k_weight").dtype]
        fields |= {"qk_norm": True, "weight_dtype": weight_dtype, "eps": eps, "weight_offset": offset}
    if tensors["k_scale"] is not None:
        fields["scales"] = "tensor" if given("k_scale").numel() == 1 else "head"
    return fields


@by_options
def _launcher(rope: str, eps: float, weight_offset: float, layout: str) -> Any:
    def prepare(*given: torch.Tensor | None) -> Prepared | None:
        tensors = dict(zip(_TENSORS, given, strict=True))
        fields = _fields(tensors, rope, eps, weight_offset, layout)
        q = tensors["q"]
        outputs = {} if q is None else {"q_out": torch.empty(q.shape, dtype=q.dtype, device="meta")}
        return launch("kv_append", fields, tensors, outputs)

    return launcher("kv_append", prepare)


def _run(*arguments: Any) -> torch.Tensor:
    count = len(_TENSORS)
    run, tensors = _launcher(*arguments[count:]), arguments[:count]
    found = run(*tensors)
    if found is NotImplemented:  # inputs may be copied, but not the caches, which are written
        found = run(
            *(
                tensor if tensor is None or name in _WRITTEN else plain(tensor)
                for name, tensor in zip(_TENSORS, tensors, strict=True)
            )
        )
    if found is NotImplemented:
        raise ValueError(
            "kv_append: k_cache or v_cache cannot be written as it lies in memory; expected contiguous heads at addresses "
            "that are multiples of 16 bytes"
        )
    return found if isinstance(found, torch.Tensor) else arguments[0].new_empty((0,))


def _fake(*arguments: Any) -> torch.Tensor:
    q = arguments[_TENSORS.index("q")]
    return arguments[0].new_empty((0,)) if q is None else q.new_empty(q.shape)


_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define(
    "kv_append(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slot_mapping, Tensor? q, "
    "Tensor? positions, Tensor? cos_sin, Tensor? q_weight, Tensor? k_weight, Tensor? k_scale, Tensor? v_scale, "
    "str rope, float eps, float weight_offset, str layout) -> Tensor"
)
for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("kv_append", _run, _key)
register_fake("kv_append", _fake)
