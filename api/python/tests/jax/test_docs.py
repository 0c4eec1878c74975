"""The example of docs/python.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from reference import integers, numbers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation import blocks


def test_it_runs() -> None:
    (block,) = blocks()["JAX"]
    names: dict[str, Any] = {
        "x": numbers(4, 24),
        "weight": numbers(24),
        "logits": numbers(4, 40),
        "target": integers(40, 4),
        "hidden": numbers(4, 16, dtype=jnp.float16),
        "head": numbers(40, 16, dtype=jnp.float16),
        **{name: numbers(1, 9, 2, 16, dtype=jnp.bfloat16, seed=i) for i, name in enumerate("qkv")},
        "bias": numbers(2, 9, 9),
    }
    exec(block, names)
    assert (names["dbias"][:, 8, 0] != 0).all() and (names["dbias"][:, 0, 8] == 0).all()
    assert all(jnp.isfinite(names[name]).all() for name in ("y", "loss", "gradient", "z", "o"))
