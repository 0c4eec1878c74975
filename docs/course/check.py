#!/usr/bin/env python3
"""check.py EXERCISE FILE.row: runs a row program on the host executor and compares it with NumPy.

The exercises are those of exercises.md. Needs numpy, and `tunesmith` in PATH.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy

Arrays = dict[str, numpy.ndarray]
ROWS, COLS = 6, 100


def softmax(x: numpy.ndarray) -> numpy.ndarray:
    e = numpy.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def fused_outer_backward(a: Arrays) -> Arrays:
    """The gradient of relu(x * y) for a matrix x and a row vector y, by the chain rule."""
    kept = a["dz"] * (a["x"] * a["y"] > 0)
    return {"dx": kept * a["y"], "dy": (kept * a["x"]).sum(axis=0)}


def flash_attention(a: Arrays) -> Arrays:
    weights = softmax(a["q"][:, None] * a["k"] + a["bias"])
    return {"o": (weights * a["v"]).sum(axis=1)}


# The kinds of the inputs, and the outputs in float64.
EXERCISES: dict[str, tuple[dict[str, str], Callable[[Arrays], Arrays]]] = {
    "constant_add": ({"x": "row,col"}, lambda a: {"z": a["x"] + 10}),
    "constant_add_block": ({"x": "row,col"}, lambda a: {"z": numpy.where(numpy.arange(COLS) < 70, a["x"] + 10, a["x"])}),
    "outer_add": ({"x": "col", "y": "row"}, lambda a: {"z": a["x"] + a["y"][:, None]}),
    "outer_add_block": (
        {"x": "col", "y": "row"},
        lambda a: {"z": a["x"] + a["y"][:, None], "s": (a["x"] + a["y"][:, None]).sum(1)},
    ),
    "fused_outer": ({"x": "col", "y": "row"}, lambda a: {"z": numpy.maximum(a["x"] * a["y"][:, None], 0)}),
    "fused_outer_backward": ({"x": "row,col", "y": "col", "dz": "row,col"}, fused_outer_backward),
    "long_sum": ({"x": "row,col"}, lambda a: {"z": a["x"].sum(axis=1)}),
    "long_softmax": ({"x": "row,col"}, lambda a: {"z": softmax(a["x"])}),
    "flash_attention": ({"q": "row", "k": "col", "v": "col", "bias": "row,col"}, flash_attention),
}


def check(exercise: str, program: Path) -> str:
    """Return what is wrong with a program, or nothing."""
    kinds, reference = EXERCISES[exercise]
    random = numpy.random.default_rng(7)
    shapes = {"row": (ROWS,), "col": (COLS,), "row,col": (ROWS, COLS)}
    arrays = {name: random.standard_normal(shapes[kind]).astype("f4") for name, kind in kinds.items()}
    wanted = reference({name: array.astype("f8") for name, array in arrays.items()})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            "tunesmith",
            "run",
            "row_program",
            "--program",
            str(program),
            "--device",
            "host",
            "--cache",
            str(folder / "cache.db"),
        ]
        command += ["--rows", str(ROWS), "--cols", str(COLS)]
        for array, values in arrays.items():
            numpy.save(folder / f"{array}.npy", values)
            command += ["--input", f"{array}={folder / array}.npy"]
        for array in wanted:
            command += ["--output", f"{array}={folder / array}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr
        for array, values in wanted.items():
            got = numpy.load(folder / f"{array}.npy").astype("f8").reshape(values.shape)
            # Sums of 100 terms of float32.
            difference = float(numpy.abs(got - values).max())
            if not difference <= 1e-4:
                at = tuple(int(i) for i in numpy.unravel_index(numpy.abs(got - values).argmax(), values.shape))
                return f"{array}{list(at)} is {got[at]:.6g}, expected {values[at]:.6g}"
    return ""


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in EXERCISES:
        print(__doc__, "\nExercises: ", ", ".join(EXERCISES), sep="")
        return 2
    wrong = check(sys.argv[1], Path(sys.argv[2]))
    print(f"{sys.argv[1]}: {wrong or 'right'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
