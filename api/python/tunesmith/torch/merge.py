"""merge_attention_parts."""

from __future__ import annotations

import math
from typing import Any

import torch

from .dtypes import DTYPES, TORCH_DTYPES
from .launchers import Prepared, by_options, launcher
from .launching import launch
from .operators import register_fake

__all__ = ["merge_attention_parts"]


def merge_attention_parts(
    o_parts: torch.Tensor,
    lse_parts: torch.Tensor,
    *,
    layout: str = "bshd",
    lse_base: str = "e",
    out_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o and lse of attention over all keys, from those over any number of parts of the keys.

    o_parts: (parts, batch, seq_q, heads, head_dim), with layout "bhsd" (parts, batch, heads, seq_q, head_dim), and
    lse_parts: float32 (parts, batch, heads, seq_q), as attention(..., return_lse=True) returns them for each part; or
    packed queries, (parts, total_q, heads, head_dim) and (parts, heads, total_q); or rows, (parts, rows, head_dim) and
    (parts, rows). Parts may have any distance; otherwise tensors that are not contiguous are copied. lse_base: "e", or
    "two" for logarithms of base 2. out_dtype: of o, default that of o_parts; sums are float32.

    Parts without keys (lse -inf) add nothing, whatever their o holds. o and lse have gradients.
    """
    if lse_parts.dtype != torch.float32:
        raise ValueError(f"merge_attention_parts: lse_parts is {lse_parts.dtype}; expected torch.float32")
    return torch.ops.tunesmith.merge_attention_parts(
        o_parts, lse_parts, layout, lse_base, DTYPES[out_dtype or o_parts.dtype]
    )


def _sizes(o_parts: torch.Tensor, lse_parts: torch.Tensor, layout: str) -> dict[str, Any]:
    """Return the problem's sizes. Raises ValueError for shapes that disagree."""
    parts, middle, head_dim = o_parts.shape[0], o_parts.shape[1:-1], o_parts.shape[-1]
    if len(middle) == 3:
        batch, first, second = middle
    elif len(middle) == 2:
        batch, first, second = 1, middle[0], middle[1]
    elif len(middle) == 1:
        batch, first, second = (1, middle[0], 1) if layout == "bshd" else (1, 1, middle[0])
    else:
        raise ValueError(f"merge_attention_parts: o_parts has {o_parts.dim()} dimensions; expected 3 to 5")
    seq_q, heads = (first, second) if layout == "bshd" else (second, first)
    expected = ((parts, batch, heads, seq_q), (parts, heads, seq_q), (parts, seq_q))[3 - len(middle)]
    if tuple(lse_parts.shape) != expected:
        raise ValueError(f"merge_attention_parts: lse_parts is {tuple(lse_parts.shape)}; expected {expected}")
    return {"parts": parts, "batch": batch, "heads": heads, "seq_q": seq_q, "head_dim": head_dim}


def _with_close_rows(parts: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy if one part is not contiguous."""
    return parts if parts[:1].is_contiguous() else parts.contiguous()


@by_options
def _launcher(layout: str, lse_base: str, out_dtype: str) -> Any:
    def prepare(*given: torch.Tensor | None) -> Prepared | None:
        o_parts, lse_parts = given
        assert o_parts is not None
        assert lse_parts is not None
        fields = _sizes(o_parts, lse_parts, layout)
        fields |= {"dtype": DTYPES[o_parts.dtype], "out_dtype": out_dtype, "layout": layout, "lse_base": lse_base}
        fields |= {"o_part_stride": o_parts.stride(0), "lse_part_stride": lse_parts.stride(0)}
        outputs = {
            "o": torch.empty(o_parts.shape[1:], dtype=TORCH_DTYPES[out_dtype], device="meta"),
            "lse": torch.empty(lse_parts.shape[1:], dtype=torch.float32, device="meta"),
        }
        return launch("merge_attention_parts", fields, {"o_parts": o_parts, "lse_parts": lse_parts}, outputs)

    return launcher("merge_attention_parts", prepare)


def _run(o_parts: torch.Tensor, lse_parts: torch.Tensor, *options: str) -> Any:
    found = _launcher(*options)(_with_close_rows(o_parts), _with_close_rows(lse_parts))
    if found is NotImplemented:
        found = _launcher(*options)(o_parts.contiguous(), lse_parts.contiguous())
    return tuple(found)


def _fake(o_parts: torch.Tensor, lse_parts: torch.Tensor, layout: str, lse_base: str, out_dtype: str) -> Any:
    _sizes(o_parts, lse_parts, layout)
    return o_parts.new_empty(o_parts.shape[1:], dtype=TORCH_DTYPES[out_dtype]), lse_parts.new_empty(lse_parts.shape[1:])


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    o_parts, lse_parts, ctx.layout, ctx.lse_base, _ = inputs
    ctx.save_for_backward(o_parts, lse_parts, *output)


def _gradient(ctx: Any, do: torch.Tensor, dlse: torch.Tensor) -> Any:
    o_parts, lse_parts, o, lse = ctx.saved_tensors
    unit = 1.0 if ctx.lse_base == "e" else math.log(2)
    weights = torch.where(lse_parts == -torch.inf, 0, ((lse_parts - lse) * unit).exp())
    if ctx.layout == "bshd" and o.dim() > 2:  # rows in the order of o
        of_rows, dlse = weights.transpose(-1, -2).unsqueeze(-1), dlse.transpose(-1, -2)
    else:
        of_rows = weights.unsqueeze(-1)
    upstream = do.float()
    without_keys = of_rows == 0
    apart = torch.where(without_keys, 0, o_parts.float() - o.float())
    d_parts = (of_rows * upstream).to(o_parts.dtype)
    d_logarithms = of_rows.squeeze(-1) * (unit * (upstream * apart).sum(-1) + dlse)
    if ctx.layout == "bshd" and o.dim() > 2:
        d_logarithms = d_logarithms.transpose(-1, -2)
    return d_parts, d_logarithms, None, None, None


_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define(
    "merge_attention_parts(Tensor o_parts, Tensor lse_parts, str layout, str lse_base, str out_dtype) -> (Tensor, Tensor)"
)
for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("merge_attention_parts", _run, _key)
register_fake("merge_attention_parts", _fake)
torch.library.register_autograd("tunesmith::merge_attention_parts", _gradient, setup_context=_setup_context)
