"""Row programs on tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..described import Described, arrays_of
from ..number_text import number_texts
from .dtypes import DTYPES
from .launchers import Launcher, Prepared, by_options, call, launcher
from .launching import launch
from .operators import register_fake, sizes_of
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
_WHOLE = ("rows", "cols")
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
    """Return a shipped program as a function of its inputs, with its numbers as keywords: shipped("layer_norm")(x, w, b).

    `dim` is the dimension of the columns; all others are rows. Inputs that the program declares as `float` are converted to
    the dtype of the first of them, so that weights may be float32.
    """
    program = _core.shipped_program(name)
    inputs_of = _arrays(program, "f32")
    outputs_of = _arrays(program, "f32", outputs=True)
    names = [array.name for array in inputs_of]
    floats = [one.dtype != other.dtype for one, other in zip(inputs_of, _arrays(program, "bf16"), strict=True)]
    of_rows = [len(array.dims) == 2 for array in inputs_of]
    of_columns = [array.dims == ("cols",) for array in inputs_of]
    has_rows = ["rows" in array.dims for array in outputs_of]
    has_columns = ["cols" in array.dims for array in outputs_of]

    def run(*inputs: torch.Tensor, dim: int = -1, **numbers: float) -> Any:
        if len(inputs) != len(names):
            raise ValueError(f"{name} has the inputs {', '.join(names)}; {len(inputs)} are given")
        dtype = next((tensor.dtype for tensor, is_float in zip(inputs, floats, strict=True) if is_float), None)
        if name in _FLOAT32_UNDER_AUTOCAST and autocast_dtype(inputs[0]) is not None and dtype != torch.float64:
            dtype = torch.float32
        whole = next((tensor.shape for tensor, is_whole in zip(inputs, of_rows, strict=True) if is_whole), None)
        leading, trailing = ((), ()) if whole is None else (whole[:dim], whole[dim:][1:])
        inner = math.prod(trailing)
        rows = []
        for tensor, is_whole, is_float, is_columns in zip(inputs, of_rows, floats, of_columns, strict=True):
            if inner > 1 and not is_columns:
                shape = (math.prod(leading), *([tensor.shape[dim]] if is_whole else []), inner)
            elif is_whole:  # not -1: the columns may be none
                shape = (math.prod(tensor.shape[:dim]) * math.prod(tensor.shape[dim:][1:]), tensor.shape[dim])
            else:
                shape = (-1,)
            rows.append(tensor.reshape(shape).to(dtype if is_float else tensor.dtype))
        results = row_program(program, *rows, numbers=numbers)
        outputs = [results] if torch.is_tensor(results) else list(results)
        if whole is not None:
            for i, output in enumerate(outputs):
                rest = output.shape[2 if inner > 1 else 1 :]
                if has_rows[i]:
                    outputs[i] = output.reshape(whole if has_columns[i] else (*leading, *trailing, *rest))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    lines = [line[2:] for line in program.splitlines() if line.startswith("# ")]
    run.__name__ = run.__qualname__ = name
    run.__doc__ = " ".join(lines) + f" Inputs: {', '.join(names)}. A shipped row program (docs/row-programs.md)."
    return run


def _arrays(program: str, dtype: str, *, outputs: bool = False) -> list[Described]:
    arrays = arrays_of("row_program", (("program", lines_of(program)), ("dtype", dtype)))
    return [array for array in arrays if array.is_output == outputs]


def _problem(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> dict[str, Any]:
    """Return the fields of the problem, but for alignments."""
    arrays = _arrays(program, "f32")
    names = [array.name for array in arrays]
    if len(names) != len(inputs):
        raise ValueError(f"the program has the inputs {', '.join(names)}; {len(inputs)} are given")
    given = [_NAMES.get(tensor.dtype, str(tensor.dtype)) for tensor in inputs]
    fields: dict[str, Any] = {"program": lines_of(program)}
    for array, tensor in zip(arrays, inputs, strict=True):
        if tensor.dim() == 3 and array.dims == _WHOLE:
            fields["inner"] = int(tensor.shape[2])
    for dtype in ("f32", "f16", "bf16", "f64"):
        if [array.dtype for array in _arrays(program, dtype)] == given:
            fields["dtype"] = dtype
            break
    else:
        expected = ", ".join(f"{array.name} {array.dtype}" for array in arrays)
        raise ValueError(f"the inputs are of {', '.join(given)}; expected {expected}, or f16, bf16 or f64 as float")
    sizes = sizes_of(arrays_of("row_program", tuple(fields.items())), dict(zip(names, inputs, strict=True)), {})
    fields |= {name: sizes[name] for name in ("rows", "cols") if name in sizes}  # others are numbers of the program
    if numbers:
        fields["numbers"] = numbers
    return fields


def _strides(inputs: Sequence[torch.Tensor], program: str, fields: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the fields of the strides of inputs; None where contiguous copies are needed, or faster.

    Outputs are contiguous. A copy is faster where columns are adjacent in an output, but not in an input, and where an input
    has one position for all, so that no array is read in vectors.
    """
    names = ("row_strides", "col_strides", "inner_strides")
    found: dict[str, list[str]] = {name: [] for name in names}
    has_rows = any(array.dims == _WHOLE for array in _arrays(program, fields["dtype"], outputs=True))
    for array, tensor in zip(_arrays(program, fields["dtype"]), inputs, strict=True):
        if tensor.is_contiguous():
            continue
        strides = [step if extent > 1 else 1 for step, extent in zip(tensor.stride(), tensor.shape, strict=True)]
        slow = strides[-1] == 0 or (tensor.dim() == 2 and has_rows and strides[-1] != 1)
        if array.dims != _WHOLE or slow:
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


