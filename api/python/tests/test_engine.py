"""Engines, plans, configurations, the cache and pre-warming."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

import tunesmith


def test_equal_problems_have_one_plan(engine: tunesmith.Engine) -> None:
    first = engine.prepare("softmax", rows=2, cols=24)
    again = engine.prepare(tunesmith.Problem("softmax", rows=2, cols=24))
    assert first.problem == again.problem
    assert not again.compiled or first.compiled


def test_what_a_plan_says(engine: tunesmith.Engine) -> None:
    plan = engine.prepare("softmax", rows=2, cols=24)
    assert plan.problem.startswith("softmax rows=2,cols=24,dtype=f32")
    assert plan.origin == "capacity"  # the kernel for its bucket of widths
    assert "variant=" in plan.config
    assert "softmax" in plan.source
    assert plan.bytes == 2 * 2 * 24 * 4
    assert [array.name for array in plan.arrays] == ["x", "y"]
    assert plan.arrays[0].shape == (2, 24)


@pytest.mark.parametrize("config", ["variant=two_pass", {"variant": "two_pass"}])
def test_a_pinned_configuration(engine: tunesmith.Engine, config: str | dict[str, int | str]) -> None:
    plan = engine.prepare("softmax", config=config, rows=2, cols=24)
    assert plan.origin == "pinned"
    assert "variant=two_pass" in plan.config


def test_a_configuration_that_is_not_allowed(engine: tunesmith.Engine) -> None:
    with pytest.raises(ValueError, match="threads is 7"):
        engine.prepare("softmax", config="threads=7", rows=2, cols=24)


def test_fields_go_with_a_name(engine: tunesmith.Engine) -> None:
    with pytest.raises(TypeError, match="not with a Problem: rows"):
        engine.prepare(tunesmith.Problem("softmax", rows=2, cols=24), rows=3)


def test_source_needs_no_gpu() -> None:
    problem = tunesmith.Problem("softmax", rows=2, cols=24)
    assert "threads=64" in problem.source("sm_80", config="variant=two_pass,threads=64")


def test_a_second_engine_loads_what_the_first_compiled(tmp_path: Path) -> None:
    file = tmp_path / "cache.db"
    assert tunesmith.Engine("host", mode="off", cache_file=file).prepare("softmax", rows=2, cols=40).compiled
    engine = tunesmith.Engine("host", mode="off", cache_file=file)
    assert engine.cache_file == str(file)
    assert not engine.prepare("softmax", rows=2, cols=40).compiled


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_terminals_and_rarely_elsewhere() -> None:
    problems = [tunesmith.Problem("softmax", rows=4, cols=cols) for cols in (8, 16)]
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        show = tunesmith.ProgressBar(stream=stream)
        for done, problem in enumerate(problems):
            show(done, 2, problem)
        show(2, 2, None)
    first, second = "prewarm [" + "-" * 24 + "] 0/2", "prewarm [" + "#" * 12 + "-" * 12 + "] 1/2"
    assert [line[: len(first)] for line in terminal.getvalue().split("\r\x1b[K")] == ["", first, second, ""]
    assert file.getvalue() == ""  # less than three seconds


def test_prewarming_with_progress(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"problems": [{"op": "softmax", "rows": 2, "cols": [24, 40], "dtype": ["f32", "f16"]}]}))
    engine = tunesmith.Engine("host", mode="replay", cache_file=tmp_path / "cache.db")
    calls: list[tuple[int, int, str | None]] = []
    result = tunesmith.prewarm(
        spec, engine, progress=lambda done, all_, problem: calls.append((done, all_, problem and str(problem)))
    )
    assert [plan.problem.split(",")[1:3] for plan in result.plans] == [
        ["cols=24", "dtype=f32"],
        ["cols=24", "dtype=f16"],
        ["cols=40", "dtype=f32"],
        ["cols=40", "dtype=f16"],
    ]
    assert not result.failures
    assert [call[:2] for call in calls] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert calls[-1][2] is None
    again = tunesmith.Engine("host", mode="replay", cache_file=tmp_path / "cache.db")
    assert not any(plan.compiled for plan in tunesmith.prewarm(spec, again).plans)


def test_a_problem_that_fails_does_not_stop_the_others(engine: tunesmith.Engine) -> None:
    mod = "bool mask_mod(int b, int h, int q, int k, const Aux&) { oops }"
    entries = [
        {"op": "attention", "seq_q": 8, "head_dim": 8, "mask_mod": mod},
        {"op": "softmax", "rows": 2, "cols": 24},
    ]
    result = tunesmith.prewarm({"problems": entries}, engine)
    assert len(result.plans) == 1
    assert isinstance(result.failures[0][1], tunesmith.errors.CompileFailed)


def test_a_wrong_spec_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"problems\[0\]: cols is -1"):
        tunesmith.problems_of_spec({"problems": [{"op": "softmax", "rows": 2, "cols": -1}]})
    with pytest.raises(ValueError, match="expected 'problems'"):
        tunesmith.problems_of_spec({"problem": []})


def test_threads_share_an_engine(engine: tunesmith.Engine) -> None:
    plans: list[tunesmith.Plan] = []
    threads = [threading.Thread(target=lambda: plans.append(engine.prepare("softmax", rows=2, cols=56))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({plan.config for plan in plans}) == 1
    assert len(plans) == 8
