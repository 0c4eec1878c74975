"""Launchers: functions of tensors that remember the plan of each layout."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _core
from . import native
from .transforms import GUARDS, TYPES

increment_version = torch.autograd.graph.increment_version

#: A launcher: takes tensors, returns the outputs, or NotImplemented where the layout needs a contiguous copy.
Launcher = Callable[..., Any]


def by_options(make: Callable[..., Launcher]) -> Callable[..., Launcher]:
    """Remember the launchers that `make` returned for the latest 512 options: a program may have a new float in each call.

    A tensor is no key, because its value may change: its launcher leaves the call to the path that converts options.
    """

    def make_or_leave(*options: Any) -> Launcher:
        return _leave if any(isinstance(option, torch.Tensor) for option in options) else make(*options)

    return functools.lru_cache(maxsize=512)(make_or_leave)


def _leave(*_: Any) -> Any:
    return NotImplemented


@dataclasses.dataclass(frozen=True)
class Output:
    """A tensor that a call allocates."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    #: Of all elements before the launch; None: any.
    value: float | None = None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a launcher does with tensors of one layout."""

    plan: _core.Plan
    #: For each array of the plan: the number of an argument, arguments + n for output n, or -1 for an absent array.
    sources: list[int]
    outputs: list[Output]
    #: Outputs that the call returns; the others are scratch memory.
    results: int
    device: torch.device


@dataclasses.dataclass(frozen=True)
class Gradient:
    """How the native launcher records a call for autograd.

    function(*saved, *gradients) returns the gradient or gradients of the first `inputs` arguments; `gradients` are those of
    the first `outputs` results, None for a result that was not used. saved: numbers of arguments, or arguments + n for
    result n.
    """

    inputs: int
    outputs: int
    saved: tuple[int, ...]
    function: Callable[..., Any]


#: Prepares the plan for the layout of tensors; None where only contiguous copies have a kernel.
Prepare = Callable[..., Prepared | None]


def launcher(name: str, prepare: Prepare) -> Launcher:
    """Return a launcher for operators and autograd functions; `prepare` is called once for each layout of the tensors."""
    return _core.launcher(name, TYPES, _portable(prepare), [], None)


def eager_launcher(
    name: str,
    prepare: Prepare,
    *,
    not_in_autocast: bool = False,
    writes_last: bool = False,
    returned: int | None = None,
    gradient: Gradient | None = None,
) -> Launcher:
    """Return a launcher for eager calls: it leaves calls to the dispatcher that a mode or a transform sees.

    not_in_autocast: leave calls under autocast, too. writes_last: the last argument is written. returned: return only the
    first results. Calls that autograd records are left to the dispatcher, unless `gradient` is given and the native launcher
    was compiled.
    """
    compiled = native.load()
    if compiled is not None:
        recording = gradient and (gradient.inputs, gradient.outputs, gradient.saved, gradient.function)
        limit = _MOST_RESULTS if returned is None else returned
        return compiled.launcher(name, prepare, not not_in_autocast, writes_last, limit, recording)
    guards = [*GUARDS, torch._C._is_any_autocast_enabled] if not_in_autocast else GUARDS
    run = _core.launcher(name, TYPES, _portable(prepare, returned), guards, torch.is_grad_enabled)
    if not writes_last:
        return run

    def counted(*tensors: torch.Tensor | None) -> Any:
        result = run(*tensors)
        if result is not NotImplemented:
            increment_version(tensors[-1])
        return result

    return counted


_MOST_RESULTS = 16


def _portable(prepare: Prepare, returned: int | None = None) -> Callable[..., _core.Launch | None]:
    """Return `prepare` for _core's launcher."""

    def prepared(*tensors: torch.Tensor | None) -> _core.Launch | None:
        made = prepare(*tensors)
        if made is None:
            return None
        sources = [None if source < 0 else source for source in made.sources]
        allocations = [_allocation(output, made.device) for output in made.outputs]
        return _core.Launch(made.plan, sources, allocations, made.results if returned is None else returned)

    return prepared


def _allocation(output: Output, device: torch.device) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function and its arguments that allocate a tensor."""
    if output.value is not None:
        return functools.partial(torch.full, output.shape, output.value, dtype=output.dtype, device=device), ()
    if device.type == "cpu":
        return torch._C._dynamo.guards._empty_strided_cpu, (output.shape, output.strides, output.dtype)

    def allocate() -> torch.Tensor:
        return torch.empty_strided(output.shape, output.strides, dtype=output.dtype, device=device)

    if torch.cuda.device_count() == 1:  # the short way allocates on the current device
        return torch._C._dynamo.guards._empty_strided_cuda, (output.shape, output.strides, output.dtype)
    return allocate, ()


def contiguous(shape: Sequence[int], dtype: torch.dtype) -> Output:
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= max(extent, 1)
    return Output(tuple(shape), tuple(reversed(strides)), dtype)


def call(run: Launcher, *tensors: torch.Tensor | None) -> Any:
    """Call a launcher; again with contiguous copies where it does not take the layout."""
    result = run(*tensors)
    if result is NotImplemented:
        result = run(*[tensor if tensor is None else plain(tensor) for tensor in tensors])
        if result is NotImplemented:
            raise NotImplementedError(f"tensors of type {type(tensors[0]).__name__} have no memory that a kernel can read")
    return result


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy, with the strides of contiguous() and aligned memory."""
    tensor = tensor.detach().resolve_neg().resolve_conj()
    if tensor.is_contiguous() is False:
        return tensor.contiguous()
    is_plain = type(tensor) in TYPES and tensor.stride() == contiguous(tensor.shape, tensor.dtype).strides
    return tensor if is_plain and tensor.data_ptr() % 16 == 0 else tensor.clone()
