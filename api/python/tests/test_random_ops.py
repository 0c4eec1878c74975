"""Random calls of tunesmith.ops (random_ops.py): some of fixed seeds, and some of a fresh one, which a failure names."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest
import random_ops

import tunesmith

SECONDS = float(os.environ.get("TUNESMITH_RANDOM_SECONDS", "15"))
FIRST = int(os.environ.get("TUNESMITH_RANDOM_SEED", str(int(time.time()) * 1000)))


@pytest.mark.parametrize("first", [1, FIRST])
def test_results_do_not_depend_on_layouts(engine: tunesmith.Engine, first: int) -> None:
    end, seed = time.monotonic() + SECONDS, first
    while time.monotonic() < end or seed < first + 5:
        random_ops.run(seed, engine)
        seed += 1


def wrong_values(field: tunesmith._core.Field) -> list[Any]:
    """Return values that no problem has for a field."""
    if field.kind == "choice":
        return ["no_such", 1]
    return {"int": ["many", 1.5], "float": ["much", float("nan")], "bool": [2, "perhaps"], "str": [3]}[field.kind]


@pytest.mark.parametrize("first", [1, FIRST])
def test_a_wrong_field_is_named(first: int) -> None:
    for seed in range(first, first + 300):
        draw = random.Random(seed)
        name, fields, _ = random_ops.draw_problem(draw)
        field = draw.choice(tunesmith._core.operation_fields(name))
        value = draw.choice(wrong_values(field))
        with pytest.raises((ValueError, TypeError), match=rf"\b{field.name}\b"):
            tunesmith.Problem(name, **{**fields, field.name: value})
