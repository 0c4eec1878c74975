"""From tensors to launches: engines by device, and launchers that remember the plan of each layout."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import _core
from ..engine import Engine, default_engine
from . import native


class _Names(dict[torch.dtype, str]):
    """Names of dtypes; others raise ValueError."""

    def __missing__(self, dtype: torch.dtype) -> str:
        raise ValueError(f"dtype is {dtype}, which no kernel reads; use torch.float32, torch.float16 or torch.bfloat16")


DTYPES = _Names(
    {
        torch.float32: "f32",
        torch.float64: "f64",
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
)
_TYPES: list[type] = [torch.Tensor, torch.nn.Parameter]

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


is_compiling = torch.compiler.is_dynamo_compiling  # other tracers are modes, which launchers see
increment_version = torch.autograd.graph.increment_version
_forward_ad = torch.autograd.forward_ad
_GUARDS: list[Callable[[], object]] = [
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._functorch.peek_interpreter_stack,
    lambda: _forward_ad._current_level >= 0,
]


def index_dtype(name: str, tensor: torch.Tensor) -> str:
    """Return the name of the dtype of class indices; raises ValueError for others."""
    if tensor.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} is {tensor.dtype}; expected torch.int64 or torch.int32")
    return DTYPES[tensor.dtype]


def wide_dtype(x: torch.Tensor) -> torch.dtype:
    """Return the dtype in which x is computed: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def wide(x: torch.Tensor) -> torch.Tensor:
    """Return x in the dtype in which it is computed."""
    return x.to(wide_dtype(x))


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
    return _core.launcher(name, _TYPES, _portable(prepare), [], None)


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
    guards = [*_GUARDS, torch._C._is_any_autocast_enabled] if not_in_autocast else _GUARDS
    run = _core.launcher(name, _TYPES, _portable(prepare, returned), guards, torch.is_grad_enabled)
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


def _contiguous(shape: Sequence[int], dtype: torch.dtype) -> Output:
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= max(extent, 1)
    return Output(tuple(shape), tuple(reversed(strides)), dtype)


def launch(
    op: str,
    fields: dict[str, Any],
    tensors: Mapping[str, torch.Tensor | None],
    outputs: Mapping[str, tuple[Sequence[int], torch.dtype] | torch.Tensor],
    config: str | None = None,
    filled: Mapping[str, float] | None = None,
) -> Prepared | None:
    """Prepare the plan for these tensors and say how a launcher uses it; None where it needs contiguous copies.

    tensors: the launcher's arguments in their order, under the names of the operation's arrays. outputs: what the call
    allocates and returns, in this order; a tensor on the device "meta" stands for its shape, dtype and strides.
    Alignments come from the tensors; outputs are aligned to 16 bytes. filled: outputs that hold a value before the launch;
    eager launchers do not take them.
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
    problem = _core.Problem(op, **fields)
    if not _are_read_as_they_lie(op, problem.arrays, tensors, fields):
        return None
    plan = engine.prepare(problem, config, stream=stream)
    names, results = list(tensors), list(outputs)
    allocated = [
        Output(tuple(made.shape), made.stride(), made.dtype) if isinstance(made, torch.Tensor) else _contiguous(*made)
        for made in outputs.values()
    ]
    for name, value in (filled or {}).items():
        at = results.index(name)
        allocated[at] = dataclasses.replace(allocated[at], value=value)
    sources: list[int] = []
    for array in plan.arrays:
        if tensors.get(array.name) is not None:
            sources.append(names.index(array.name))
        elif array.name in results:
            sources.append(len(names) + results.index(array.name))
        elif array.name == "workspace":
            sources.append(len(names) + len(allocated))
            allocated.append(_contiguous(array.shape, torch.uint8))
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
        result = result and _lies_as(array, tensor, any(f"{array.name}_{of}_stride" in fields for of in _STRIDED_BY))
    return result


#: Dimensions whose strides are fields of operations.
_STRIDED_BY = ("row", "col", "inner", "batch", "seq", "head")


def _lies_as(array: _core.Array, tensor: torch.Tensor, any_order: bool) -> bool:
    """Whether a tensor lies in memory as an array, whose dimensions may be merged or split ones of the tensor.

    any_order: the dimensions may be in another order, because fields state where each begins.
    """
    if not tensor.numel():
        return True
    found, expected = zip(tensor.shape, tensor.stride(), strict=True), zip(array.shape, array.strides, strict=True)
    return _merged(found, any_order) == _merged(expected, any_order)


def _merged(dimensions: Iterable[tuple[int, int]], any_order: bool) -> list[tuple[int, int]]:
    """Return extents and strides without those of one element, those that are one dimension in memory merged."""
    merged: list[tuple[int, int]] = []
    for extent, stride in sorted(dimensions, key=lambda of: (-of[1], of[0])) if any_order else dimensions:
        if extent == 1:
            continue
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged


def check_shape(name: str, tensor: torch.Tensor, *expected: int) -> None:
    """Raise ValueError for a tensor of another shape."""
    if tensor.shape != expected:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}; expected {expected}")


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
    """Return the tensor, or a copy, with the strides of _contiguous() and aligned memory."""
    tensor = tensor.detach().resolve_neg().resolve_conj()
    if tensor.is_contiguous() is False:
        return tensor.contiguous()
    is_plain = type(tensor) in _TYPES and tensor.stride() == _contiguous(tensor.shape, tensor.dtype).strides
    return tensor if is_plain and tensor.data_ptr() % 16 == 0 else tensor.clone()


def one_line(text: str) -> str:
    """Return a text without line ends, for an argument of an operator: Inductor (2.11) writes arguments into comments."""
    return text.encode("unicode_escape").decode("ascii")


@functools.lru_cache(maxsize=512)
def lines_of(text: str) -> str:
    """Return the text of one_line(), or the text itself if it has no backslash."""
    return text.encode("ascii").decode("unicode_escape") if text.isascii() else text


def is_eager(*tensors: torch.Tensor) -> bool:
    """Whether a call may go to the launcher directly: nothing traces, transforms or intercepts it."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and _forward_ad._current_level < 0
        and not any(tensor.is_neg() or type(tensor) not in _TYPES for tensor in tensors)
    )


