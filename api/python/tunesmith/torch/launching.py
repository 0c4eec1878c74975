"""From tensors to plans: engines by device, and whether a plan reads the tensors as they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..described import alignment_fields, stride_fields
from ..engine import Engine, default_engine
from .dtypes import DTYPES
from .launchers import Output, Prepared, contiguous

_engines: dict[torch.device, Engine] = {}


def engine_of(device: torch.device) -> Engine:
    """Return the engine that calls on a device use: the host executor for CPU tensors."""
    engine = _engines.get(device)
    if engine is None:
        engine = default_engine("host" if device.type == "cpu" else f"cuda:{device.index or 0}")
        _engines[device] = engine
    return engine


def use_engine(engine: Engine) -> None:
    """Let calls on the engine's device use it. Plans of earlier calls stay in use; set it before the first call."""
    device = torch.device("cpu") if engine.is_host else torch.device("cuda", engine.ordinal)
    _engines[device] = engine


def launch(
    op: str,
    fields: dict[str, Any],
    tensors: Mapping[str, torch.Tensor | None],
    outputs: Mapping[str, torch.Tensor],
    config: str | None = None,
    filled: Mapping[str, float] | None = None,
) -> Prepared | None:
    """Prepare the plan for these tensors and say how a launcher uses it; None where it needs contiguous copies.

    tensors: the launcher's arguments in their order, under the names of the operation's arrays. outputs: what the call
    allocates and returns, in this order, as tensors on the device "meta".
    Alignments come from the tensors; outputs are aligned to 16 bytes. filled: outputs that hold a value before the launch;
    eager launchers do not take them.
    """
    device = next(tensor.device for tensor in tensors.values() if tensor is not None)
    engine = engine_of(device)
    for name, field in alignment_fields(op).items():
        tensor = tensors.get(name)
        if tensor is not None and tensor.numel():
            address = tensor.data_ptr() | 16
            fields[field] = address & -address
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    problem = _core.Problem(op, **fields)
    if not _are_read_as_they_lie(op, problem.arrays, tensors, fields):
        return None
    plan = engine.prepare(problem, config, stream=stream)
    names, results = list(tensors), list(outputs)
    values = filled or {}
    allocated = [Output(tuple(made.shape), made.stride(), made.dtype, values.get(name)) for name, made in outputs.items()]
    sources: list[int] = []
    for array in plan.arrays:
        if tensors.get(array.name) is not None:
            sources.append(names.index(array.name))
        elif array.name in results:
            sources.append(len(names) + results.index(array.name))
        elif array.name == "workspace":
            sources.append(len(names) + len(allocated))
            allocated.append(contiguous(array.shape, torch.uint8))
        elif array.optional:
            sources.append(-1)
        else:
            raise ValueError(f"{op}: {array.name} is missing; expected a tensor of shape {tuple(array.shape)}")
    return Prepared(plan, sources, allocated, len(results), device)


def _are_read_as_they_lie(
    op: str, arrays: Sequence[_core.Array], tensors: Mapping[str, torch.Tensor | None], fields: Mapping[str, Any]
) -> bool:
    """Whether all tensors have the strides and at least the alignments of the problem's arrays.

    Raises ValueError for a tensor that is not what the problem reads. The fields say nothing of some tensors' own.
    """
    result = True
    for array in arrays:
        tensor = tensors.get(array.name)
        if tensor is None:
            continue
        if DTYPES[tensor.dtype] != array.dtype:
            raise ValueError(f"{op}: {array.name} is {tensor.dtype}; expected {array.dtype}")
        if tensor.numel() != math.prod(array.shape):
            raise ValueError(f"{op}: {array.name} has the shape {tuple(tensor.shape)}; expected {tuple(array.shape)}")
        if tensor.numel() and tensor.data_ptr() % array.alignment:
            result = False
        has_field = [field is not None for field in stride_fields(op, array, fields)]
        result = result and _lies_as(array, tensor, sum(has_field) > 1)
    return result


def _lies_as(array: _core.Array, tensor: torch.Tensor, any_order: bool) -> bool:
    """Whether a tensor lies in memory as an array, whose dimensions may be merged or split ones of the tensor.

    any_order: the dimensions may be in another order, because fields state where each begins.
    """
    if not tensor.numel():
        return True
    found, expected = zip(tensor.shape, tensor.stride(), strict=True), zip(array.shape, array.strides, strict=True)
    return _merged(found, any_order) == _merged(expected, any_order)


def _merged(dimensions: Iterable[tuple[int, int]], any_order: bool) -> list[tuple[int, int]]:
    """Return extents and strides without extents of 1; dimensions that are one in memory are merged."""
    merged: list[tuple[int, int]] = []
    for extent, stride in sorted(dimensions, key=lambda of: (-of[1], of[0])) if any_order else dimensions:
        if extent == 1:
            continue
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged
