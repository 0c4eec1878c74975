"""The operations in jax.numpy, in the dtype of their arguments, and how far results may be from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: Relative error of a result of each dtype; of the largest element of its array.
TOLERANCES = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-12}


def numbers(*shape: int, dtype: Any = jnp.float32, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(dtype)


def integers(below: int, *shape: int, dtype: Any = jnp.int32) -> jax.Array:
    return jnp.asarray(np.random.default_rng([below, *shape]).integers(0, below, shape)).astype(dtype)


def wide(tree: Any) -> Any:
    """Return floating-point arrays as float64, under jax.enable_x64."""
    return jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating) else x, tree
    )


def check(ours: Callable[..., Any], theirs: Callable[..., Any], *arguments: Any, slack: float = 1.0) -> None:
    """Compare results and gradients with those of the reference in float64. Derivatives of the results are random.

    The coarsest dtype of arguments and results sets the tolerance, because side arrays have gradients of the others' errors.
    """
    results, pull = jax.vjp(ours, *arguments)
    leaves = jax.tree.leaves(results)
    seeds = [numbers(*one.shape, dtype=one.dtype, seed=7) for one in leaves]
    found = [*leaves, *jax.tree.leaves(pull(jax.tree.unflatten(jax.tree.structure(results), seeds)))]
    with jax.enable_x64(True):
        expected, pull = jax.vjp(theirs, *wide(arguments))
        seeds = wide(seeds)
        exact = [*jax.tree.leaves(expected), *jax.tree.leaves(pull(jax.tree.unflatten(jax.tree.structure(expected), seeds)))]
    dtypes = [str(one.dtype) for one in (*jax.tree.leaves(arguments), *leaves)]
    tolerance = slack * max(TOLERANCES.get(dtype, 0.0) for dtype in dtypes)
    assert len(found) == len(exact)
    for one, other in zip(found, exact, strict=True):
        if one.dtype == jax.dtypes.float0:
            continue
        assert one.shape == other.shape
        near(one, other, tolerance=tolerance)


def near(one: Any, other: Any, slack: float = 1.0, tolerance: float | None = None) -> None:
    tolerance = slack * TOLERANCES[str(one.dtype)] if tolerance is None else tolerance
    one = np.asarray(one, np.float64)
    np.testing.assert_allclose(
        one, np.asarray(other), rtol=tolerance, atol=tolerance * max(np.abs(other).max(initial=0), 1e-3)
    )


def softmax(x: jax.Array, axis: int = -1, scale: float = 1.0, causal: bool = False, safe: bool = False) -> jax.Array:
    x = jnp.moveaxis(scale * x, axis, -1)
    if causal:
        x = jnp.where(jnp.tril(jnp.ones(x.shape[-2:], bool)), x, -jnp.inf)
    return jnp.moveaxis(jax.nn.softmax(x), -1, axis)


def log_softmax(x: jax.Array, axis: int = -1, scale: float = 1.0, causal: bool = False, safe: bool = False) -> jax.Array:
    return jax.nn.log_softmax(scale * x, axis)


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
) -> Any:
    x = scale * jnp.moveaxis(logits, axis, -1)
    x = softcap * jnp.tanh(x / softcap) if softcap else x
    count = x.shape[-1]
    weight = jnp.ones(count, x.dtype) if weight is None else jax.lax.stop_gradient(weight)
    lse = jax.nn.logsumexp(x, -1)
    kept = targets != ignore_index
    of_target = jax.nn.one_hot(jnp.where(kept, targets, 0), count, dtype=x.dtype)
    q = weight * ((1 - label_smoothing) * of_target + label_smoothing / count)
    loss = jnp.where(kept, (q * (lse[..., None] - x)).sum(-1), 0)
    z = jnp.where(kept, z_loss * lse**2, 0)
    if reduction == "none":
        return loss + z, lse
    if reduction == "sum":
        return loss.sum() + z.sum(), lse
    return loss.sum() / jnp.where(kept, (weight * of_target).sum(-1), 0).sum() + z.sum() / kept.sum(), lse


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    score: Callable[..., Any] = lambda s, b, h, q, k: s,
    mask: Callable[..., Any] = lambda b, h, q, k: True,
    softcap: float = 0.0,
    sinks: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """o and lse of (batch, seq, heads, dim); score and mask see arrays of indices."""
    repeats = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, repeats, 2), jnp.repeat(v, repeats, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
    indices = jnp.meshgrid(*map(jnp.arange, scores.shape), indexing="ij")
    scores = jnp.where(mask(*indices), score(scores, *indices), -jnp.inf)
    lse = jax.nn.logsumexp(scores, -1)
    if sinks is not None:
        lse = jnp.logaddexp(lse, sinks[None, :, None])
    return jnp.einsum("bhqk,bkhd->bqhd", jnp.exp(scores - lse[..., None]), v), lse
