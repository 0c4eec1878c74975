"""linear_cross_entropy."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from .calls import alike
from .losses import OPTIONS, index_array
from .operators import Operator

__all__ = ["linear_cross_entropy"]

_GRADIENTS = ("dhidden", "dweight", "dbias")
FORWARD = Operator("linear_cross_entropy", without=["dloss", "dlse"], results=["loss", "lse"])
#: Also computes the loss and lse, which are dropped.
BACKWARD = Operator("linear_cross_entropy", results=[])


@functools.partial(jax.jit, static_argnames=(*OPTIONS, "return_lse", "f32_logits", "fused", "memory_bytes"))
def linear_cross_entropy(
    hidden: jax.Array,
    linear_weight: jax.Array,
    targets: jax.Array,
    *,
    linear_bias: jax.Array | None = None,
    weight: jax.Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
    return_lse: bool = False,
    f32_logits: bool = False,
    fused: bool = False,
    memory_bytes: int = 1126 << 20,
) -> Any:
    """cross_entropy(hidden @ linear_weight.T + linear_bias, targets) without storing the logits.

    hidden: (..., hidden_size); linear_weight: (vocab_size, hidden_size); linear_bias: (vocab_size). The other arguments are
    cross_entropy()'s. With the reduction mean or sum, the forward pass computes the gradients that are needed, and the
    backward pass multiplies them; with the reduction none or return_lse, the backward pass computes the logits again.
    fused: the product of the logits computes exponentials and their sums, so that no logits are stored or rounded; for
    bfloat16 and float32, without linear_bias, weight, label_smoothing and f32_logits. memory_bytes bounds the workspace,
    which is not XLA's memory (XLA_PYTHON_CLIENT_MEM_FRACTION leaves room for it).
    """
    if linear_weight.ndim != 2:
        raise ValueError(f"linear_weight has {linear_weight.ndim} dimensions; expected 2")
    if targets.shape != hidden.shape[:-1]:
        raise ValueError(f"targets have the shape {targets.shape}; expected {hidden.shape[:-1]}")
    arrays = {
        "hidden": hidden.reshape(math.prod(hidden.shape[:-1]), hidden.shape[-1]),
        "weight": linear_weight,
        "targets": index_array(targets).reshape(-1),
    }
    if weight is not None:
        arrays["class_weight"] = jax.lax.stop_gradient(weight).astype(jnp.float32)
    if linear_bias is not None:
        arrays["bias"] = linear_bias.astype(jnp.float32 if f32_logits else hidden.dtype)
    arrays = dict(zip(arrays, alike(*arrays.values()), strict=True))
    options = (ignore_index, reduction, *map(float, (label_smoothing, z_loss, softcap, scale)))
    memory = (f32_logits, fused, memory_bytes)
    loss, lse = _function(options, memory, reduction != "none" and not return_lse)(arrays)
    loss = loss.reshape(targets.shape if reduction == "none" else ())
    return (loss, lse.reshape(targets.shape)) if return_lse else loss


@functools.lru_cache(maxsize=512)
def _function(options: tuple[Any, ...], memory: tuple[Any, ...], at_once: bool) -> Any:
    """at_once: the forward pass computes the gradients."""
    named = dict(zip((*OPTIONS, "f32_logits", "fused", "memory_bytes"), options + memory, strict=True))

    @jax.custom_vjp
    def run(arrays: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found = FORWARD(arrays, named)
        return found["loss"], found["lse"]

    def forward(given: dict[str, Any]) -> Any:
        arrays = {name: one.value for name, one in given.items()}
        wanted = [name for name in _GRADIENTS if name[1:] in given and given[name[1:]].perturbed]
        if not at_once:
            return run(arrays), (arrays, {name: () for name in wanted})
        found = FORWARD(arrays, {**named, **dict.fromkeys(wanted, True)}, wanted)
        return (found["loss"], found["lse"]), (dict.fromkeys(arrays), {name: found[name] for name in wanted})

    def backward(saved: Any, gradients: Any) -> Any:
        arrays, wanted = saved
        dloss, dlse = map(materialized, gradients)
        if at_once:
            found = {name: (one * dloss.astype(jnp.float32)).astype(one.dtype) for name, one in wanted.items()}
        else:
            given = {**arrays, "dloss": dloss, "dlse": dlse}
            found = BACKWARD(given, {**named, **dict.fromkeys(wanted, True)}, list(wanted)) if wanted else {}
        return ({name: found.get(f"d{name}") for name in arrays},)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run


def materialized(gradient: Any) -> jax.Array:
    """Return a gradient as an array, which may be a symbolic zero."""
    if isinstance(gradient, jax.custom_derivatives.SymbolicZero):
        return jnp.zeros(gradient.shape, gradient.dtype)
    return gradient