@functools.lru_cache(maxsize=512)
def _gradient_of(program: str) -> tuple[str, list[str], dict[str, int], list[str], set[str]]:
    """Return the gradient's text, its inputs, the derivatives among them with their outputs, its outputs and numbers."""
    text = _core.row_program_gradient(lines_of(program))
    forward = [array.name for array in _arrays(program, "f32")]
    inputs = [array.name for array in _arrays(text, "f32")]
    free = [name for name in inputs if name not in forward]
    derivatives: dict[str, int] = {}
    for position, output in enumerate(_arrays(program, "f32", outputs=True)):
        # An underscore follows where an input has the name already.
        found = next((name for name in free if name.rstrip("_") == "d" + output.name and name not in derivatives), None)
        if found is not None:
            derivatives[found] = position
    outputs = [array.name for array in _arrays(text, "f32", outputs=True)]
    numbers = {line.split()[1] for line in text.splitlines() if line.startswith("num ")}
    values = ";".join(f"{name}=1" for name in numbers) or None
    # Raises where the gradient has too many arrays.
    _core.Problem("row_program", program=text, dtype="f32", rows=3, cols=4096, numbers=values)
    return text, inputs, derivatives, outputs, numbers


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, ctx.program, ctx.numbers = inputs
    ctx.save_for_backward(*tensors)
    ctx.outputs = [(array.shape, array.dtype) for array in output]
    ctx.mark_non_differentiable(*(array for array in output if not array.dtype.is_floating_point))


def _backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Any:
    tensors = ctx.saved_tensors
    text, inputs, derivatives, outputs, known = _gradient_of(ctx.program)
    forward = [array.name for array in _arrays(ctx.program, "f32")]
    dtype = _problem(tensors, ctx.program, "")["dtype"]
    types = {array.name: _TYPES[array.dtype] for array in _arrays(text, dtype)}
    whole = {array.name for array in _arrays(text, dtype) if array.dims == _WHOLE}
    given = []
    for name in inputs:
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
    numbers = ";".join(pair for pair in ctx.numbers.split(";") if pair.split("=")[0] in known)
    results = dict(zip(outputs, _run(given, text, numbers), strict=True))
    found: list[torch.Tensor | None] = []
    for name, tensor in zip(forward, tensors, strict=True):
        of_input = next((result for key, result in results.items() if key.rstrip("_") == "d" + name), None)
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
        and any(_TYPES[array.dtype].is_floating_point for array in _arrays(program, "f32", outputs=True))
    ):
        _gradient_of(program)  # raises now rather than in the backward pass
    if is_transformed():
        return _transformed(program, numbers, *inputs)
    return torch.ops.tunesmith.row_program(list(inputs), program, numbers)


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("row_program", _kernel, _key)
register_fake("row_program", _fake)
torch.library.register_autograd("tunesmith::row_program", _backward, setup_context=_setup_context)
