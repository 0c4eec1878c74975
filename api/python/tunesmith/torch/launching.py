"""From tensors to launches: engines by device, and launchers that remember the plan of each layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..engine import Engine, default_engine

DTYPES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.uint8: "u8",
    torch.bool: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.int8: "i8",
}
_TYPES: list[type] = [torch.Tensor, torch.nn.Parameter]

#: A launcher: takes tensors, returns the outputs, or NotImplemented where the layout needs a contiguous copy.
Launcher = Callable[..., Any]

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


is_compiling = torch.compiler.is_compiling
_GUARDS: list[Callable[[], object]] = [
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._functorch.peek_interpreter_stack,
]


def launcher(name: str, prepare: Callable[..., _core.Launch | None]) -> Launcher:
    """Return a launcher for operators and autograd functions; `prepare` is called once for each layout of the tensors."""
    return _core.launcher(name, _TYPES, prepare, [], None)


def eager_launcher(name: str, prepare: Callable[..., _core.Launch | None], *, not_in_autocast: bool = False) -> Launcher:
    """Return a launcher for eager calls: it leaves calls to the dispatcher that autograd, a mode or a transform sees."""
    guards = [*_GUARDS, torch._C._is_any_autocast_enabled] if not_in_autocast else _GUARDS
    return _core.launcher(name, _TYPES, prepare, guards, torch.is_grad_enabled)


def _allocation(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device, strides: Sequence[int] | None = None
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function and its arguments that allocate a tensor; a contiguous one without strides."""
    shape = tuple(shape)
    strides = _contiguous(shape) if strides is None else tuple(strides)
    if device.type == "cpu":
        return torch._C._dynamo.guards._empty_strided_cpu, (shape, strides, dtype)

    def allocate() -> torch.Tensor:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    if torch.cuda.device_count() == 1:  # the short way allocates on the current device
        return torch._C._dynamo.guards._empty_strided_cuda, (shape, strides, dtype)
    return allocate, ()


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= max(extent, 1)
    return tuple(reversed(strides))


def launch(
    op: str,
    fields: dict[str, Any],
    tensors: Mapping[str, torch.Tensor | None],
    outputs: Mapping[str, tuple[Sequence[int], torch.dtype] | torch.Tensor],
    config: str | None = None,
) -> _core.Launch:
    """Prepare the plan for these tensors and say how a launcher uses it.

    tensors: the launcher's arguments in their order, under the names of the operation's arrays. outputs: what the call
    allocates and returns, in this order; a tensor on the device "meta" stands for its shape, dtype and strides.
    Alignments come from the tensors; outputs are aligned to 16 bytes.
    """
    device = next(tensor.device for tensor in tensors.values() if tensor is not None)
    engine = engine_of(device)
    # Which fields are alignments does not depend on the problem.
    for array in _core.Problem(op, **fields).arrays:
        tensor = tensors.get(array.name)
        if tensor is not None and array.alignment_field and tensor.numel():
            address = tensor.data_ptr() | 16
            fields[array.alignment_field] = address & -address
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    plan = engine.prepare(_core.Problem(op, **fields), config, stream=stream)
    names, results = list(tensors), list(outputs)
    allocations = []
    for made in outputs.values():
        if isinstance(made, torch.Tensor):
            allocations.append(_allocation(made.shape, made.dtype, device, made.stride()))
        else:
            shape, dtype = made
            allocations.append(_allocation(shape, dtype, device))
    sources: list[int | None] = []
    for array in plan.arrays:
        if tensors.get(array.name) is not None:
            sources.append(names.index(array.name))
        elif array.name in results:
            sources.append(len(names) + results.index(array.name))
        elif array.name == "workspace":
            sources.append(len(names) + len(allocations))
            allocations.append(_allocation(array.shape, torch.uint8, device))
        else:
            sources.append(None)
    return _core.Launch(plan, sources, allocations, len(results))


def call(run: Launcher, *tensors: torch.Tensor | None) -> Any:
    """Call a launcher; again with contiguous copies where it does not take the layout."""
    result = run(*tensors)
    if result is NotImplemented:
        plain = [tensor if tensor is None else _plain(tensor) for tensor in tensors]
        result = run(*plain)
        if result is NotImplemented:
            raise NotImplementedError(f"tensors of type {type(tensors[0]).__name__} have no memory that a kernel can read")
    return result


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_neg().resolve_conj()
    return tensor.contiguous() if tensor.is_contiguous() is False else tensor.clone()


def is_eager(*tensors: torch.Tensor) -> bool:
    """Whether a call may go to the launcher directly: nothing traces, transforms or intercepts it."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not any(tensor.is_neg() or type(tensor) not in _TYPES for tensor in tensors)
    )


def needs_grad(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd records a call."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def rows_of(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Return rows, columns and the stride of the rows of a tensor's last dimension; None if the rows have no one stride.

    Tensors without elements have no rows. Operations have at least one column.
    """
    cols = tensor.shape[-1]
    if tensor.numel() == 0:
        return 0, max(cols, 1), max(cols, 1)
    rows = tensor.numel() // cols
    if tensor.stride(-1) != 1 and cols > 1:
        return None
    stride, expected = cols, 0
    for extent, step in zip(reversed(tensor.shape[:-1]), reversed(tensor.stride()[:-1]), strict=True):
        if extent == 1:
            continue
        if expected == 0:
            stride = step
        elif step != expected:
            return None
        expected = step * extent
    if stride != 0 and stride < cols and rows > 1:
        return None
    return rows, cols, stride if rows > 1 else cols


def dimension_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any] | None:
    """Return the fields of problems over the last dimension of tensors of equal shape, at any strides, without a copy.

    tensors: by the names of the operation's arrays, the output last. The other dimensions are merged to at most two, `rows`
    and `inner`. None if they cannot be, and where a contiguous copy is faster: adjacent columns of rows without one stride.
    """
    shapes = {tensor.shape for tensor in tensors.values()}
    if len(shapes) != 1:
        return None
    rows = {name: rows_of(tensor) for name, tensor in tensors.items()}
    if all(layout is not None for layout in rows.values()):
        count, cols, _ = next(layout for layout in rows.values() if layout is not None)
        strides = {f"{name}_row_stride": layout[2] for name, layout in rows.items() if layout is not None}
        return {"rows": count, "cols": cols, **strides}
    merged = _merged(list(tensors.values()))
    output = list(tensors.values())[-1]
    if len(merged) > 2 or output.stride(-1) == 1:
        return None
    while len(merged) < 2:  # one dimension is `inner`
        merged.insert(0, (1, [0] * len(tensors)))
    (count, row_strides), (inner, inner_strides) = merged
    fields: dict[str, Any] = {"rows": count, "cols": output.shape[-1], "inner": inner}
    for i, (name, tensor) in enumerate(tensors.items()):
        fields[f"{name}_row_stride"] = row_strides[i]
        fields[f"{name}_col_stride"] = tensor.stride(-1)
        fields[f"{name}_inner_stride"] = inner_strides[i]
    return fields


def _merged(tensors: Sequence[torch.Tensor]) -> list[tuple[int, list[int]]]:
    """Return extents and strides of all dimensions but the last, the innermost of the last tensor last, merged."""
    last = tensors[-1]
    order = sorted((i for i in range(last.dim() - 1) if last.shape[i] != 1), key=last.stride, reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for i in order:
        extent, strides = last.shape[i], [tensor.stride(i) for tensor in tensors]
        if merged and all(outer == extent * step for outer, step in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    return merged
