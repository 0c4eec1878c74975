"""The fields of an operation that are inferred from arrays: presence, element types, sizes and strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _core

__all__ = [
    "Described",
    "alignment_fields",
    "arrays_of",
    "default_of",
    "dtype_fields",
    "enabling",
    "filled",
    "size_fields",
    "stride_fields",
]

_PROBE = 1 << 20  # a stride that no default has


def default_of(field: _core.Field) -> Any:
    """Return the default of a field; None if it depends on other fields, or if there is none."""
    if field.kind == "choice":
        return field.default if field.default in field.choices else None
    if field.kind == "str":
        return ""
    if field.kind == "bool":
        return field.default == "1"
    try:
        return int(field.default) if field.kind == "int" else float(field.default)
    except ValueError:
        return None


@functools.cache
def enabling(op: str) -> dict[str, list[tuple[str, Any]]]:
    """Return the fields, and their values, that enable each optional array; first the flag of the array's own name."""
    usual = {array.name for array in _core.operation_arrays(op, {}) if array.present}
    found: dict[str, list[tuple[str, Any]]] = {}
    for field in _core.operation_fields(op):
        values: list[Any] = [True] if field.kind == "bool" else list(field.choices)
        if field.kind == "int" and default_of(field) is None:
            values = [1]
        for value in values:
            for array in _core.operation_arrays(op, {field.name: value}):
                if array.present and array.name not in usual:
                    found.setdefault(array.name, []).append((field.name, value))
    return {name: sorted(ways, key=lambda way: way[0] != name) for name, ways in found.items()}


@functools.cache
def dtype_fields(op: str) -> dict[str, tuple[str, list[str]]]:
    """Return the fields that are the element types of arrays, with their choices; an array's own before a common one."""
    result: dict[str, tuple[str, list[str]]] = {}
    for field in _core.operation_fields(op):
        if field.kind != "choice" or not field.name.endswith("dtype"):
            continue
        types = [(choice, _core.operation_arrays(op, {field.name: choice})) for choice in field.choices]
        for i, array in enumerate(types[0][1]):
            if all(arrays[i].dtype == choice for choice, arrays in types):
                result[array.name] = (field.name, field.choices)
    return result


@functools.cache
def alignment_fields(op: str) -> dict[str, str]:
    """Return the fields that are the alignments of arrays."""
    return {array.name: array.alignment_field for array in _core.operation_arrays(op, {}) if array.alignment_field}


@functools.cache
def size_fields(op: str) -> set[str]:
    """Return the fields that are extents of arrays."""
    ways = [{}, *({field: value} for each in enabling(op).values() for field, value in each)]
    return {dim.split(" + ")[0] for way in ways for array in _core.operation_arrays(op, way) for dim in array.dims}


class Described(NamedTuple):
    """An array of problems that have some fields in common."""

    name: str
    is_output: bool
    dtype: str
    dims: tuple[str, ...]
    #: The fields of the strides of the dimensions; None for a dimension that has none.
    strides: tuple[str | None, ...]


@functools.lru_cache(maxsize=1024)
def arrays_of(op: str, fields: tuple[tuple[str, Any], ...]) -> list[Described]:
    """Return the arrays that problems with these fields have; sizes and strides may be absent."""
    return [
        Described(array.name, array.role == "output", array.dtype, tuple(array.dims), stride_fields(op, array, dict(fields)))
        for array in _core.operation_arrays(op, dict(fields))
        if array.present
    ]


@functools.cache
def filled(op: str) -> dict[str, float]:
    """Return the outputs that hold a value before a launch, and the value: no kernel writes rows after the last sequence.

    Of packed sequences: with the array cu_seqlens_q.
    """
    packed = arrays_of(op, tuple(enabling(op).get("cu_seqlens_q", ())))
    return {
        array.name: -math.inf if array.name == "lse" else 0.0
        for array in packed
        if array.is_output and any(dim.startswith("total_") for dim in array.dims)
    }


_stride_fields: dict[tuple[str, str, tuple[str, ...]], tuple[str | None, ...]] = {}


def stride_fields(op: str, array: _core.Array, fields: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the fields of the strides of an array's dimensions; None for a dimension that has none. fields: the others."""
    key = (op, array.name, tuple(array.dims))
    if key not in _stride_fields:
        found: list[str | None] = [None] * len(array.dims)
        for field in _core.operation_fields(op):
            if field.name.startswith(f"{array.name}_") and field.name.endswith("_stride"):
                probed = _core.operation_arrays(op, {**fields, field.name: _PROBE})
                strides = next(one.strides for one in probed if one.name == array.name)
                if _PROBE in strides:
                    found[strides.index(_PROBE)] = field.name
        _stride_fields[key] = tuple(found)
    return _stride_fields[key]
