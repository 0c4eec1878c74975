"""Engines: a device, a compiler and a cache."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from typing import Any

from . import _core
from .places import nvidia_folders
from .progress import Observer, TuningProgress

__all__ = ["Engine", "default_engine"]

_Path = str | os.PathLike[str]


class Engine:
    """Owns a device, a compiler and a cache. Create one per device and keep it; threads may share it.

    Arguments that are None have their values from the environment (TUNESMITH_MODE, TUNESMITH_CACHE, ...), else the
    library's defaults; docs/production.md explains them.

    device: "auto" (the first GPU, or else the host executor), "cuda", "cuda:N" or "host".
    mode: "tune", "replay" or "off". effort: "quick" or "full".
    cache_file: "" keeps results in memory only. system_caches: [] disables the shipped tuning results, too.
    specialize: "auto", "exact" or "capacity", whether operations over rows get a kernel for each width or for buckets.
    exact_after: uses of a width after which auto compiles its kernel. compile_ahead_jobs: threads that compile kernels of
    other buckets ahead; 0: none.
    remote: URL of a cache that several hosts share (docs/fleet.md); "" for none. Wheels have no remote cache.
    cuda_folders: searched for NVRTC first; the folders nvidia/*/lib of this environment are searched last.
    progress: called as progress(done, total, step) while a problem is tuned, on the thread whose call tunes it, several
    hundred times; step is a TuningStep, and None in the last call for a problem. ProgressBar() is such a function. It must
    not use the engine. An exception from it, and Ctrl-C with or without it, cancels the tuning and leaves the call that
    tunes; nothing is stored, and the next call tunes again.
    """

    def __init__(
        self,
        device: str = "auto",
        *,
        mode: str | None = None,
        effort: str | None = None,
        cache_file: _Path | None = None,
        system_caches: Sequence[_Path] | None = None,
        tune_budget_s: float | None = None,
        tune_share: float | None = None,
        tune_allowance_s: float | None = None,
        plan_capacity: int | None = None,
        specialize: str | None = None,
        exact_after: int | None = None,
        compile_ahead_jobs: int | None = None,
        cuda_folders: Sequence[_Path] = (),
        templates_folder: _Path | None = None,
        dump_folder: _Path | None = None,
        remote: str | None = None,
        progress: TuningProgress | None = None,
    ) -> None:
        self._observer = Observer(progress)
        self._core = _core.Engine(
            device,
            mode,
            effort,
            cache_file,
            None if system_caches is None else list(system_caches),
            tune_budget_s,
            tune_share,
            tune_allowance_s,
            plan_capacity,
            specialize,
            exact_after,
            compile_ahead_jobs,
            list(cuda_folders),
            nvidia_folders(),
            templates_folder,
            dump_folder,
            remote,
            self._observer,
        )

    def prepare(
        self,
        problem: _core.Problem | str,
        config: str | dict[str, int | str] | None = None,
        mode: str | None = None,
        stream: int = 0,
        progress: TuningProgress | None = None,
        **fields: Any,
    ) -> _core.Plan:
        """Select or tune a configuration, compile or load the kernels, and return the plan.

        problem: a Problem, or the name of an operation with its fields as keywords. config: a configuration to use,
        complete or partial, such as "variant=two_pass,threads=512". stream: a CUDA stream; if it is being captured and
        the plan does not exist yet, Capturing is raised. progress: in place of the engine's. An equal problem gives the same
        plan.
        """
        if isinstance(problem, str):
            problem = _core.Problem(problem, **fields)
        elif fields:
            raise TypeError(f"fields go with the name of an operation, not with a Problem: {', '.join(fields)}")
        with self._observer.instead(progress):
            return self._core.prepare(problem, config, mode, stream)

    def synchronize(self, stream: int = 0) -> None:
        """Wait for the work on a stream; 0 is the default stream."""
        self._core.synchronize(stream)

    def tuning(self) -> _core.TuningStatus:
        """Return the counters of tuning on first use."""
        return self._core.tuning()

    def tune_pending(self, budget_s: float, *, progress: TuningProgress | None = None) -> int:
        """Tune keys that wait because of tune_share, for that many seconds; return their number.

        progress: in place of the engine's.
        """
        with self._observer.instead(progress):
            return self._core.tune_pending(budget_s)

    @property
    def device_name(self) -> str:
        """Such as "NVIDIA H200"."""
        return self._core.device_name

    @property
    def is_host(self) -> bool:
        """Whether the host executor stands in for a GPU: results are right, speed means nothing."""
        return self._core.is_host

    @property
    def ordinal(self) -> int:
        """The number of the GPU."""
        return self._core.ordinal

    @property
    def mode(self) -> str:
        """The mode: "tune", "replay" or "off"."""
        return self._core.mode

    @property
    def cache_file(self) -> str:
        """The cache file; empty if results are kept in memory only."""
        path = os.fspath(self._core.cache_file)
        return "" if path == "." else path

    def __getattr__(self, name: str) -> Any:
        """Return an operation or a shipped row program that runs on this engine: engine.layer_norm(x, w, b)."""
        from . import ops

        if name.startswith("_") or name not in ops._names():
            raise AttributeError(f"'Engine' object has no attribute '{name}'")
        return functools.partial(ops.operation(name), engine=self)

    def __repr__(self) -> str:
        return f"<tunesmith.Engine on {self.device_name}, mode {self.mode}>"


_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def default_engine(device: str = "auto") -> Engine:
    """Return the engine that calls without an engine use for a device; made on the first call."""
    with _lock:
        engine = _engines.get(device)
        if engine is None:
            engine = _engines[device] = Engine(device)
        return engine
