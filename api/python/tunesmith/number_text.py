"""Numbers of row programs as the field `numbers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def number_texts(values: Mapping[str, Any]) -> str:
    """Return numbers as "eps=1e-05;seed=7": Python's numbers, and scalars of NumPy and torch."""
    return ";".join(f"{name}={_plain(value)!r}" for name, value in values.items())


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or a scalar of NumPy."""
    return isinstance(value, int | float) or (hasattr(value, "dtype") and hasattr(value, "item") and value.shape == ())


def _plain(value: Any) -> int | float:
    number: int | float = value.item() if hasattr(value, "item") else value
    return int(number) if isinstance(number, int) else float(number)
