"""cross_entropy."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from .calls import alike
from .operators import Operator, columns_of

__all__ = ["cross_entropy"]

FORWARD = Operator("cross_entropy", without=["dloss"], results=["loss", "lse"])
BACKWARD = Operator("cross_entropy_backward", without=["vocab_start", "vocab_size"], results=["dlogits"])
#: Arguments that are numbers or words.
OPTIONS = ("ignore_index", "reduction", "label_smoothing", "z_loss", "softcap", "scale")


@functools.partial(jax.jit, static_argnames=("axis", *OPTIONS, "return_lse"))
def cross_entropy(
    logits: jax.Array,
    targets: jax.Array,
    weight: jax.Array | None = None,
    *,
    axis: int = -1,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
    return_lse: bool = False,
) -> Any:
    """Cross-entropy of logits with the classes along an axis, and of class indices in the shape of the other axes.

    reduction: "mean", as PyTorch's over targets that are not ignore_index, "sum" or "none". weight: of the classes, without
    a gradient. The loss is float32, or float64 for float64 logits. z_loss: factor of lse^2. softcap: logits become
    softcap * tanh(scale * logits / softcap); 0: none. return_lse: also return the log of the sum of exponentials in the
    shape of targets; gradients flow through it. For class probabilities use the row program soft_cross_entropy().
    """
    if not jnp.issubdtype(targets.dtype, jnp.integer):
        raise ValueError(f"targets are {targets.dtype}; expected class indices (or use soft_cross_entropy)")
    given = columns_of(logits, axis)
    others = logits.shape[: axis % logits.ndim] + logits.shape[axis % logits.ndim + 1 :]
    if targets.shape != others:
        raise ValueError(f"targets have the shape {targets.shape}; expected {others}")
    arrays = {"logits": given, "targets": index_array(targets).reshape(given.shape[:1] + given.shape[2:])}
    if weight is not None:
        arrays["weight"] = jax.lax.stop_gradient(weight).astype(jnp.promote_types(given.dtype, jnp.float32))
    arrays = dict(zip(arrays, alike(*arrays.values()), strict=True))
    options = (ignore_index, reduction, *map(float, (label_smoothing, z_loss, softcap, scale)))
    loss, lse = _function(options)(arrays)
    loss = loss.reshape(others if reduction == "none" else ())
    return (loss, lse.reshape(others)) if return_lse else loss


def index_array(targets: jax.Array) -> jax.Array:
    """Return targets of a type that kernels read."""
    return targets if targets.dtype in (jnp.int32, jnp.int64) else targets.astype(jnp.int32)


@functools.lru_cache(maxsize=512)
def _function(options: tuple[Any, ...]) -> Any:
    named = dict(zip(OPTIONS, options, strict=True))
    backward_options = {name: value for name, value in named.items() if name in BACKWARD.options}

    @jax.custom_vjp
    def run(arrays: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found = FORWARD(arrays, named)
        return found["loss"], found["lse"]

    def forward(arrays: dict[str, jax.Array]) -> Any:
        found = FORWARD(arrays, {**named, "lse_low": True}, ["lse_low"])
        return (found["loss"], found["lse"]), (arrays, {name: found[name] for name in ("lse", "lse_low")})

    def backward(saved: Any, gradients: Any) -> Any:
        arrays, sums = saved
        given = {**arrays, **sums, "dloss": gradients[0], "dlse": gradients[1]}
        return ({**dict.fromkeys(arrays), "logits": BACKWARD(given, backward_options)["dlogits"]},)

    run.defvjp(forward, backward)
    return run
