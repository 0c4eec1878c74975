"""The progress of tuning, on a scripted GPU: what callbacks receive, and what an exception from one means."""

from __future__ import annotations

import io
import threading
import time
import types
from collections.abc import Callable

import pytest

import tunesmith
from tunesmith import TuningStep, progress
from tunesmith.progress import Observer, TuningProgress

scripted_gpu = pytest.importorskip("_scripted_gpu", reason="a wheel has no scripted GPU")

Calls = list[tuple[int, int, TuningStep | None]]


def make_engine(progress: TuningProgress | None = None, mode: str = "tune") -> tunesmith.Engine:
    """An Engine whose device is scripted."""
    engine = tunesmith.Engine.__new__(tunesmith.Engine)
    engine._observer = Observer(progress)
    engine._core = scripted_gpu.make(engine._observer, mode).engine
    return engine


def recorder(calls: Calls) -> Callable[[int, int, TuningStep | None], None]:
    return lambda done, total, step: calls.append((done, total, step))


def test_the_engines_callback_gets_every_step() -> None:
    calls: Calls = []
    engine = make_engine(recorder(calls))
    assert engine.prepare("softmax", rows=8, cols=100).origin == "tuned"
    done, total, end = calls[-1]
    assert done == total
    assert end is None
    steps = [step for _, _, step in calls[:-1]]
    assert len(steps) > 3
    assert all(step is not None and step.problem.startswith("softmax rows=8,cols=100") for step in steps)
    assert str(steps[0]).endswith(", verified")
    assert [call[0] for call in calls] == sorted(call[0] for call in calls)


def test_a_calls_own_callback_replaces_it_for_that_call() -> None:
    of_engine: Calls = []
    of_call: Calls = []
    engine = make_engine(recorder(of_engine))
    engine.prepare("softmax", rows=8, cols=100, progress=recorder(of_call))
    assert of_call
    assert not of_engine
    engine.prepare("softmax", rows=8, cols=200)
    assert of_engine


def test_without_a_callback() -> None:
    assert make_engine().prepare("softmax", rows=8, cols=100).origin == "tuned"


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, tunesmith.errors.NotFound])
def test_an_exception_cancels_and_reaches_the_caller(kind: type[BaseException]) -> None:
    raised = kind("enough")

    def stop(done: int, total: int, step: TuningStep | None) -> None:
        raise raised

    engine = make_engine(stop)
    with pytest.raises(kind) as caught:
        engine.prepare("softmax", rows=8, cols=100)
    assert caught.value is raised
    assert caught.traceback[-1].name == "stop"
    assert engine.tuning().tuned_keys == 0
    assert engine.tuning().pending_keys == 1
    assert engine.prepare("softmax", rows=8, cols=100, progress=lambda *_: None).origin == "tuned"


def test_pending_keys_report_too() -> None:
    calls: Calls = []
    engine = make_engine(mode="later")
    engine.prepare("softmax", rows=8, cols=100)
    engine.prepare("softmax", rows=8, cols=200)
    assert engine.tune_pending(60, progress=recorder(calls)) == 2
    assert [step for _, _, step in calls].count(None) == 2


def test_threads_that_wait_get_cancelled() -> None:
    began = threading.Barrier(4)
    kinds: list[type[BaseException]] = []

    def stop(done: int, total: int, step: TuningStep | None) -> None:
        time.sleep(1)  # the others, which have begun, reach the wait
        raise ZeroDivisionError

    engine = make_engine(stop)

    def prepare() -> None:
        began.wait()
        try:
            engine.prepare("softmax", rows=8, cols=100)
        except Exception as error:
            kinds.append(type(error))

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kind.__name__ for kind in kinds) == ["Cancelled"] * 3 + ["ZeroDivisionError"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """The bars' clock; its seconds pass only when a test says so."""
    clock = types.SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: clock.seconds))
    return clock


def test_a_bar_on_a_terminal(clock: types.SimpleNamespace) -> None:
    terminal, file = Terminal(), io.StringIO()
    make_engine(tunesmith.ProgressBar(stream=terminal)).prepare("softmax", rows=8, cols=100)
    make_engine(tunesmith.ProgressBar("tuning on first use", stream=file)).prepare("softmax", rows=8, cols=100)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1].startswith("tuning [-")
    assert ", softmax rows=8" in lines[1]
    assert lines[-1] == ""
    assert len(lines) == 3  # the clock stands still: drawn once, then cleared
    assert file.getvalue() == ""  # less than three seconds


def test_a_line_every_three_seconds_elsewhere(clock: types.SimpleNamespace) -> None:
    file = io.StringIO()
    show = tunesmith.ProgressBar("tuning on first use", stream=file)
    step = TuningStep("softmax rows=8", "verified")
    for done in range(8):
        show(done, 8, step)
        clock.seconds += 1
    lines = ["tunesmith: tuning on first use 3/8, 3 s, softmax rows=8, verified"]
    lines += ["tunesmith: tuning on first use 6/8, 6 s, softmax rows=8, verified"]
    assert file.getvalue().splitlines() == lines
