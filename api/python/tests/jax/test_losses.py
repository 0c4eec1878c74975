"""cross_entropy and linear_cross_entropy against float64."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import reference
from reference import check, integers, near, numbers

import tunesmith.jax as tj

OPTIONS: list[dict[str, Any]] = [
    {},
    {"label_smoothing": 0.1, "z_loss": 0.01},
    {"softcap": 2.0, "scale": 0.5, "label_smoothing": 0.2},
]
REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("axis, shape", [(-1, (6, 50)), (1, (2, 50, 3)), (0, (50,))])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(weighted: bool, axis: int, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    rows = shape[:axis] + shape[axis:][1:] if axis >= 0 else shape[:-1]
    targets = integers(50, *rows, dtype=jnp.int32)
    targets = jnp.where(integers(5, *rows) == 0, 3, targets) if rows else targets
    weight = jnp.abs(numbers(50)) + 0.5 if weighted else None
    for reduction, dtype in zip(REDUCTIONS, [jnp.float32, jnp.float16, jnp.bfloat16], strict=True):
        given = {**options, "reduction": reduction, "axis": axis, "ignore_index": 3 if rows else -100}
        check(
            lambda x, given=given: tj.cross_entropy(x, targets, weight, return_lse=True, **given),
            lambda x, given=given: reference.cross_entropy(x, targets, weight, **given),
            numbers(*shape, dtype=dtype),
            slack=2,
        )


def test_float64() -> None:
    with jax.enable_x64(True):
        targets = integers(20, 4, dtype=jnp.int64)
        check(
            lambda x: tj.cross_entropy(x, targets, return_lse=True),
            lambda x: reference.cross_entropy(x, targets),
            numbers(4, 20, dtype=jnp.float64),
        )


def test_gradients_of_large_logits() -> None:
    """lse of 1e6 is rounded to multiples of 1/16; gradients are computed from what the rounding lost, too."""
    logits, targets = 1e6 + numbers(8, 100), integers(100, 8)
    near(
        jax.grad(lambda x: tj.cross_entropy(x, targets, reduction="sum"))(logits),
        _exact_gradient(logits, targets),
        tolerance=2e-5,
    )


def _exact_gradient(logits: jax.Array, targets: jax.Array) -> Any:
    with jax.enable_x64(True):
        return jax.grad(lambda x: reference.cross_entropy(x, targets, reduction="sum")[0])(reference.wide(logits))


def _linear(hidden: jax.Array, weight: jax.Array, bias: jax.Array | None, targets: jax.Array, **options: Any) -> Any:
    logits = hidden @ weight.T
    return reference.cross_entropy(logits if bias is None else logits + bias, targets, **options)


@pytest.mark.parametrize("reduction, return_lse", list(itertools.product(REDUCTIONS, [False, True])))
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_cross_entropy(with_bias: bool, reduction: str, return_lse: bool) -> None:
    hidden, weight = numbers(2, 4, 64, dtype=jnp.bfloat16) * 0.5, numbers(96, 64, dtype=jnp.bfloat16) * 0.5
    bias = numbers(96, dtype=jnp.bfloat16) if with_bias else None
    targets = integers(96, 2, 4)
    given = {"reduction": reduction, "label_smoothing": 0.1}

    def ours(*arrays: Any) -> Any:
        bias = arrays[2] if with_bias else None
        return tj.linear_cross_entropy(
            *arrays[:2], targets, linear_bias=bias, return_lse=return_lse, f32_logits=not with_bias, **given
        )

    def theirs(*arrays: Any) -> Any:
        loss, lse = _linear(arrays[0], arrays[1], arrays[2] if with_bias else None, targets, **given)
        return (loss, lse) if return_lse else loss

    arrays = (hidden, weight, *([bias] if with_bias else []))
    check(lambda *a: jax.tree.map(lambda x: x.astype(jnp.bfloat16), ours(*a)), theirs, *arrays, slack=1.5)


@pytest.mark.parametrize("reduction, return_lse", [("mean", False), ("none", True)])
def test_fused_logits(reduction: str, return_lse: bool) -> None:
    hidden, weight = numbers(8, 64, dtype=jnp.bfloat16) * 0.5, numbers(96, 64, dtype=jnp.bfloat16) * 0.5
    targets, given = integers(96, 8), {"reduction": reduction, "z_loss": 1e-3}

    def ours(*arrays: Any) -> Any:
        return tj.linear_cross_entropy(*arrays, targets, return_lse=return_lse, fused=True, **given)

    def theirs(*arrays: Any) -> Any:
        loss, lse = _linear(*arrays, None, targets, **given)
        return (loss, lse) if return_lse else loss

    check(ours, theirs, hidden, weight, slack=1.5)


def test_a_gradient_of_the_hidden_states_alone_computes_no_other() -> None:
    hidden, weight, targets = numbers(8, 64, dtype=jnp.float16), numbers(96, 64, dtype=jnp.float16), integers(96, 8)
    program = jax.make_jaxpr(jax.grad(lambda h: tj.linear_cross_entropy(h, weight, targets)))(hidden)
    assert "dhidden" in str(program) and "dweight" not in str(program)


def test_errors_name_what_is_wrong() -> None:
    logits, targets = numbers(4, 10), integers(10, 4)
    with pytest.raises(ValueError, match="expected class indices"):
        tj.cross_entropy(logits, logits)
    with pytest.raises(ValueError, match=r"targets have the shape \(3,\); expected \(4,\)"):
        tj.cross_entropy(logits, targets[:3])
    with pytest.raises(ValueError, match="reduction is 'max'"):
        tj.cross_entropy(logits, targets, reduction="max")
    with pytest.raises(ValueError, match="linear_weight has 1 dimensions"):
        tj.linear_cross_entropy(logits, logits[0], targets)


def test_soft_cross_entropy_of_probabilities() -> None:
    p = jax.nn.softmax(numbers(4, 30, seed=3))
    loss, _ = tj.soft_cross_entropy(numbers(4, 30), p)
    near(loss, -(p * jax.nn.log_softmax(numbers(4, 30))).sum(-1))
