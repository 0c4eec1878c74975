"""Errors of the library as exceptions of Python."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import tunesmith
from tunesmith import errors


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
