"""Texts as arguments of operators."""

from __future__ import annotations

import functools


def one_line(text: str) -> str:
    """Return a text without line ends, for an argument of an operator: Inductor (2.11) writes arguments into comments."""
    return text.encode("unicode_escape").decode("ascii")


@functools.lru_cache(maxsize=512)
def lines_of(text: str) -> str:
    """Return the text of one_line(), or the text itself if it has no backslash."""
    return text.encode("ascii").decode("unicode_escape") if text.isascii() else text
