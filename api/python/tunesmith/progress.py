"""The progress of pre-warming on a terminal, as the command line shows it."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from . import _core

__all__ = ["ProgressBar"]

_BAR_WIDTH = 24
_HEARTBEAT_S = 3.0


class ProgressBar:
    """A callback for prewarm(progress=...): a bar on a terminal; otherwise a line, at most every three seconds."""

    def __init__(self, title: str = "prewarm", stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._start = self._shown = time.monotonic()

    def __call__(self, done: int, total: int, problem: _core.Problem | None) -> None:
        terminal = self._stream.isatty()
        now = time.monotonic()
        if problem is None:
            if terminal:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            return
        text = self._title
        if terminal:
            filled = _BAR_WIDTH * done // max(total, 1)
            text += f" [{'#' * filled}{'-' * (_BAR_WIDTH - filled)}]"
        text += f" {done}/{total}, {now - self._start:.0f} s, {problem}"
        if terminal:
            # A wrapped line could not be cleared.
            self._stream.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        elif now - self._shown >= _HEARTBEAT_S:
            self._shown = now
            self._stream.write(f"tunesmith: {text}\n")
        self._stream.flush()
