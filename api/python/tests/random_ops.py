"""Random calls of tunesmith.ops, of every operation and shipped row program, from the descriptions alone.

    PYTHONPATH=build/debug/python:api/python/tests python3 -m random_ops SEED

repeats one call. A call draws fields and the layouts of all arrays; its results are those of a plan that is launched with
contiguous arrays, but for roundings in another order. The kernels of plans are compared with float64 by tests/random.
"""

from __future__ import annotations

import random
import re
import sys
from typing import Any

import numpy
import numpy.typing

import tunesmith
from tunesmith import _core, ops
from tunesmith.described import dtype_fields, enabling, size_fields

Array = numpy.typing.NDArray[Any]
TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "u8": "u1", "i8": "i1", "i32": "i4", "i64": "i8"}
UNITS = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
LAYOUTS = ["contiguous", "fortran", "stepped", "reversed", "offset", "broadcast"]
#: Fields of other tests: arrays that are the caller's, the same, or read before they are written; a limit.
LEFT_OUT = ("caller_workspace", "in_place", "accumulate", "memory_bytes")
OPERATIONS = [name for name in _core.operation_names() if name != "row_program"]


def draw_problem(draw: random.Random) -> tuple[str, dict[str, Any], _core.Problem]:
    """Return an operation, fields and their problem."""
    while True:
        name = draw.choice(OPERATIONS if draw.random() < 0.7 else _core.shipped_program_names())
        fields: dict[str, Any] = {}
        try:
            sizes = size_fields(name)
        except ValueError:  # the gradient of a program that has none
            continue
        for field in _core.operation_fields(name):
            required = not field.default or field.name in sizes
            if field.name in LEFT_OUT or field.kind == "str" or field.name.endswith(("_stride", "_alignment")):
                continue
            if not required and draw.random() > (0.5 if field.name == "dtype" else 0.1):
                continue
            if field.kind == "choice":
                fields[field.name] = draw.choice(field.choices)
            elif field.kind == "bool":
                fields[field.name] = True
            elif field.kind == "int":
                fields[field.name] = draw.choice([1, 2, 3, 8, 16, 24])
            else:
                fields[field.name] = draw.choice([0.1, 0.5])
        problem = _repaired(draw, name, fields)
        if problem is None:
            continue
        arrays = problem.arrays
        if all(one.dtype in TYPES and not one.in_place_of for one in arrays) and sum(one.bytes for one in arrays) < 1 << 18:
            return name, fields, problem


def _repaired(draw: random.Random, name: str, fields: dict[str, Any]) -> _core.Problem | None:
    """Return the problem after fields are removed that errors name; None if that does not help."""
    while True:
        try:
            return _core.Problem(name, **fields)
        except ValueError as error:
            named = [field for field in fields if re.search(rf"\b{field}\b", str(error))]
            if not named:
                return None
            del fields[draw.choice(named)]


def values(draw: random.Random, generator: numpy.random.Generator, array: _core.Array) -> Array:
    shape = tuple(array.shape)
    if array.dtype == "bf16":
        return (generator.standard_normal(shape).astype("f4").view("u4") >> 16).astype("u2")
    if array.dtype in UNITS:
        # Some are divided by, or are logarithms.
        return numpy.abs(generator.standard_normal(shape)).astype(TYPES[array.dtype]) + TYPES_ONE[array.dtype]
    if array.name == "slot_mapping":
        return numpy.where(numpy.arange(array.shape[0]) == draw.randrange(2), 0, -1)
    return numpy.zeros(shape, TYPES[array.dtype])


TYPES_ONE = {dtype: numpy.ones((), TYPES[dtype]) for dtype in ("f32", "f64", "f16")}


