"""The library's log lines, as records of the logger "tunesmith"."""

from __future__ import annotations

import logging

logger = logging.getLogger("tunesmith")


def emit(is_warning: bool, line: str) -> None:
    """Log a line of the library. Compilations and tuning are INFO."""
    logger.log(logging.WARNING if is_warning else logging.INFO, "%s", line)
