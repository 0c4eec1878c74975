"""softmax, rms_norm and row programs against float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import reference
from reference import check, near, numbers

import tunesmith
import tunesmith.jax as tj

DTYPES = [jnp.float32, jnp.float16, jnp.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_each_axis(name: str, axis: int, dtype: Any) -> None:
    x = numbers(3, 5, 37, dtype=dtype)
    check(lambda x: getattr(tj, name)(x, axis, scale=0.7), lambda x: getattr(reference, name)(x, axis, 0.7), x)


@pytest.mark.parametrize("axis", [-1, 0])
def test_causal_softmax(axis: int) -> None:
    x = numbers(2, 9, 9)
    x = jnp.moveaxis(x, -1, axis)
    check(lambda x: tj.softmax(x, axis, causal=True), lambda x: reference.softmax(x, axis, causal=True), x)


def test_safe_softmax_of_a_masked_row_is_zero() -> None:
    x = jnp.full((2, 7), -jnp.inf).at[1].set(1.0)
    assert (tj.softmax(x, safe=True)[0] == 0).all()
    assert jnp.isnan(tj.softmax(x)[0]).all()
    near(tj.softmax(x, safe=True)[1], jnp.full(7, 1 / 7))


def test_float64() -> None:
    with jax.enable_x64(True):
        x = numbers(3, 41, dtype=jnp.float64)
        check(tj.softmax, reference.softmax, x)
        check(tj.log_softmax, reference.log_softmax, x)


def _rms_norm(x: jax.Array, weight: Any = None, eps: float = 1e-6, offset: float = 0.0) -> jax.Array:
    normalized = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps)
    return normalized if weight is None else normalized * (weight + offset)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("weight_dtype", [None, "same", jnp.float32])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype: Any, weight_dtype: Any, offset: float) -> None:
    x = numbers(2, 3, 130, dtype=dtype)
    if weight_dtype is None:
        check(lambda x: tj.rms_norm(x, eps=1e-3), lambda x: _rms_norm(x, eps=1e-3), x)
        return
    weight = numbers(130, dtype=dtype if weight_dtype == "same" else weight_dtype)
    ours = lambda x, w: tj.rms_norm(x, w, eps=1e-3, weight_offset=offset)  # noqa: E731
    check(ours, lambda x, w: _rms_norm(x, w, 1e-3, offset), x, weight, slack=2)
    # The weight may have no gradient.
    check(lambda x: ours(x, weight), lambda x: _rms_norm(x, weight.astype(jnp.float64), 1e-3, offset), x)


def _layer_norm(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * w + b


@pytest.mark.parametrize("dtype", DTYPES)
def test_shipped_programs(dtype: Any) -> None:
    x, w, b = numbers(2, 3, 70, dtype=dtype), numbers(70, dtype=dtype), numbers(70, dtype=dtype, seed=1)
    check(tj.layer_norm, _layer_norm, x, w, b, slack=4)
    check(tj.swiglu, lambda gate, up: jax.nn.silu(gate) * up, x, numbers(2, 3, 70, dtype=dtype, seed=2), slack=2)


PROGRAM = """in x : float[row, col]
in g : f32[row]
num strength : f32 = 1
max m = x
sum s = exp(x - m)
out y : float[row, col] = g * strength * exp(x - m) / s
out top : f32[row] = m"""


def _program(x: jax.Array, g: jax.Array) -> Any:
    return g[:, None] * 0.5 * jax.nn.softmax(x, 1), x.max(1)


@pytest.mark.parametrize("shape", [(5, 33), (4, 9, 3)])
def test_row_program_with_numbers(shape: tuple[int, ...]) -> None:
    x, g = numbers(*shape), numbers(*shape[:1], *shape[2:])
    check(lambda x, g: tj.row_program(PROGRAM, x, g, numbers={"strength": 0.5}), _program, x, g)


def test_row_program_without_a_gradient_says_so_in_the_forward_pass() -> None:
    text = "in x : float[row, col]\nmax m = x\nout y : i32[row, col] = i32(x == m)"
    assert tj.row_program(text, numbers(3, 8)).sum() == 3
    with pytest.raises(tunesmith.Error, match="no output of the program has a gradient"):
        jax.grad(lambda x: tj.row_program(text, x).astype(jnp.float32).sum())(numbers(3, 8))


@pytest.mark.parametrize("shape", [(0, 7), (2, 0, 7)])
def test_no_rows(shape: tuple[int, ...]) -> None:
    x = jnp.zeros(shape)
    assert tj.softmax(x).shape == shape
    gradients = jax.grad(lambda x, w: tj.rms_norm(x, w).sum(), (0, 1))(x, jnp.ones(7))
    assert gradients[0].shape == shape and (gradients[1] == 0).all()


def test_errors_name_what_is_wrong() -> None:
    x = numbers(3, 8)
    with pytest.raises(ValueError, match="the dtype of x is int32; expected float32"):
        tj.softmax(jnp.zeros((3, 8), jnp.int32))
    with pytest.raises(ValueError, match="axis is 2; allowed: -2 to 1"):
        tj.softmax(x, 2)
    with pytest.raises(ValueError, match="scale is -1; allowed"):
        tj.softmax(x, scale=-1.0)
    with pytest.raises(ValueError, match=r"weight_offset is .*; allowed: only with a weight"):
        tj.rms_norm(x, weight_offset=1.0)
    with pytest.raises(ValueError, match=r"weight has the shape \(9,\); expected \(8,\)"):
        tj.rms_norm(x, jnp.ones(9))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: jax.grad(lambda x: (tj.softmax(x) ** 2).sum())(x).sum())(x)


def test_an_error_of_a_launch_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    from tunesmith.jax import calls

    def fails(*_: Any) -> Any:
        raise RuntimeError("no memory for kernels")

    monkeypatch.setattr(calls, "prepare", fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match="tunesmith: no memory for kernels"):
        tj.softmax(numbers(3, 1001)).block_until_ready()
