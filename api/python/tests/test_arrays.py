"""What a launch accepts: protocols, layouts, and what it rejects."""

from __future__ import annotations

import array
from typing import Any

import numpy
import pytest

import tunesmith

ROWS, COLS = 3, 24


@pytest.fixture(scope="module")
def plan(engine: tunesmith.Engine) -> tunesmith.Plan:
    return engine.prepare("softmax", rows=ROWS, cols=COLS)


@pytest.fixture
def x() -> numpy.ndarray:
    return numpy.random.default_rng(1).standard_normal((ROWS, COLS), dtype=numpy.float32)


def softmax(x: numpy.ndarray) -> numpy.ndarray:
    exact = numpy.exp(x.astype(float) - x.max(axis=-1, keepdims=True).astype(float))
    return exact / exact.sum(axis=-1, keepdims=True)


class Exported:
    """An array that offers DLPack and nothing else."""

    def __init__(self, array: numpy.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnGpu:
    """An array that claims to be on a GPU."""

    def __init__(self, array: numpy.ndarray) -> None:
        interface = array.__array_interface__
        self.__cuda_array_interface__ = {key: interface[key] for key in ("shape", "typestr", "data")} | {"version": 3}


def test_numpy_arrays(plan: tunesmith.Plan, x: numpy.ndarray) -> None:
    y = numpy.full_like(x, numpy.nan)
    plan.launch(x, y, None, None) if len(plan.arrays) == 4 else plan.launch(x, y)
    # See fresh_environment.py for the tolerance.
    numpy.testing.assert_allclose(y, softmax(x), rtol=24 * 2.0**-24)


def test_dlpack_arrays(plan: tunesmith.Plan, x: numpy.ndarray) -> None:
    y = numpy.full_like(x, numpy.nan)
    plan.launch(Exported(x), Exported(y))
    numpy.testing.assert_allclose(y, softmax(x), rtol=24 * 2.0**-24)


def test_the_buffer_protocol(plan: tunesmith.Plan, x: numpy.ndarray) -> None:
    source, target = array.array("f", x.tobytes()), array.array("f", bytes(x.nbytes))
    plan.launch(memoryview(source).cast("B").cast("f", (ROWS, COLS)), memoryview(target).cast("B").cast("f", (ROWS, COLS)))
    numpy.testing.assert_allclose(numpy.array(target).reshape(ROWS, COLS), softmax(x), rtol=24 * 2.0**-24)


def test_the_cuda_array_interface_is_read() -> None:
    values = numpy.zeros((2, 3), numpy.float32)
    layout = tunesmith._core.layout(OnGpu(values))
    assert layout == {
        "dtype": "f32",
        "type": "f32",
        "shape": (2, 3),
        "strides": (3, 1),
        "address": values.ctypes.data,
        "device": (2, 0),
        "read_only": False,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.astype(numpy.float16), "x holds f16; expected f32"),
        (lambda x: x[:2], r"x has the shape \(2, 24\); expected \(3, 24\)"),
        (lambda x: numpy.asfortranarray(x), r"x has the strides \(1, 3\); the plan is for \(24, 1\)"),
        (lambda x: x.astype(">f4"), "byte order"),
        (OnGpu, "x is on a GPU; the engine runs on the CPU"),
    ],
)
def test_arrays_that_do_not_fit(plan: tunesmith.Plan, x: numpy.ndarray, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan.launch(change(x), numpy.empty_like(x))


def test_outputs_must_be_writable(plan: tunesmith.Plan, x: numpy.ndarray) -> None:
    y = numpy.empty_like(x)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="y is read-only"):
        plan.launch(x, y)


def test_no_array_at_all(plan: tunesmith.Plan, x: numpy.ndarray) -> None:
    with pytest.raises(TypeError, match="x is a int; expected an array"):
        plan.launch(3, x)
    with pytest.raises(ValueError, match="got 1 arrays; the plan takes 2"):
        plan.launch(x)


def test_empty_arrays(engine: tunesmith.Engine) -> None:
    assert tunesmith.ops.softmax(numpy.empty((0, COLS), numpy.float32), engine=engine).shape == (0, COLS)
