"""Row programs as functions of another library's tensors: the fields of a call, gradients, and the shipped programs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _core
from .described import Described, arrays_of
from .signature import sizes_of

__all__ = [
    "WHOLE",
    "Gradient",
    "arrays_of_program",
    "fields_of_inputs",
    "gradient_of",
    "over_rows",
    "rms_norm_gradient",
    "shipped_function",
]

#: The dimensions of an array with an element for each row and column.
WHOLE = ("rows", "cols")


def arrays_of_program(program: str, dtype: str = "f32", *, outputs: bool = False) -> list[Described]:
    """Return the inputs or outputs of a program whose type `float` is dtype."""
    arrays = arrays_of("row_program", (("program", program), ("dtype", dtype)))
    return [array for array in arrays if array.is_output == outputs]


def fields_of_inputs(program: str, inputs: Sequence[Any], types: Sequence[str], numbers: str) -> dict[str, Any]:
    """Return the fields of the problem of contiguous inputs. types: their element types.

    An input [row, col] of three dimensions is (rows, cols, inner).
    """
    arrays = arrays_of_program(program)
    names = [array.name for array in arrays]
    if len(names) != len(inputs):
        raise ValueError(f"the program has the inputs {', '.join(names)}; {len(inputs)} are given")
    fields: dict[str, Any] = {"program": program}
    for array, tensor in zip(arrays, inputs, strict=True):
        if len(tensor.shape) == 3 and array.dims == WHOLE:
            fields["inner"] = int(tensor.shape[2])
    for dtype in ("f32", "f16", "bf16", "f64"):
        if [array.dtype for array in arrays_of_program(program, dtype)] == list(types):
            fields["dtype"] = dtype
            break
    else:
        expected = ", ".join(f"{array.name} {array.dtype}" for array in arrays)
        raise ValueError(f"the inputs are of {', '.join(types)}; expected {expected}, or f16, bf16 or f64 as float")
    sizes = sizes_of(arrays_of("row_program", tuple(fields.items())), dict(zip(names, inputs, strict=True)), {})
    fields |= {name: sizes[name] for name in WHOLE if name in sizes}  # others are numbers of the program
    if numbers:
        fields["numbers"] = numbers
    return fields


class Gradient(NamedTuple):
    """The gradient of a program, which is a program."""

    text: str
    inputs: list[str]
    #: The derivatives among the inputs, with the positions of their outputs of the forward program.
    derivatives: dict[str, int]
    outputs: list[str]
    numbers: set[str]

    def of(self, name: str, results: Sequence[Any]) -> Any:
        """Return the gradient of an input among the results of the gradient program; None if it has none."""
        found = zip(self.outputs, results, strict=True)
        return next((result for key, result in found if key.rstrip("_") == "d" + name), None)

    def values(self, numbers: str) -> str:
        """Return those numbers of the forward program that the gradient has."""
        return ";".join(pair for pair in numbers.split(";") if pair.split("=")[0] in self.numbers)


@functools.lru_cache(maxsize=512)
def gradient_of(program: str) -> Gradient:
    """Return the gradient of a program; raises ValueError if it has none, or one of too many arrays."""
    text = _core.row_program_gradient(program)
    forward = [array.name for array in arrays_of_program(program)]
    inputs = [array.name for array in arrays_of_program(text)]
    free = [name for name in inputs if name not in forward]
    derivatives: dict[str, int] = {}
    for position, output in enumerate(arrays_of_program(program, outputs=True)):
        # An underscore follows where an input has the name already.
        found = next((name for name in free if name.rstrip("_") == "d" + output.name and name not in derivatives), None)
        if found is not None:
            derivatives[found] = position
    outputs = [array.name for array in arrays_of_program(text, outputs=True)]
    numbers = {line.split()[1] for line in text.splitlines() if line.startswith("num ")}
    values = ";".join(f"{name}=1" for name in numbers) or None
    _core.Problem("row_program", program=text, dtype="f32", rows=3, cols=4096, numbers=values)  # checks the arrays' number
    return Gradient(text, inputs, derivatives, outputs, numbers)


def over_rows(program: str) -> list[bool] | None:
    """Return which inputs have rows; None if a program sees more than its row: its number, their number, or other rows."""
    code = " ".join(line.split("#")[0] for line in program.splitlines())
    for index in ("[row, col", "[row,col", "[row]"):  # the kinds of arrays
        code = code.replace(index, " ")
    words = set(code.replace("[", " ").translate(_NO_WORDS).split())
    if words & {"row", "rows", "colsum", "uniform"}:
        return None
    if not all("rows" in array.dims for array in arrays_of_program(program, outputs=True)):
        return None
    return ["rows" in array.dims for array in arrays_of_program(program)]


_NO_WORDS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}


@functools.lru_cache(maxsize=32)
def rms_norm_gradient(weight: str | None, offset: bool, wanted: bool) -> str:
    """Return the gradient of rms_norm; weight: the type of the weight, None if there is none. wanted: with its gradient."""
    program = _core.shipped_program("rms_norm")
    if weight is None:
        program = program.replace("in w : float[col]\n", "").replace(" * w", "")
    else:
        program = program.replace("w : float", f"w : {weight}")
    if offset:
        program = program.replace("num eps", "num offset : f32\nnum eps").replace(" * w", " * (w + offset)")
    lines = _core.row_program_gradient(program).splitlines()
    return "\n".join(line for line in lines if wanted or not line.startswith("colsum"))


def shipped_function(
    name: str,
    run: Callable[[str, Sequence[Any], Mapping[str, float]], Sequence[Any]],
    convert: Callable[[Any, Any], Any],
    dtype_for: Callable[[Any, Any], Any] = lambda dtype, first: dtype,
) -> Callable[..., Any]:
    """Return a shipped program as a function of its inputs, with its numbers as keywords: layer_norm(x, w, b, eps=1e-6).

    `dim` is the dimension of the columns; all others are rows. Inputs that the program declares as `float` are converted to
    the dtype of the first of them, so that weights may be float32. run(program, inputs, numbers) returns the outputs;
    convert(tensor, dtype) converts; dtype_for(dtype, first input) may choose another dtype.
    """
    program = _core.shipped_program(name)
    inputs_of = arrays_of_program(program)
    outputs_of = arrays_of_program(program, outputs=True)
    names = [array.name for array in inputs_of]
    floats = [one.dtype != other.dtype for one, other in zip(inputs_of, arrays_of_program(program, "bf16"), strict=True)]
    of_rows = [len(array.dims) == 2 for array in inputs_of]
    of_columns = [array.dims == ("cols",) for array in inputs_of]
    has_rows = ["rows" in array.dims for array in outputs_of]
    has_columns = ["cols" in array.dims for array in outputs_of]

    def function(*inputs: Any, dim: int = -1, **numbers: float) -> Any:
        if len(inputs) != len(names):
            raise ValueError(f"{name} has the inputs {', '.join(names)}; {len(inputs)} are given")
        dtype = next((tensor.dtype for tensor, is_float in zip(inputs, floats, strict=True) if is_float), None)
        dtype = dtype_for(dtype, inputs[0])
        whole = next((tensor.shape for tensor, is_whole in zip(inputs, of_rows, strict=True) if is_whole), None)
        leading, trailing = ((), ()) if whole is None else (whole[:dim], whole[dim:][1:])
        inner = math.prod(trailing)
        rows = []
        for tensor, is_whole, is_float, is_columns in zip(inputs, of_rows, floats, of_columns, strict=True):
            shape: tuple[int, ...]
            if inner > 1 and not is_columns:
                shape = (math.prod(leading), *([tensor.shape[dim]] if is_whole else []), inner)
            elif is_whole:  # not -1: the columns may be none
                shape = (math.prod(tensor.shape[:dim]) * math.prod(tensor.shape[dim:][1:]), tensor.shape[dim])
            else:
                shape = (-1,)
            rows.append(convert(tensor.reshape(shape), dtype if is_float else tensor.dtype))
        outputs = list(run(program, rows, numbers))
        if whole is not None:
            for i, output in enumerate(outputs):
                rest = output.shape[2 if inner > 1 else 1 :]
                if has_rows[i]:
                    outputs[i] = output.reshape(whole if has_columns[i] else (*leading, *trailing, *rest))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    lines = [line[2:] for line in program.splitlines() if line.startswith("# ")]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = " ".join(lines) + f" Inputs: {', '.join(names)}. A shipped row program (docs/row-programs.md)."
    return function
