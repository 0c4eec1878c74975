"""Row programs on arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ..number_text import number_texts
from ..row_programs import arrays_of_program, fields_of_inputs, gradient_of, over_rows, shipped_function
from .calls import DTYPES, alike, launch
from .operators import batched

__all__ = ["row_program", "run_program", "shipped"]


def row_program(program: str, *inputs: jax.Array, numbers: Mapping[str, float] | None = None) -> Any:
    """Run a row program (docs/row-programs.md); return its output, or a tuple of its outputs.

    program: the text. inputs: its input arrays in their order; the type `float` is the dtype that they have. An input
    [row, col] of three dimensions is (rows, cols, inner): each position is a row of the program. numbers: values of the
    program's numbers, which are constants of the compiled program. Differentiable: the backward pass saves the inputs and
    runs the program's gradient.
    """
    outputs = _run(program, inputs, numbers or {})
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def shipped(name: str) -> Callable[..., Any]:
    """Return a shipped program as a function of its inputs, with its numbers as keywords: shipped("layer_norm")(x, w, b)."""
    return shipped_function(name, _run, lambda array, dtype: array.astype(dtype))


def _run(program: str, inputs: Sequence[jax.Array], numbers: Mapping[str, float]) -> list[jax.Array]:
    return list(_function(program, number_texts(numbers))(*alike(*inputs)))


def run_program(program: str, numbers: str, inputs: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the outputs of a program without a derivative."""
    return list(_call(program, numbers)(*inputs))


@functools.lru_cache(maxsize=512)
def _call(program: str, numbers: str) -> Any:
    names = [array.name for array in arrays_of_program(program)]
    outputs = [array.name for array in arrays_of_program(program, outputs=True)]
    has_rows = over_rows(program)

    def run(*inputs: Any) -> list[Any]:
        types = [DTYPES.get(array.dtype, str(array.dtype)) for array in inputs]
        fields = fields_of_inputs(program, inputs, types, numbers)
        return launch("row_program", fields, dict(zip(names, inputs, strict=True)), outputs)

    def merges(arrays: Sequence[Any], mapped: Sequence[bool]) -> list[bool] | None:
        if has_rows is None or any(is_mapped and not has for is_mapped, has in zip(mapped, has_rows, strict=True)):
            return None
        return has_rows

    return jax.jit(batched(run, merges))


@functools.lru_cache(maxsize=512)
def _function(program: str, numbers: str) -> Any:
    call = _call(program, numbers)
    forward_names = [array.name for array in arrays_of_program(program)]

    @jax.custom_vjp
    def run(*inputs: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(call(*inputs))

    def forward(*inputs: jax.Array) -> Any:
        gradient_of(program)  # raises now rather than in the backward pass
        return run(*inputs), inputs

    def backward(inputs: Any, gradients: Any) -> Any:
        gradient = gradient_of(program)
        types = [DTYPES[array.dtype] for array in inputs]
        dtype = fields_of_inputs(program, inputs, types, numbers)["dtype"]
        wanted = {array.name: array.dtype for array in arrays_of_program(gradient.text, dtype)}
        dtypes = {name: key for key, name in reversed(DTYPES.items())}
        given = []
        for name in gradient.inputs:
            if name in gradient.derivatives:
                given.append(gradients[gradient.derivatives[name]].astype(dtypes[wanted[name]]))
            else:
                given.append(inputs[forward_names.index(name)])
        results = run_program(gradient.text, gradient.values(numbers), given)
        found = [gradient.of(name, results) for name in forward_names]
        return tuple(
            None if one is None else one.astype(array.dtype).reshape(array.shape)
            for one, array in zip(found, inputs, strict=True)
        )

    run.defvjp(forward, backward)
    return run
