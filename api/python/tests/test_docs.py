"""The examples of docs/python.md that need neither PyTorch nor a GPU. torch/ and jax/ run the others."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

import pytest
from documentation import blocks

import tunesmith

ALL = [(heading, i, block) for heading, each in blocks().items() for i, block in enumerate(each)]


def test_there_are_examples() -> None:
    assert {"NumPy, without a GPU", "PyTorch", "Tune", "Pre-warm"} <= set(blocks())


@pytest.mark.parametrize(("heading", "i", "block"), ALL, ids=lambda value: value if isinstance(value, str | int) else "")
def test_names_exist(heading: str, i: int, block: str) -> None:
    for node in ast.walk(ast.parse(block)):
        if not isinstance(node, ast.Attribute):
            continue
        names = ast.unparse(node).split(".")
        if names[0] == "tunesmith" and names[1] not in ("torch", "jax") and all(name.isidentifier() for name in names):
            functools.reduce(getattr, names[1:], tunesmith)


@pytest.mark.parametrize("heading", ["NumPy, without a GPU", "Tune", "Pre-warm"])
def test_they_run(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNESMITH_CACHE", str(tmp_path / "cache.db"))
    names: dict[str, Any] = {
        "tunesmith": tunesmith,
        "problem": tunesmith.Problem("softmax", rows=4, cols=40),
        "engine": tunesmith.Engine("host", mode="replay", cache_file=""),
        "help": lambda thing: thing.__doc__,
    }
    for block in blocks()[heading]:
        # Few small kernels instead of large ones; tune_pending has nothing to do.
        exec(block.replace('"rows": 4096, "cols": [1024, 32000]', '"rows": 4, "cols": [24, 40]'), names)
