"""Row programs on tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _core
from .launching import DTYPES, Launcher, call, launch, launcher

__all__ = ["row_program"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define("row_program(Tensor[] inputs, str program, str numbers) -> Tensor[]")
_TYPES = {
    **{name: dtype for dtype, name in DTYPES.items() if dtype != torch.bool},
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def row_program(program: str, *inputs: torch.Tensor, numbers: Mapping[str, float] | None = None) -> Any:
    """Run a row program (docs/row-programs.md); return its output, or a tuple of its outputs.

    program: the text. inputs: its input arrays in their order; the type `float` is the dtype that they have. numbers: values
    of the program's numbers. The kernel is compiled for the program, the number of columns and the dtypes; numbers are
    parameters of the launch. Not differentiable: `tunesmith row-gradient` prints the gradient as a program.
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        raise NotImplementedError("tunesmith: row_program has no gradient; detach its inputs")
    values = ";".join(f"{name}={value!r}" for name, value in (numbers or {}).items())
    outputs = torch.ops.tunesmith.row_program(list(inputs), program, values)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _arrays(program: str, dtype: str, role: str) -> list[_core.Array]:
    arrays = _core.operation_arrays("row_program", {"program": program, "dtype": dtype})
    return [array for array in arrays if (array.role == "output") == (role == "output")]


def _problem(inputs: Sequence[torch.Tensor], program: str, numbers: str) -> dict[str, Any]:
    """Return the fields of the problem, but for alignments."""
    names = [array.name for array in _arrays(program, "f32", "input")]
    if len(names) != len(inputs):
        raise ValueError(f"the program has the inputs {', '.join(names)}; {len(inputs)} are given")
    given = [_NAMES.get(tensor.dtype) for tensor in inputs]
    fields: dict[str, Any] = {"program": program}
    for dtype in ("f32", "f16", "bf16"):
        if [array.dtype for array in _arrays(program, dtype, "input")] == given:
            fields["dtype"] = dtype
            break
    else:
        expected = ", ".join(f"{array.name} {array.dtype}" for array in _arrays(program, "f32", "input"))
        raise ValueError(f"the inputs are of {', '.join(map(str, given))}; expected {expected}, or another float type")
    for name, tensor in zip(names, inputs, strict=True):
        fields.update(_core.infer_fields("row_program", fields, name, list(tensor.shape)))
    if numbers:
        fields["numbers"] = numbers
    return fields


@functools.lru_cache(maxsize=512)
def _launcher(program: str, numbers: str) -> Launcher:
    def prepare(*inputs: torch.Tensor) -> _core.Launch | None:
        if not all(tensor.is_contiguous() for tensor in inputs):
            return None
        fields = _problem(inputs, program, numbers)
        names = [array.name for array in _arrays(program, fields["dtype"], "input")]
        alignments = {name: tensor.data_ptr() | 16 for name, tensor in zip(names, inputs, strict=True)}
        less = [f"{name}={address & -address}" for name, address in alignments.items() if address & 15]
        if less:
            fields["alignments"] = ";".join(less)
        outputs = {
            array.name: (tuple(array.shape), _TYPES[array.dtype])
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


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("row_program", _kernel, _key)
torch.library.register_fake("tunesmith::row_program", _fake)
