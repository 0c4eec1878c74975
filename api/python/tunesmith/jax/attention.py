"""attention."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..mods import Traced
from ..options import score_options
from ..signature import names_of
from .calls import alike
from .linear_losses import materialized
from .mods import Mod, trace
from .operators import Operator

__all__ = ["attention"]

#: Of packed sequences and paged caches, and dropout.
_LATER = ("varlen", "cu_seqlens_q", "cu_seqlens_kv", "kv_lengths", "page_size", "pages", "max_pages", "block_table")
_WITHOUT = (*_LATER, "block_table_stride", "split_keys", "total_q", "total_kv", "rng_state", "dropout")
FORWARD = Operator("attention", without=_WITHOUT, results=["o", "lse"], over="batch")
BACKWARD = Operator("attention_backward", without=_WITHOUT, results=["dq", "dk", "dv"], over="batch")
#: The gradients of arrays with one number for each head.
_OF_HEADS = {"sinks": "dsinks", "alibi_slopes": "dslopes"}


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool | str = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: jax.Array | None = None,
    sinks: jax.Array | None = None,
    score_mod: Mod | Traced | str | None = None,
    mask_mod: Mod | Traced | str | None = None,
    layout: str = "bshd",
    deterministic: bool = False,
    return_lse: bool = False,
) -> Any:
    """softmax(scale * q k^T) v for each head.

    q: (batch, seq_q, heads, head_dim), k and v: (batch, seq_kv, kv_heads, head_dim), or with heads before seq if layout is
    "bhsd"; kv_heads divides heads. causal: True aligns the last query with the last key, as "bottom-right"; "top-left" the
    first ones. window: visible keys before and after a query's position. alibi_slopes, sinks: float32, one for each head.
    score_mod(score, b, h, q, k) and mask_mod(b, h, q, k): Python functions of JAX numbers, such as
    lambda b, h, q, k: q >= k, which are traced to CUDA (tunesmith.jax.mods), or CUDA source. return_lse: also return the
    log-sum-exp of the scores, float32 (batch, heads, seq_q), without a gradient. deterministic: the same bits in each
    backward pass.

    Differentiable with respect to q, k, v, alibi_slopes, sinks and the arrays that score_mod reads. tunesmith.torch
    alone has dropout, packed sequences and paged caches.
    """
    score, mask = trace(score_mod, "score_mod"), trace(mask_mod, "mask_mod")
    declarations = [*score.declarations, *mask.declarations]
    mods = dict(zip(names_of(";".join(declarations)), [*score.arrays, *mask.arrays], strict=True))
    options = {
        **score_options(causal, window, scale, softcap),
        "layout": layout,
        "score_mod": score.source,
        "mask_mod": mask.source,
        "aux": ";".join(declarations),
    }
    given = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks, **mods}
    arrays = {name: jnp.asarray(array) for name, array in given.items() if array is not None}
    arrays = dict(zip(arrays, alike(*arrays.values()), strict=True))
    o, lse = _function(tuple(options.items()), deterministic)(arrays)
    return (o, jax.lax.stop_gradient(lse)) if return_lse else o


@functools.lru_cache(maxsize=512)
def _function(items: tuple[tuple[str, Any], ...], deterministic: bool) -> Any:
    options = dict(items)

    @jax.custom_vjp
    def run(arrays: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found = FORWARD(arrays, options)
        return found["o"], found["lse"]

    def forward(given: dict[str, Any]) -> Any:
        arrays = {name: one.value for name, one in given.items()}
        o, lse = run(arrays)
        wanted = {name: () for name, one in given.items() if one.perturbed and (name in _OF_HEADS or name.startswith("s"))}
        return (o, lse), (arrays, o, lse, wanted)

    def backward(saved: Any, gradients: Any) -> Any:
        arrays, o, lse, wanted = saved
        heads = {name: gradient for name, gradient in _OF_HEADS.items() if name in wanted}
        mods = {name: f"daux_{name}" for name in wanted if name not in heads}
        also = [*heads.values(), *mods.values()]
        with_gradients = {**options, **dict.fromkeys(heads.values(), True), "daux": ";".join(mods)}
        given = {**arrays, "o": o, "lse": lse, "dout": materialized(gradients[0])}
        found = BACKWARD(given, {**with_gradients, "deterministic": deterministic}, also)
        results = {name: found[f"d{name}"] for name in ("q", "k", "v")}
        for name, gradient in {**heads, **mods}.items():
            results[name] = found[gradient].reshape(arrays[name].shape).astype(arrays[name].dtype)
        return ({name: results.get(name) for name in arrays},)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return jax.jit(run)
