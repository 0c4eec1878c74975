"""attention."""

from __future__ import annotations

from typing import Any

import torch

from ..mods import Mod
from ..options import score_options
from .attention_operators import BACKWARD, FORWARD, backward_options, cast, run_attention
from .launchers import Gradient, Launcher, by_options, eager_launcher
from .transforms import is_compiling

__all__ = ["attention"]

#: The tensors of eager calls.
_EAGER = ("q", "k", "v", "alibi_slopes", "sinks")


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
        result = _eager(return_lse, layout, causal, window, scale, softcap)(q, k, v, alibi_slopes, sinks)
        if result is not NotImplemented:
            return result
    q, k, v = cast(q, q, k, v)
    if not dropout:
        rng_state = None
    elif rng_state is None:
        rng_state = torch.randint(2**62, (2,), device=q.device)
    tensors = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks, "rng_state": rng_state}
    options = {"layout": layout, **score_options(causal, window, scale, softcap), "dropout": float(dropout)}
    result = run_attention("attention", tensors, options, score_mod, mask_mod)
    return tuple(result) if return_lse else result[0]


@by_options
def _eager(
    return_lse: bool,
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
) -> Launcher:
    values = FORWARD.values(layout=layout, **score_options(causal, window, scale, softcap))
    options = backward_options(values)
    backward = [BACKWARD.values(**options, deterministic=flag) for flag in (False, True)]

    def gradient(*saved: Any) -> Any:
        *tensors, dout = saved
        given = dict(zip((*_EAGER[:3], "o", "lse", *_EAGER[3:]), tensors, strict=True))
        values = backward[torch.are_deterministic_algorithms_enabled()]
        return BACKWARD.overload(*BACKWARD.arguments({**given, "dout": dout.to(given["q"].dtype)}, values))[:3]

    return eager_launcher(
        "attention",
        FORWARD.prepare(values, _EAGER),
        not_in_autocast=True,
        returned=2 if return_lse else 1,
        gradient=Gradient(3, 1, (0, 1, 2, 5, 6, 3, 4), gradient),
    )
