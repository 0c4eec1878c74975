"""The progress of tuning and pre-warming, for callbacks and on a terminal, as the command line shows it."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

from . import _core

__all__ = ["Observer", "ProgressBar", "TuningProgress", "TuningStep"]

_BAR_WIDTH = 24
_HEARTBEAT_S = 3.0
_REDRAW_S = 0.15


class TuningStep(NamedTuple):
    """What tuning has just done."""

    problem: str
    what: str  #: such as "verified", "7 candidates in the running"

    def __str__(self) -> str:
        return f"{self.problem}, {self.what}"


#: Called after each step of tuning a problem: steps done, at most how many, and the step, or None at the problem's end.
TuningProgress = Callable[[int, int, TuningStep | None], None]


class Observer:
    """What an engine's C++ side calls while it tunes: the callback of the call or of the engine."""

    def __init__(self, progress: TuningProgress | None) -> None:
        self._progress = progress
        self._of_call = threading.local()

    @contextlib.contextmanager
    def instead(self, progress: TuningProgress | None) -> Iterator[None]:
        """Use another callback for the calls of this thread; None changes nothing."""
        before = getattr(self._of_call, "progress", None)
        self._of_call.progress = progress or before
        try:
            yield
        finally:
            self._of_call.progress = before

    def __call__(self, problem: str, done: int, total: int, what: str | None) -> None:
        progress = getattr(self._of_call, "progress", None) or self._progress
        if progress is not None:
            progress(done, total, None if what is None else TuningStep(problem, what))


class ProgressBar:
    """A callback for prewarm(progress=...), Engine(progress=...) and the like. Threads may share it.

    It shows a bar on a terminal; otherwise a line, at most every three seconds.
    """

    def __init__(self, title: str | None = None, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._start = self._shown = time.monotonic()
        self._drawn = 0.0
        self._lock = threading.Lock()

    def __call__(self, done: int, total: int, step: _core.Problem | TuningStep | None) -> None:
        with self._lock:
            self._show(done, total, step)

    def _show(self, done: int, total: int, step: _core.Problem | TuningStep | None) -> None:
        terminal = self._stream.isatty()
        now = time.monotonic()
        if step is None:
            self._drawn = 0.0
            if terminal:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            return
        tuning = isinstance(step, TuningStep)
        if terminal and tuning and now - self._drawn < _REDRAW_S:
            return
        self._drawn = now
        text = self._title or ("tuning" if tuning else "prewarm")
        if terminal:
            filled = _BAR_WIDTH * done // max(total, 1)
            text += f" [{'#' * filled}{'-' * (_BAR_WIDTH - filled)}]"
        text += f" {done}/{total}, {now - self._start:.0f} s, {step}"
        if terminal:
            # A wrapped line could not be cleared.
            self._stream.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        elif now - self._shown >= _HEARTBEAT_S:
            self._shown = now
            self._stream.write(f"tunesmith: {text}\n")
        self._stream.flush()