def autocast_dtype(tensor: torch.Tensor) -> torch.dtype | None:
    """Return the dtype to which autocast casts on the tensor's device; None without autocast."""
    kind = tensor.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):  # torch knows no autocast of meta tensors
        return None
    return torch.get_autocast_dtype(kind)


def register_fake(operator: str, fake: Callable[..., Any]) -> None:
    """Register what an operator returns for tensors without memory. Meta tensors go with no others."""

    def checked(*arguments: Any) -> Any:
        tensors = [one for one in pytree.tree_leaves(arguments) if isinstance(one, torch.Tensor)]
        for tensor in tensors:
            if tensor.device != tensors[0].device:
                raise ValueError(f"{operator} got tensors on {tensors[0].device} and {tensor.device}; expected one device")
        return fake(*arguments)

    torch.library.register_fake(f"tunesmith::{operator}", checked)


def is_transformed() -> bool:
    """Whether a transform of torch.func or forward-mode autograd may see the call."""
    if is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None or _forward_ad._current_level >= 0


def transformable(
    operator: Callable[..., Any],
    setup_context: Callable[..., None],
    gradient: Callable[..., Any],
    *,
    vmap: bool = False,
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return an operator for calls under torch.func, whose grad does not see the gradient that operators register.

    vmap: the operator and that of its gradient have a rule for vmap. jvp: the forward-mode derivative, as of
    torch.autograd.Function; without it, forward-mode autograd raises NotImplementedError.
    """

    members = {
        "forward": staticmethod(lambda *arguments: operator(*arguments)),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(gradient),
        "jvp": staticmethod(jvp or no_forward_mode(operator.__name__)),
        "generate_vmap_rule": vmap,
    }
    return type("Transformed", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]


def no_forward_mode(operation: str) -> Callable[..., Any]:
    """Return the forward-mode derivative of an operation without one, which raises NotImplementedError."""

    def jvp(*_: Any) -> Any:
        raise NotImplementedError(
            f"tunesmith: {operation} has no forward-mode derivative (jvp); reverse mode works: backward(), "
            "torch.func.vjp, torch.func.grad, torch.func.jacrev"
        )

    return jvp


def no_second_derivative(operation: str) -> Callable[..., Any]:
    """Return the gradient of an operation's gradient, which raises NotImplementedError."""

    def gradient(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(f"tunesmith: {operation} has no second derivative")

    return gradient


def no_context(*_: Any, **__: Any) -> None:
    """Save nothing for a gradient."""


def reject_gradients(operation: str, **tensors: torch.Tensor | None) -> None:
    """Raise NotImplementedError if autograd wants the gradient of a tensor that has none."""
    for name, tensor in tensors.items():
        if needs_grad(tensor):
            raise NotImplementedError(f"tunesmith: {operation} has no gradient of {name}; detach it")


def needs_grad(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd records a call."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
