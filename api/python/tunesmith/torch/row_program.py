"""Row programs on tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..described import Described
from ..number_text import number_texts
from ..row_programs import WHOLE, arrays_of_program, fields_of_inputs, gradient_of, shipped_function
from .dtypes import DTYPES
from .launchers import Launcher, Prepared, by_options, call, launcher
from .launching import launch
from .operators import register_fake
from .texts import lines_of, one_line
from .transforms import autocast_dtype, is_compiling, is_transformed, needs_grad, transformable

__all__ = ["row_program", "shipped"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define("row_program(Tensor[] inputs, str program, str numbers) -> Tensor[]")
_TYPES = {
    **{name: dtype for dtype, name in DTYPES.items() if dtype != torch.bool},
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "u8": torch.bool,
}
#: What torch's autocast computes in float32; float64 stays.
_FLOAT32_UNDER_AUTOCAST = {"layer_norm"}
_NAMES = {**{dtype: name for name, dtype in _TYPES.items()}, torch.uint8: "u8"}


def row_program(program: str, *inputs: torch.Tensor, numbers: Mapping[str, float] | None = None) -> Any:
    """Run a row program (docs/row-programs.md); return its output, or a tuple of its outputs.

    program: the text. inputs: its input arrays in their order; the type `float` is the dtype that they have. numbers: values
    of the program's numbers. The kernel is compiled for the program, the number of columns and the dtypes; numbers are
    parameters of the launch. Differentiable: the backward pass saves the inputs and runs the program's gradient. A program
    with a float64 tensor computes in float64.

    An input [row, col] of three dimensions is (rows, cols, inner), such as x.flatten(2) of (batch, class, height, width):
    each position is a row of the program. Such inputs are read at any strides, and inputs of two dimensions at any stride
    between rows. Outputs are contiguous.
    """
    values = number_texts(numbers or {})
    outputs = _run(inputs, program, values)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def shipped(name: str) -> Callable[..., Any]:
    """Return a shipped program as a function of its inputs, with its numbers as keywords: shipped("layer_norm")(x, w, b)."""

    def dtype_for(dtype: torch.dtype | None, first: torch.Tensor) -> torch.dtype | None:
        cast = name in _FLOAT32_UNDER_AUTOCAST and autocast_dtype(first) is not None and dtype != torch.float64
        return torch.float32 if cast else dtype

    return shipped_function(
        name, lambda program, inputs, numbers: _run(inputs, program, number_texts(numbers)), torch.Tensor.to, dtype_for
    )


def _arrays(program: str, dtype: str = "f32", *, outputs: bool = False) -> list[Described]:
    return arrays_of_program(lines_of(program), dtype, outputs=outputs)


def _problem(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> dict[str, Any]:
    """Return the fields of the problem, but for alignments."""
    types = [_NAMES.get(tensor.dtype, str(tensor.dtype)) for tensor in inputs]
    return fields_of_inputs(lines_of(program), inputs, types, numbers)


def _strides(inputs: Sequence[torch.Tensor], program: str, fields: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the fields of the strides of inputs; None where contiguous copies are needed, or faster.

    Outputs are contiguous. A copy is faster where columns are adjacent in an output, but not in an input, and where an input
    has one position for all, so that no array is read in vectors.
    """
    names = ("row_strides", "col_strides", "inner_strides")
    found: dict[str, list[str]] = {name: [] for name in names}
    has_rows = any(array.dims == WHOLE for array in _arrays(program, fields["dtype"], outputs=True))
    for array, tensor in zip(_arrays(program, fields["dtype"]), inputs, strict=True):
        if tensor.is_contiguous():
            continue
        strides = [step if extent > 1 else 1 for step, extent in zip(tensor.stride(), tensor.shape, strict=True)]
        slow = strides[-1] == 0 or (tensor.dim() == 2 and has_rows and strides[-1] != 1)
        if array.dims != WHOLE or slow:
            return None
        if tensor.shape[0] == 1:
            strides[0] = tensor.shape[1:].numel()
        for name, step in zip(names, strides, strict=False):
            found[name].append(f"{array.name}={step}")
    given = {name: ";".join(pairs) for name, pairs in found.items() if pairs}
    if not given:
        return given
    try:
        _core.Problem("row_program", **fields, **given)
    except ValueError:  # rows that overlap, or groups of columns that are not adjacent
        return None
    return given


