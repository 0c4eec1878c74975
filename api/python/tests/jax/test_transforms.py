"""jit, vmap and shard_map."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from reference import integers, near, numbers

import tunesmith.jax as tj
from tunesmith.jax import calls, linear_losses, losses
from tunesmith.jax.attention import FORWARD as ATTENTION_OPERATOR
from tunesmith.jax.softmax import FORWARD as SOFTMAX_OPERATORS

TARGETS = integers(30, 4, 6)
ATTENTION = [numbers(4, 1, 16, heads, 32, dtype=jnp.float16, seed=heads) for heads in (2, 1, 1)]
#: Functions with their arguments, the first dimension of which is the batch.
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "softmax": (lambda x: tj.softmax(x, scale=2.0), [numbers(4, 6, 30)]),
    "softmax_of_columns": (lambda x: tj.softmax(x, 0), [numbers(4, 6, 30)]),
    "log_softmax": (tj.log_softmax, [numbers(4, 6, 30)]),
    "cross_entropy": (lambda x, t: tj.cross_entropy(x, t, reduction="none"), [numbers(4, 6, 30), TARGETS]),
    "mean_of_cross_entropy": (tj.cross_entropy, [numbers(4, 6, 30), TARGETS]),
    "rms_norm": (lambda x: tj.rms_norm(x, jnp.arange(30.0)), [numbers(4, 6, 30)]),
    "rms_norm_of_weights": (tj.rms_norm, [numbers(4, 6, 30), numbers(4, 30)]),
    "swiglu": (tj.swiglu, [numbers(4, 6, 30), numbers(4, 6, 30, seed=1)]),
    "linear_cross_entropy": (
        lambda h, w, t: tj.linear_cross_entropy(h, w, t),
        [numbers(4, 6, 64, dtype=jnp.float16), numbers(4, 32, 64, dtype=jnp.float16), TARGETS],
    ),
    "attention": (lambda q, k, v: tj.attention(q, k, v, causal=True), ATTENTION),
}
#: Of these, every element of a batch is a call of its own.
LOOPED = {"mean_of_cross_entropy", "rms_norm_of_weights", "linear_cross_entropy"}


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_vmap_is_the_function_of_each_element(name: str, gradient: bool) -> None:
    function, arguments = CASES[name]
    run = function
    if gradient:
        floats = tuple(i for i, one in enumerate(arguments) if jnp.issubdtype(one.dtype, jnp.floating))
        run = jax.grad(lambda *a: (function(*a).astype(jnp.float32) ** 2).sum(), floats)
    expected = [run(*(one[i] for one in arguments)) for i in range(4)]
    # The batch is the first or the last dimension, or missing from some arguments.
    for axes in itertools.product([0, -1], repeat=len(arguments)):
        moved = [jnp.moveaxis(one, 0, axis) for one, axis in zip(arguments, axes, strict=True)]
        found = jax.jit(jax.vmap(run, in_axes=axes))(*moved)
        for i, each in enumerate(expected):
            jax.tree.map(lambda one, other, i=i: near(one[i], np.asarray(other, np.float64), 2), found, each)
        if gradient:
            break


@pytest.mark.parametrize("name", CASES)
def test_vmap_takes_one_launch_where_a_dimension_serves(name: str) -> None:
    function, arguments = CASES[name]
    assert ("scan" in str(jax.make_jaxpr(jax.vmap(function))(*arguments))) == (name in LOOPED)


def test_an_argument_without_the_batch() -> None:
    logits, targets = numbers(4, 6, 30), TARGETS[0]
    found = jax.vmap(lambda x, t: tj.cross_entropy(x, t, reduction="none"), in_axes=(0, None))(logits, targets)
    near(found[2], np.asarray(tj.cross_entropy(logits[2], targets, reduction="none"), np.float64))


def test_batches_of_batches() -> None:
    x = numbers(2, 3, 4, 20)
    near(jax.vmap(jax.vmap(tj.softmax, 1, 1), 0)(x), np.asarray(jax.nn.softmax(x, -1), np.float64))


def _mesh() -> Any:
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    return jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map_with_weights_that_all_devices_share(check_vma: bool, jit: bool) -> None:
    def loss(x: Any, norm: Any, weight: Any, targets: Any, mean: Any = lambda x: x) -> Any:
        hidden = tj.layer_norm(tj.rms_norm(x, norm), norm, norm).astype(jnp.float16)
        return mean(tj.linear_cross_entropy(hidden, weight, targets, reduction="sum"))

    arguments = (numbers(4, 6, 64), numbers(64), numbers(32, 64, dtype=jnp.float16), TARGETS % 32)
    sharded = jax.shard_map(
        lambda *a: loss(*a, mean=lambda x: jax.lax.psum(x, "d")),
        mesh=_mesh(),
        in_specs=(P("d"), P(), P(), P("d")),
        out_specs=P(),
        check_vma=check_vma,
    )
    run = jax.grad(lambda *a: sharded(*a).sum() if jit else sharded(*a), (0, 1, 2))
    found = (jax.jit(run) if jit else run)(*arguments)
    expected = jax.grad(loss, (0, 1, 2))(*arguments)
    jax.tree.map(lambda one, other: near(one, np.asarray(other, np.float64), 30), found, expected)


def test_shard_map_over_heads() -> None:
    q, k, v = (one[0] for one in ATTENTION)
    q, k, v = (jnp.concatenate([one, one + 1], 2) for one in (q, k, v))
    spec = P(None, None, "d")
    sharded = jax.shard_map(tj.attention, mesh=_mesh(), in_specs=spec, out_specs=spec)
    near(sharded(q, k, v), np.asarray(tj.attention(q, k, v), np.float64))


def test_a_program_is_prepared_once_for_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls_made: list[Any] = []
    prepare = calls.prepare
    monkeypatch.setattr(calls, "prepare", lambda *a: calls_made.append(a) or prepare(*a))
    run = jax.jit(lambda x: tj.softmax(tj.softmax(x)))
    x = numbers(3, 77)
    for _ in range(3):
        run(x)
    assert len(calls_made) <= 2
    assert run.lower(x).compile()(x).shape == (3, 77)


@pytest.mark.parametrize(
    "operator, function",
    [
        (SOFTMAX_OPERATORS["softmax"], tj.softmax),
        (SOFTMAX_OPERATORS["log_softmax"], tj.log_softmax),
        (losses.FORWARD, tj.cross_entropy),
        (linear_losses.FORWARD, tj.linear_cross_entropy),
        (ATTENTION_OPERATOR, tj.attention),
    ],
)
def test_every_option_of_the_description_is_an_argument(operator: Any, function: Any) -> None:
    given = {"window_left": "window", "window_right": "window", "aux": "score_mod"}
    derived = {"dhidden", "dweight", "dbias", "lse_low"}  # from what a gradient is taken of
    parameters = inspect.signature(function).parameters
    assert {given.get(one, one) for one in operator.options} - derived <= set(parameters)
