"""Prepares many problems ahead of time, so that a service finds every plan in its cache."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import _core
from .engine import Engine, default_engine
from .errors import Error, InvalidArgument

__all__ = ["Prewarmed", "prewarm", "problems_of_spec"]

Spec = Mapping[str, Any] | str | os.PathLike[str]
#: Called before each problem and after the last one: problems done, all problems, the next problem or None.
Progress = Callable[[int, int, _core.Problem | None], None]


class Prewarmed(NamedTuple):
    """What prewarm() did."""

    plans: list[_core.Plan]
    failures: list[tuple[_core.Problem, Error]]


def problems_of_spec(spec: Spec) -> list[_core.Problem]:
    """Return the problems of a spec as `tunesmith prewarm` reads it: lists multiply, the last one varies fastest.

    spec: {"problems": [{"op": "softmax", "rows": 4096, "cols": [1024, 32000]}, ...]}, or the name of a JSON file with it.
    score_mod and mask_mod in a file name files, relative to the folder of the spec; in a mapping they are sources.
    """
    folder = None
    entries: Mapping[str, Any]
    if isinstance(spec, Mapping):
        entries = spec
    else:
        folder = Path(spec).parent
        entries = json.loads(Path(spec).read_text(encoding="utf-8"))
    if set(entries) != {"problems"}:
        raise InvalidArgument(f"the spec has the keys {sorted(entries)}; expected 'problems'")
    if not isinstance(entries["problems"], list | tuple):
        raise InvalidArgument("the spec's 'problems' is no list; expected a list of objects, each with an 'op'")
    problems: dict[str, _core.Problem] = {}
    for number, entry in enumerate(entries["problems"]):
        if not isinstance(entry, Mapping):
            raise InvalidArgument(f"problems[{number}] is {entry!r}; expected an object with an 'op'")
        if "op" not in entry:
            raise InvalidArgument(f"problems[{number}] has no 'op'")
        names = list(entry)
        for values in itertools.product(*(value if isinstance(value, list) else [value] for value in entry.values())):
            fields = dict(zip(names, values, strict=True))
            if folder is not None:
                for mod in ("score_mod", "mask_mod"):
                    if mod in fields:
                        fields[mod] = (folder / fields[mod]).read_text(encoding="utf-8")
            try:
                problem = _core.Problem(**fields)
            except InvalidArgument as error:
                raise InvalidArgument(f"problems[{number}]: {error}") from None
            problems.setdefault(str(problem), problem)
    return list(problems.values())


def prewarm(
    problems: Spec | Iterable[_core.Problem], engine: Engine | None = None, *, progress: Progress | None = None
) -> Prewarmed:
    """Prepare every problem: tune it if the engine's mode allows it, compile it, and store both in the cache.

    A problem that fails does not stop the others. An exception from `progress` does; what was done stays in the cache.
    """
    if isinstance(problems, Mapping | str | os.PathLike):
        problems = problems_of_spec(problems)
    problems = list(problems)
    for number, problem in enumerate(problems):
        if not isinstance(problem, _core.Problem):
            raise TypeError(f"problems[{number}] is {problem!r}; expected a tunesmith.Problem, or a spec")
    engine = engine or default_engine()
    result = Prewarmed([], [])
    for done, problem in enumerate(problems):
        if progress is not None:
            progress(done, len(problems), problem)
        try:
            result.plans.append(engine.prepare(problem))
        except Error as error:
            result.failures.append((problem, error))
    if progress is not None:
        progress(len(problems), len(problems), None)
    return result
