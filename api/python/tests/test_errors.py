"""Errors of the library as exceptions of Python."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import tunesmith
from tunesmith import errors, ops


def test_an_invalid_argument_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="rows is -1; allowed: at least 0") as raised:
        tunesmith.Problem("softmax", rows=-1, cols=8)
    assert isinstance(raised.value, tunesmith.Error)
    assert raised.value.code == "invalid_argument"


def test_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(errors.InvalidArgument, match="did you mean 'scale'"):
        tunesmith.Problem("softmax", rows=1, cols=8, scal=1)


def test_a_field_of_a_wrong_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="rows is a list; expected bool, int, float or str"):
        tunesmith.Problem("softmax", rows=[1], cols=8)


def test_an_integer_beyond_64_bits_is_a_value_error() -> None:
    for rows in (2**63, -(2**63) - 1, 10**5000):
        with pytest.raises(errors.InvalidArgument, match="rows does not fit 64 bits; expected an integer of 64 bits"):
            tunesmith.Problem("softmax", rows=rows, cols=8)


def test_an_exception_of_an_index_is_kept() -> None:
    class Broken:
        def __index__(self) -> int:
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        tunesmith.Problem("softmax", rows=Broken(), cols=8)


@pytest.mark.parametrize(
    ("code", "builtin"),
    [
        ("invalid_argument", ValueError),
        ("unsupported", NotImplementedError),
        ("not_found", LookupError),
        ("io", OSError),
        ("out_of_memory", MemoryError),
        ("device_failed", RuntimeError),
        ("capturing", RuntimeError),
    ],
)
def test_each_code_has_its_builtin_exception(code: str, builtin: type[Exception]) -> None:
    error = errors.make(code, "message", "", "")
    assert isinstance(error, builtin)
    assert isinstance(error, tunesmith.Error)
    assert error.code == code


def test_errors_of_the_library_are_pythons(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is not a folder that can be read") as raised:
        tunesmith.Engine("host", mode="off", cache_file="", templates_folder=tmp_path / "none").prepare(
            "softmax", rows=2, cols=24
        )
    assert isinstance(raised.value, errors.InputOutput) and raised.value.code == "io"
    engine = tunesmith.Engine("host", mode="off", cache_file="", system_caches=[])
    with pytest.raises(MemoryError, match="cannot allocate") as exhausted:  # more than any address space: 2^50 bytes
        engine.prepare("attention_backward", batch=1 << 15, heads=1 << 10, seq_q=1 << 22, head_dim=64, dtype="bf16")
    assert isinstance(exhausted.value, errors.OutOfMemory) and exhausted.value.code == "out_of_memory"
    with pytest.raises(LookupError):
        raise errors.make("not_found", "no such plan", "", "")


def test_a_failed_compilation_has_its_log_and_source(engine: tunesmith.Engine, tmp_path: Path) -> None:
    engine = tunesmith.Engine("host", mode="off", cache_file="", dump_folder=tmp_path)
    with pytest.raises(errors.CompileFailed) as raised:
        engine.prepare(
            "attention",
            seq_q=8,
            head_dim=8,
            dtype="f32",
            mask_mod="bool mask_mod(int b, int h, int q, int k, const Aux&) { oops }",
        )
    assert "oops" in raised.value.log
    assert "oops" in Path(raised.value.source_path).read_text()


def test_no_such_gpu() -> None:
    with pytest.raises(errors.NoDevice):
        tunesmith.Engine("cuda:77")


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tunesmith"):
        tunesmith.Engine("host", mode="off", cache_file="").prepare("softmax", rows=1, cols=24)
    assert any("softmax" in record.message for record in caplog.records)


def test_warnings_are_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tunesmith"):
        tunesmith.Engine("host", mode="off", cache_file="/proc/none/cache.db").prepare("softmax", rows=1, cols=24)
    (record,) = caplog.records
    assert record.name == "tunesmith" and record.levelno == logging.WARNING
    assert "/proc/none" in record.message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.softmin(x.astype("i4")), "softmin: x has elements of i32; allowed: f32, f16, bf16, f64"),
        (lambda x: ops.softmax(x.astype("u4")), "softmax: x has elements of u32; allowed"),
        (lambda x: ops.softmax(x[0]), r"softmax: x has the shape \(24,\); expected rows x cols"),
        (lambda x: ops.cross_entropy(x), "cross_entropy: targets is missing; it needs logits, targets"),
        (lambda x: ops.cross_entropy(x, x[:, 0]), "cross_entropy: targets has elements of f32; allowed: i32, i64"),
        (lambda x: ops.cross_entropy(x, [0, 1], out=x), "targets is a list; expected an array"),
        (lambda x: ops.softmax(x, scal=2.0), "'scal' is not a field of softmax; did you mean 'scale'"),
        (lambda x: ops.sotfmax(x), "no operation 'sotfmax'; did you mean 'softmax'"),
        (
            lambda x: ops.cross_entropy(x, numpy.arange(2), out=x[:, 0]),
            "out is one array, but cross_entropy has the outputs loss, lse",
        ),
        (lambda x: tunesmith.prewarm(["softmax"]), r"problems\[0\] is 'softmax'; expected a tunesmith.Problem"),
        (lambda x: tunesmith.prewarm({"problems": {"op": "softmax"}}), "'problems' is no list"),
        (lambda x: tunesmith.prewarm({"problems": ["softmax"]}), r"problems\[0\] is 'softmax'; expected an object"),
    ],
)
def test_common_mistakes_are_named(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        call(numpy.zeros((2, 24), "f4"))


def test_out_may_be_the_array() -> None:
    x, y = numpy.ones((2, 24), "f4"), numpy.full((2, 24), numpy.nan, "f4")
    assert ops.softmax(x, out=y) is y
    assert abs(y.sum() - 2) < 1e-5
