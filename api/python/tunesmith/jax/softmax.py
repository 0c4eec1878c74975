"""softmax and log_softmax."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from .operators import Operator, columns_of

__all__ = ["log_softmax", "softmax"]

_NAMES = ("softmax", "log_softmax")
FORWARD = {name: Operator(name, without=["out_dtype"], results=["y"]) for name in _NAMES}
BACKWARD = {name: Operator(f"{name}_backward", without=["out_dtype"], results=["dx"]) for name in _NAMES}


@functools.partial(jax.jit, static_argnames=("axis", "scale", "causal", "safe"))
def softmax(x: jax.Array, axis: int = -1, *, scale: float = 1.0, causal: bool = False, safe: bool = False) -> jax.Array:
    """softmax(scale * x) along an axis, as jax.nn.softmax; no axis takes a copy.

    Computed in float32, in float64 if x is of it. causal: mask columns after the diagonal of square matrices.
    safe: fully masked rows give zeros instead of NaN.
    """
    return _run("softmax", x, axis, scale, causal, safe)


@functools.partial(jax.jit, static_argnames=("axis", "scale", "causal", "safe"))
def log_softmax(x: jax.Array, axis: int = -1, *, scale: float = 1.0, causal: bool = False, safe: bool = False) -> jax.Array:
    """The logarithm of softmax(), as jax.nn.log_softmax."""
    return _run("log_softmax", x, axis, scale, causal, safe)


def _run(name: str, x: jax.Array, axis: int, scale: float, causal: bool, safe: bool) -> jax.Array:
    function = _function(name, float(scale), causal, safe)
    if causal and axis not in (-1, x.ndim - 1):  # the diagonal is that of the last two dimensions
        return jnp.moveaxis(_run(name, jnp.moveaxis(x, axis, -1), -1, scale, causal, safe), -1, axis)
    return function(columns_of(x, axis)).reshape(x.shape)


@functools.lru_cache(maxsize=512)
def _function(name: str, scale: float, causal: bool, safe: bool) -> Any:
    options = {"scale": scale, "causal": causal, "safe": safe}

    @jax.custom_vjp
    def run(x: jax.Array) -> jax.Array:
        return FORWARD[name]({"x": x}, options)["y"]

    def forward(x: jax.Array) -> Any:
        y = run(x)
        return y, y

    def backward(y: jax.Array, dy: jax.Array) -> Any:
        return (BACKWARD[name]({"dy": dy, "y": y}, options)["dx"],)

    run.defvjp(forward, backward)
    return run