def laid_out(draw: random.Random, array: Array, *, repeated: bool = True) -> tuple[Array, str]:
    """Return an array of the same values in another layout, and the layout; one of "broadcast" has other values."""
    layout = draw.choice(LAYOUTS if repeated else LAYOUTS[:-1])
    dim = draw.randrange(max(1, array.ndim))
    if layout == "fortran":
        return numpy.asfortranarray(array), layout
    if layout == "stepped" and array.ndim:
        wide = numpy.repeat(array, 2, axis=dim)
        index = tuple(slice(None, None, 2 if i == dim else None) for i in range(array.ndim))
        wide[tuple(slice(1, None, 2) if i == dim else slice(None) for i in range(array.ndim))] = 77
        return wide[index], layout
    if layout == "reversed" and array.ndim:
        return numpy.flip(numpy.flip(array, dim).copy(), dim), layout
    if layout == "offset":
        memory = numpy.full(array.size + 1, 77, array.dtype)
        memory[1:] = array.ravel()
        return memory[1:].reshape(array.shape), layout
    if layout == "broadcast" and array.size:
        return numpy.broadcast_to(array.take([0], dim), array.shape), layout
    return array.copy(), "contiguous"


def run(seed: int, engine: tunesmith.Engine) -> str:
    """Run the call of a seed and compare; return what it was. Raises AssertionError with that text."""
    draw, generator = random.Random(seed), numpy.random.default_rng(seed)
    name, fields, problem = draw_problem(draw)
    text, given, plain, plain_results = f"{name}({fields})", {}, [], {}
    for array in problem.arrays:
        made = values(draw, generator, array)
        if array.role == "output":
            packed = -numpy.inf if array.name == "lse" else 0  # rows after the last sequence, which the plan does not write
            made = numpy.full(made.shape, packed if "varlen" in fields else 55, made.dtype)
        else:
            # Elements that are written have one place each.
            given[array.name], layout = laid_out(draw, made, repeated=array.role == "input" and array.dtype in UNITS)
            made = given[array.name].copy()
            text += f"\n  {array.name}: {array.dtype}{array.shape} {layout}"
        plain.append(made)
        if array.role != "input":
            plain_results[array.name] = made
    engine.prepare(problem).launch(*plain)
    stated = {field: value for field, value in fields.items() if field not in size_fields(name)}
    inferred = {field for array, (field, _) in dtype_fields(name).items() if array in given}
    for array_name, value in given.items():  # not the longest of packed sequences, which no array has as its extent
        inferred |= size_fields(name) & set(_core.infer_fields(name, stated, array_name, value.shape))
    inferred -= {field for ways in enabling(name).values() for field, _ in ways}  # such as the size of pages
    options = {field: value for field, value in fields.items() if field not in inferred}
    # By position: a field may have the name of an array.
    inputs = [given.get(array.name) for array in ops._inputs(name, {})]
    try:
        found = getattr(ops, name)(*inputs, **options, engine=engine)
        results = dict(zip(plain_results, found if isinstance(found, tuple) else (found,), strict=True))
        for array in problem.arrays:
            if array.name in results:
                _compare(array, results[array.name], plain_results[array.name])
    except Exception as error:
        raise AssertionError(f"seed {seed}: {text}\n{type(error).__name__}: {error}") from error
    return text


def _compare(array: _core.Array, ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape or ours.size == theirs.size, f"{array.name} has the shape {ours.shape}"
    if array.dtype == "bf16":
        ours, theirs = ((one.astype("u4") << 16).view("f4") for one in (ours, theirs))
    if array.dtype not in UNITS:
        return numpy.testing.assert_array_equal(ours.reshape(theirs.shape), theirs, array.name)
    # A rounding of the result, and sums of at most 2^10 terms in another order.
    unit = UNITS[array.dtype] + 1024 * UNITS["f64" if array.dtype == "f64" else "f32"]
    finite = theirs[numpy.isfinite(theirs)].astype(float)
    scale = max(1.0, float(numpy.abs(finite).max())) if finite.size else 1.0
    numpy.testing.assert_allclose(
        ours.reshape(theirs.shape).astype(float), theirs.astype(float), rtol=0, atol=2 * unit * scale, err_msg=array.name
    )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(run(int(argument), tunesmith.Engine("host", mode="off", cache_file="", system_caches=[])))
