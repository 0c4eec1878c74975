"""rms_norm."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..row_programs import rms_norm_gradient
from .calls import DTYPES, alike
from .operators import Operator, columns_of
from .row_program import run_program

__all__ = ["rms_norm"]

FORWARD = Operator("rms_norm", results=["y"])


@functools.partial(jax.jit, static_argnames=("eps", "weight_offset"))
def rms_norm(x: jax.Array, weight: jax.Array | None = None, *, eps: float = 1e-6, weight_offset: float = 0.0) -> jax.Array:
    """x / sqrt(mean(x^2) + eps) * (weight + weight_offset) over the last axis. weight: in the dtype of x or float32."""
    if weight is None and weight_offset:
        raise ValueError(f"weight_offset is {weight_offset}; allowed: only with a weight")
    given = alike(columns_of(x, -1), weight)
    arrays = {name: array for name, array in zip(("x", "weight"), given, strict=True) if array is not None}
    return _function(float(eps), float(weight_offset))(arrays).reshape(x.shape)


@functools.lru_cache(maxsize=512)
def _function(eps: float, weight_offset: float) -> Any:
    options = {"eps": eps, "weight_offset": weight_offset}

    @jax.custom_vjp
    def run(arrays: dict[str, jax.Array]) -> jax.Array:
        return FORWARD(arrays, options)["y"]

    def forward(given: dict[str, Any]) -> Any:
        arrays = {name: one.value for name, one in given.items()}
        return run(arrays), (arrays, {name: () for name, one in given.items() if one.perturbed})

    def backward(saved: Any, dy: Any) -> Any:
        arrays, wanted = saved
        if isinstance(dy, jax.custom_derivatives.SymbolicZero) or not arrays["x"].size:
            return (jax.tree.map(jnp.zeros_like, arrays),)
        x, weight = arrays["x"], arrays.get("weight")
        kind = None if weight is None else "float" if weight.dtype == x.dtype else DTYPES[weight.dtype]
        text = rms_norm_gradient(kind, weight_offset != 0, "weight" in wanted)
        numbers = f"eps={eps!r}" + (f";offset={weight_offset!r}" if weight_offset else "")
        found = run_program(text, numbers, [x, *([] if weight is None else [weight]), dy])
        gradients = dict(zip(("x", "weight"), found, strict=False))
        return ({name: gradients.get(name) for name in arrays},)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run
