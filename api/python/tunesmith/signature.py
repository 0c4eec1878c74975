"""The arguments of an operation for a library of tensors: input arrays, then the fields that cannot be inferred from them.

Sizes, strides, element types and the flags that enable arrays are inferred from the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from . import _core
from .described import Described, default_of, dtype_fields, enabling, size_fields

__all__ = ["LEFT_OUT", "Signature", "extent_of", "names_of", "sizes_of"]

_INFERRED = ("_stride", "_alignment", "_dtype")

#: Arrays and fields that no library of tensors uses.
LEFT_OUT = frozenset(
    {
        *("in_place", "gradient", "inner", "nll", "argmax", "num_correct", "check_targets", "mark_ignored", "rstd"),
        *("mask", "mask_inner", "mask_middle", "valid_cols", "valid_cols_group"),
        *("block_mask", "dropout_seed", "dropout_offset", "accumulate", "score_mod_grad"),
        *("f32_dweight", "chunk_tokens", "caller_workspace"),
    }
)


class Signature:
    """The input arrays of an operation in launch order, and the fields that are options of a call, with their defaults.

    op: the operation. without: input arrays and fields that are neither. also: fields that are options although shapes may
    determine them.
    """

    #: The names of the library's dtypes in problems.
    dtypes: ClassVar[Mapping[Any, str]] = {}

    def __init__(self, op: str, without: Iterable[str] = (), also: Sequence[str] = ()) -> None:
        self.op, self.also, without = op, also, {*without, *LEFT_OUT}
        self.arrays = [
            array for array in _core.operation_arrays(op, {}) if array.role == "input" and array.name not in without
        ]
        self.inputs = tuple(array.name for array in self.arrays)
        self.enabling = {name: ways[0] for name, ways in enabling(op).items() if name in self.inputs}
        inferred = {*self.inputs, *size_fields(op)}
        inferred |= {field for field, _ in (*dtype_fields(op).values(), *self.enabling.values())}
        self.option_fields = [
            field
            for field in _core.operation_fields(op)
            if field.name in also
            or not ({field.name} & (inferred | without) or field.hidden or field.name.endswith(_INFERRED))
        ]
        self.options = {field.name: default_of(field) for field in self.option_fields}
        #: Whether user functions may read further arrays.
        self.has_mods = "aux" in self.options

    def values(self, **options: Any) -> tuple[Any, ...]:
        """Return the options in their order; those that are not given are absent or have their defaults."""
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeError(f"{self.op} has no option {unknown}")
        return tuple({**self.options, **options}.values())

    def structure(self, tensors: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of options, of element types, and those that enable arrays."""
        fields = {name: value for name, value in options.items() if value != self.options[name]}
        enabled = {field: value for array, (field, value) in self.enabling.items() if tensors.get(array) is not None}
        return {**enabled, **fields, **self.types_of(tensors)}

    def types_of(self, tensors: Mapping[str, Any]) -> dict[str, str]:
        """Return the fields of element types; raises ValueError for types that the operation does not read."""
        fields: dict[str, str] = {}
        for array, (field, choices) in dtype_fields(self.op).items():
            tensor = tensors.get(array)
            if tensor is None or field in fields:
                continue
            if self.dtypes.get(tensor.dtype) not in choices:
                names = {name: dtype for dtype, name in reversed(list(self.dtypes.items()))}
                known = ", ".join(str(names[choice]) for choice in choices)
                raise ValueError(f"the dtype of {array} is {tensor.dtype}; expected {known}")
            fields[field] = self.dtypes[tensor.dtype]
        return fields


def sizes_of(
    arrays: Iterable[Described], tensors: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Infer fields from the shapes of tensors; raises ValueError where they disagree with each other or with given ones.

    Without given fields, shapes are not compared, because they may be symbolic.
    """
    sizes: dict[str, Any] = {}
    for name, _, _, dims, _ in arrays:
        tensor = tensors.get(name)
        if tensor is None or all(dim.isdigit() for dim in dims):  # such as the tensors of user functions, of any shape
            continue
        shape = (math.prod(tensor.shape),) if len(dims) == 1 else tensor.shape  # a vector may have any shape
        if len(shape) != len(dims):
            raise ValueError(f"{name} has {len(shape)} dimensions; expected {len(dims)}: {', '.join(dims)}")
        for dim, extent in zip(dims, shape, strict=True):
            field, _, more = dim.partition(" + ")
            sizes.setdefault(field, extent - int(more or 0))
        if given is not None:
            expected = tuple(extent_of(dim, {**sizes, **given}) for dim in dims)
            if tuple(shape) != expected:
                raise ValueError(f"{name} has the shape {tuple(tensor.shape)}; expected {expected}")
    return {field: extent for field, extent in sizes.items() if field.isidentifier()}


def extent_of(dim: str, sizes: Mapping[str, Any]) -> Any:
    """Return an extent from its text, such as "rows", "batch + 1" or "8"."""
    name, _, more = dim.partition(" + ")
    return int(name) if name.isdigit() else sizes[name] + int(more or 0)


def names_of(aux: str) -> list[str]:
    """Return the names of the declared arrays."""
    return [declaration.split(":")[0] for declaration in aux.split(";") if declaration]
