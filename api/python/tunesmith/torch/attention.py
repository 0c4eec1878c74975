"""attention."""

from __future__ import annotations

from typing import Any

import torch

from ..mods import Mod, Traced, trace
from .attention_fields import check_transforms, score_options
from .attention_gradients import recorded, transformed
from .attention_operators import prepare_attention
from .launching import (
    Gradient,
    Launcher,
    autocast_dtype,
    by_options,
    eager_launcher,
    is_compiling,
    is_eager,
    is_transformed,
    needs_grad,
    one_line,
)

__all__ = ["attention"]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool | str = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    rng_state: torch.Tensor | None = None,
    score_mod: Mod | str | None = None,
    mask_mod: Mod | str | None = None,
    layout: str = "bshd",
    return_lse: bool = False,
) -> Any:
    """softmax(scale * q k^T) v for each head.

    q: (batch, seq_q, heads, head_dim), k and v: (batch, seq_kv, kv_heads, head_dim), or with heads before seq if layout is
    "bhsd"; kv_heads divides heads. causal: True aligns the last query with the last key, as "bottom-right"; "top-left" the
    first ones. window: visible keys before and after a query's position. alibi_slopes, sinks: float32, one for each head.
    dropout: probability with which a weight is dropped; the others are divided by 1 - dropout. rng_state: its seed and
    offset, int64 (2) on the device; default: drawn from torch's generator, so torch.manual_seed() and CUDA graphs work as
    they do for torch's dropout. Equal numbers give an equal mask, whichever kernel runs.
    score_mod(score, b, h, q, k) and mask_mod(b, h, q, k): Python functions of numbers, traced to CUDA (tunesmith.mods), or
    CUDA source. return_lse: also return the log-sum-exp of the scores, float32 (batch, heads, seq_q), without a gradient.

    Differentiable with respect to q, k, v, alibi_slopes, sinks and the tensors that score_mod reads. Under autocast, q, k
    and v are cast as torch's attention casts them.
    """
    if score_mod is None and mask_mod is None and not dropout and not is_compiling():
        result = _eager(return_lse, layout, causal, window, scale, softcap)(q, k, v, alibi_slopes, sinks, None)
        if result is not NotImplemented:
            return result
    dtype = autocast_dtype(q)
    if dtype is not None:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    score, mask = trace(score_mod, "score_mod"), trace(mask_mod, "mask_mod")
    options = _options(layout, causal, window, scale, softcap, dropout, score, mask)
    if not dropout:
        rng_state = None
    elif rng_state is None:
        rng_state = torch.randint(2**62, (2,), device=q.device)
    arrays = [*score.arrays, *mask.arrays]
    if is_transformed() and not arrays:
        check_transforms("attention", alibi_slopes, sinks)
        result = transformed(q, k, v, alibi_slopes, sinks, rng_state, arrays, *options)
    elif is_eager(q, k, v, *arrays) and needs_grad(q, k, v, alibi_slopes, sinks, *arrays):
        result = recorded(q, k, v, alibi_slopes, sinks, rng_state, *options, *arrays)
    else:
        result = torch.ops.tunesmith.attention(q, k, v, alibi_slopes, sinks, rng_state, arrays, *options)
    return tuple(result) if return_lse else result[0]


def _options(
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
    dropout: float,
    score: Traced,
    mask: Traced,
) -> tuple[Any, ...]:
    """Return the options of the operators."""
    return (
        layout,
        *score_options(causal, window, scale, softcap),
        float(dropout),
        one_line(score.source),
        one_line(mask.source),
        _aux(score, mask),
    )


def _aux(score: Traced, mask: Traced) -> str:
    """Declare the arrays that the traced functions read."""
    return ";".join([*score.declarations, *mask.declarations])


@by_options
def _eager(
    return_lse: bool,
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
) -> Launcher:
    none = Traced("")
    options = _options(layout, causal, window, scale, softcap, 0.0, none, none)

    def gradient(*tensors: Any) -> Any:
        *forward, dout = tensors
        deterministic = torch.are_deterministic_algorithms_enabled()
        return torch.ops.tunesmith.attention_backward(dout, *forward, None, [], *options, "", deterministic)[:3]

    recording = Gradient(3, 1, (0, 1, 2, 6, 7, 3, 4), gradient)
    returned = 2 if return_lse else 1
    return eager_launcher(
        "attention", prepare_attention(*options), not_in_autocast=True, returned=returned, gradient=recording
    )