@by_options
def _launcher(program: str, numbers: str) -> Launcher:
    def prepare(*inputs: torch.Tensor) -> Prepared | None:
        fields = _problem(inputs, program, numbers)
        strides = _strides(inputs, program, fields)
        if strides is None:
            return None
        fields |= strides
        names = [array.name for array in _arrays(program, fields["dtype"])]
        alignments = {name: tensor.data_ptr() | 16 for name, tensor in zip(names, inputs, strict=True)}
        less = [f"{name}={address & -address}" for name, address in alignments.items() if address & 15]
        if less:
            fields["alignments"] = ";".join(less)
        outputs = {
            array.name: torch.empty(tuple(array.shape), dtype=_TYPES[array.dtype], device="meta")
            for array in _core.Problem("row_program", **fields).arrays
            if array.role == "output"
        }
        return launch("row_program", fields, dict(zip(names, inputs, strict=True)), outputs)

    return launcher("row_program", prepare)


def _kernel(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> Any:
    result = call(_launcher(program, numbers), *inputs)
    return list(result) if isinstance(result, tuple) else [result]


def _fake(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> Any:
    problem = _core.Problem("row_program", **_problem(inputs, program, numbers))
    return [
        inputs[0].new_empty(tuple(array.shape), dtype=_TYPES[array.dtype])
        for array in problem.arrays
        if array.role == "output"
    ]


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, ctx.program, ctx.numbers = inputs
    ctx.save_for_backward(*tensors)
    ctx.outputs = [(array.shape, array.dtype) for array in output]
    ctx.mark_non_differentiable(*(array for array in output if not array.dtype.is_floating_point))


def _backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Any:
    tensors = ctx.saved_tensors
    gradient_program = gradient_of(lines_of(ctx.program))
    text, derivatives = gradient_program.text, gradient_program.derivatives
    forward = [array.name for array in _arrays(ctx.program)]
    dtype = _problem(tensors, ctx.program, "")["dtype"]
    types = {array.name: _TYPES[array.dtype] for array in _arrays(text, dtype)}
    whole = {array.name for array in _arrays(text, dtype) if array.dims == WHOLE}
    given = []
    for name in gradient_program.inputs:
        if name not in derivatives:
            given.append(tensors[forward.index(name)])
            continue
        gradient = gradients[derivatives[name]]
        shape, _ = ctx.outputs[derivatives[name]]
        if gradient is None:
            given.append(tensors[0].new_zeros(shape, dtype=types[name]))
            continue
        gradient = gradient.to(types[name])
        given.append(gradient if name in whole and gradient.stride(-1) == 1 else gradient.contiguous())
    results = _run(given, text, gradient_program.values(ctx.numbers))
    found: list[torch.Tensor | None] = []
    for name, tensor in zip(forward, tensors, strict=True):
        of_input = gradient_program.of(name, results)
        found.append(None if of_input is None else of_input.to(tensor.dtype))
    return found, None, None


def _flat(program: str, numbers: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Run a program; transforms of torch.func see tensors that are arguments, but not tensors in a list."""
    return tuple(torch.ops.tunesmith.row_program(list(inputs), program, numbers))


def _flat_context(ctx: Any, inputs: Any, output: Any) -> None:
    program, numbers, *tensors = inputs
    _setup_context(ctx, (tensors, program, numbers), output)


_flat.__name__ = "row_program"
_transformed = transformable(
    _flat, _flat_context, lambda ctx, *gradients: (None, None, *_backward(ctx, gradients)[0]), vmap=True
)


def _run(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> Sequence[torch.Tensor]:
    program = one_line(program)
    if (
        not is_compiling()
        and needs_grad(*inputs)
        and any(_TYPES[array.dtype].is_floating_point for array in _arrays(program, outputs=True))
    ):
        gradient_of(lines_of(program))  # raises now rather than in the backward pass
    if is_transformed():
        return _transformed(program, numbers, *inputs)
    return torch.ops.tunesmith.row_program(list(inputs), program, numbers)


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("row_program", _kernel, _key)
register_fake("row_program", _fake)
torch.library.register_autograd("tunesmith::row_program", _backward, setup_context=_setup_context)
