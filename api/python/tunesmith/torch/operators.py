"""Operators from the descriptions of operations: schemas, the fields of a call, and the shapes of its results.

An operator takes the input arrays of an operation in launch order, then its fields that no tensor tells. Sizes, strides,
element types and the flags that enable arrays come from the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import _core
from ..described import default_of, dtype_fields, enabling, size_fields, stride_fields
from .dtypes import DTYPES, TORCH_DTYPES
from .launchers import Prepare, Prepared, by_options, call, launcher
from .launching import launch
from .texts import lines_of
from .transforms import (
    is_compiling,
    is_eager,
    is_transformed,
    needs_grad,
    no_context,
    no_second_derivative,
    transformable,
)

__all__ = ["Named", "Operator", "names_of", "register_fake", "split_list"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_SCHEMA_TYPES = {"bool": "bool", "int": "int", "float": "float", "choice": "str", "str": "str"}
#: Arrays that user functions read, in the order in which the field `aux` declares them.
_MOD_ARRAYS = "mod_arrays"
_TEXTS = ("score_mod", "mask_mod")

#: Arrays and fields without a use in PyTorch.
LEFT_OUT = frozenset(
    {
        *("in_place", "gradient", "inner", "nll", "argmax", "num_correct", "check_targets", "mark_ignored", "rstd"),
        *("mask", "mask_inner", "mask_middle", "valid_cols", "valid_cols_group"),
        *("block_mask", "dropout_seed", "dropout_offset", "accumulate", "score_mod_grad"),
        *("f32_dweight", "chunk_tokens", "caller_workspace"),
    }
)

Named = dict[str, torch.Tensor | None]


def split_list(joined: str) -> list[str]:
    """Split declarations or names at semicolons."""
    return joined.split(";") if joined else []


def register_fake(operator: str, fake: Callable[..., Any]) -> None:
    """Register what an operator returns for tensors without memory. Meta tensors go with no others."""

    def checked(*arguments: Any) -> Any:
        tensors = [one for one in pytree.tree_leaves(arguments) if isinstance(one, torch.Tensor)]
        for tensor in tensors:
            if tensor.device != tensors[0].device:
                raise ValueError(f"{operator} got tensors on {tensors[0].device} and {tensor.device}; expected one device")
        return fake(*arguments)

    torch.library.register_fake(f"tunesmith::{operator}", checked)


def types_of(op: str, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, str]:
    """Return the fields of element types; raises ValueError for types that the operation does not read."""
    fields: dict[str, str] = {}
    for array, field in dtype_fields(op).items():
        tensor = tensors.get(array)
        if tensor is None or field in fields:
            continue
        choices = next(one.choices for one in _core.operation_fields(op) if one.name == field)
        if tensor.dtype not in DTYPES or DTYPES[tensor.dtype] not in choices:
            known = ", ".join(str(TORCH_DTYPES[choice]) for choice in choices)
            raise ValueError(f"the dtype of {array} is {tensor.dtype}; expected {known}")
        fields[field] = DTYPES[tensor.dtype]
    return fields


def sizes_of(
    arrays: Iterable[_core.Array], tensors: Mapping[str, torch.Tensor | None], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields that the shapes of tensors tell; raises ValueError where they disagree, or with those given.

    Without given fields, shapes are not compared, because they may be symbolic.
    """
    sizes: dict[str, Any] = {}
    for array in arrays:
        tensor = tensors.get(array.name)
        if tensor is None or all(dim.isdigit() for dim in array.dims):  # such as the tensors of user functions, of any shape
            continue
        if tensor.dim() != len(array.dims):
            dims = ", ".join(array.dims)
            raise ValueError(f"{array.name} has {tensor.dim()} dimensions; expected {len(array.dims)}: {dims}")
        for dim, extent in zip(array.dims, tensor.shape, strict=True):
            name, _, more = dim.partition(" + ")
            sizes.setdefault(name, extent - int(more or 0))
        if given is None:
            continue
        known = {**sizes, **{name: value for name, value in given.items() if name in sizes and value is not None}}
        expected = tuple(_extent(dim, known) for dim in array.dims)
        if tensor.shape != expected:
            raise ValueError(f"{array.name} has the shape {tuple(tensor.shape)}; expected {expected}")
    return {name: extent for name, extent in sizes.items() if name.isidentifier()}


def _extent(dim: str, sizes: Mapping[str, Any]) -> Any:
    """Return an extent from its text, such as "rows", "batch + 1" or "8"."""
    name, _, more = dim.partition(" + ")
    return int(name) if name.isdigit() else sizes[name] + int(more or 0)


class Operator:
    """torch.ops.tunesmith.NAME, with implementations for the CPU and CUDA and for tensors without memory.

    op: the operation, `name` if empty. without: input arrays and fields that are no arguments. also: fields that are ones
    although shapes may tell them. results: the outputs that are returned; with `rest`, a list of all other outputs follows.
    contiguous: inputs that are copied, rather than all, if they are not contiguous.
    """

    def __init__(
        self,
        name: str,
        op: str = "",
        *,
        without: Iterable[str] = (),
        also: Sequence[str] = (),
        results: Sequence[str],
        rest: bool = False,
        contiguous: Sequence[str] = (),
    ) -> None:
        self.name, self.op, self.results, self.rest, self.contiguous = name, op or name, tuple(results), rest, contiguous
        without = {*without, *LEFT_OUT}
        described = {array.name: array for array in _core.operation_arrays(self.op, {})}
        inputs = [name for name, array in described.items() if array.role == "input" and name not in without]
        self.inputs = tuple(inputs)
        self.enabling = {array: ways[0] for array, ways in enabling(self.op).items() if array in inputs}
        fields = [field for field in _core.operation_fields(self.op) if field.name not in without]
        told = size_fields(self.op) | set(dtype_fields(self.op).values()) | {field for field, _ in self.enabling.values()}
        told |= set(inputs)
        self.options = {
            field.name: default_of(field)
            for field in fields
            if field.name in also
            or not (field.name in told or field.hidden or field.name.endswith(("_stride", "_alignment", "_dtype")))
        }
        self.has_mods = "aux" in self.options
        kinds = {field.name: _SCHEMA_TYPES[field.kind] for field in fields}
        arguments = [f"Tensor{'' if described[array].present else '?'} {array}" for array in inputs]
        arguments += [f"Tensor[] {_MOD_ARRAYS}"] if self.has_mods else []
        arguments += [f"{kinds[name]}{'?' if value is None else ''} {name}" for name, value in self.options.items()]
        returned = ", ".join(["Tensor"] * len(results) + (["Tensor[]"] if rest else []))
        _LIBRARY.define(f"{name}({', '.join(arguments)}) -> " + (f"({returned})" if "," in returned else returned))
        for key in ("CPU", "CUDA"):
            _LIBRARY.impl(name, self.run, key)
        register_fake(name, self.fake)
        self.overload = getattr(torch.ops.tunesmith, name)
        self.launcher = by_options(lambda *options: launcher(name, self.prepare(options)))
        self.recorded: Callable[..., Any] = self.overload
        self.transformed: Callable[..., Any] = self.overload

    def differentiable(
        self, setup_context: Callable[..., None], gradient: Callable[..., Any], jvp: Callable[..., Any] | None = None
    ) -> None:
        """Register the gradient of the operator, of eager calls, and of calls under torch.func.

        gradient(ctx, *gradients) returns one for each argument, a list for a list of tensors. jvp: as for transformable().
        """
        torch.library.register_autograd(f"tunesmith::{self.name}", gradient, setup_context=setup_context)

        def without_lists(ctx: Any, *gradients: Any) -> Any:
            found = gradient(ctx, *gradients)
            return tuple(None if isinstance(one, list) else one for one in found) if isinstance(found, tuple) else found

        self.transformed = transformable(self.overload, setup_context, without_lists, vmap=True, jvp=jvp)
        count, fixed = len(self.inputs), len(self.inputs) + len(self.options)

        def forward(ctx: Any, *flat: Any) -> Any:
            mods = [list(flat[fixed:])] if self.has_mods else []
            inputs = (*flat[:count], *mods, *flat[count:fixed])
            output = self.run(*inputs)
            setup_context(ctx, inputs, output)
            return output

        def backward(ctx: Any, *gradients: Any) -> Any:
            found = list(gradient(ctx, *gradients))
            mods = found.pop(count) if self.has_mods else []
            return *found, *mods

        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self.recorded = type("Recorded", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]

    def not_differentiable(self, operation: str) -> None:
        """Let a gradient raise that it has no derivative. operation: what it is the gradient of."""
        self.differentiable(no_context, no_second_derivative(operation))

    def __call__(self, tensors: Mapping[str, Any], options: Sequence[Any], mods: Sequence[torch.Tensor] = ()) -> Any:
        """Run the operator the shortest way that autograd, transforms and torch.compile allow."""
        if is_transformed() and not mods:
            return self.transformed(*self.arguments(tensors, options))
        present = [tensor for tensor in (*tensors.values(), *mods) if tensor is not None]
        if not is_compiling() and needs_grad(*present) and is_eager(*present):
            return self.recorded(*map(tensors.get, self.inputs), *options, *mods)
        return self.overload(*self.arguments(tensors, options, mods))

    # Arguments

    def values(self, **options: Any) -> tuple[Any, ...]:
        """Return the options in the operator's order; those that are not given are absent or have their defaults."""
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeError(f"{self.name} has no option {unknown}")
        return tuple({**self.options, **options}.values())

    def arguments(self, tensors: Mapping[str, Any], options: Sequence[Any], mods: Sequence[torch.Tensor] = ()) -> list[Any]:
        """Return the operator's arguments. tensors: by name; the absent ones are None."""
        return [*map(tensors.get, self.inputs), *([list(mods)] if self.has_mods else []), *options]

    def split(self, arguments: Sequence[Any]) -> tuple[Named, dict[str, Any]]:
        """Return tensors by name, those of user functions included, and options by name."""
        count = len(self.inputs)
        options = dict(zip(self.options, arguments[count + self.has_mods :], strict=True))
        mods = arguments[count] if self.has_mods else []
        return self.named(self.inputs, [*arguments[:count], *mods], options), options

    def named(self, inputs: Sequence[str], tensors: Sequence[Any], options: Mapping[str, Any]) -> Named:
        """Return tensors by name; those of user functions follow `inputs`."""
        return dict(zip([*inputs, *names_of(options.get("aux", ""))], tensors, strict=False))

    # Problems

    def structure(self, tensors: Named, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of options, of element types, and those that enable arrays."""
        fields = {name: value for name, value in options.items() if value != self.options[name]}
        for text in _TEXTS:
            if text in fields:
                fields[text] = lines_of(fields[text])
        enabled = {field: value for array, (field, value) in self.enabling.items() if tensors.get(array) is not None}
        return {**enabled, **fields, **types_of(self.op, tensors)}

    def fields(self, tensors: Named, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields of a problem; None if no kernel reads the tensors' strides."""
        fields = self.structure(tensors, options)
        arrays = _core.operation_arrays(self.op, fields)
        sizes = sizes_of(arrays, tensors, options)
        for array in arrays:
            tensor = tensors.get(array.name)
            names = () if tensor is None else stride_fields(self.op, array, fields)
            if tensor is None or not any(names):
                continue
            for name, stride, extent in zip(names, tensor.stride(), tensor.shape, strict=True):
                if name is not None:
                    fields[name] = stride
                elif stride != 1 and extent > 1:
                    return None
        return {**fields, **{name: size for name, size in sizes.items() if fields.get(name) in (None, 1)}}

    def output(self, array: _core.Array, tensors: Named, sizes: Mapping[str, Any], device: torch.device) -> torch.Tensor:
        """Return an output. sizes: fields, which may be symbolic. device: that of the tensors, or "meta"."""
        shape = [] if list(array.dims) == ["1"] else [_extent(dim, sizes) for dim in array.dims]
        return _first(tensors).new_empty(shape, dtype=TORCH_DTYPES[array.dtype], device=device)

    def outputs(
        self, tensors: Named, fields: Mapping[str, Any], sizes: Mapping[str, Any], device: torch.device
    ) -> dict[str, torch.Tensor]:
        """Return the outputs that the fields enable, those that the operator returns first."""
        found = {
            array.name: self.output(array, tensors, sizes, device)
            for array in _core.operation_arrays(self.op, dict(fields))
            if array.role == "output" and array.present and tensors.get(array.name) is None
        }
        return {**{name: found[name] for name in self.results if name in found}, **found}

    def filled(self, tensors: Named) -> Mapping[str, float]:
        """Return the values of outputs before the launch."""
        return {}

    def prepare(self, options: Sequence[Any], inputs: Sequence[str] = ()) -> Prepare:
        """Return the function that prepares calls with these options. inputs: the names of its tensors."""
        named = dict(zip(self.options, options, strict=True))

        def prepare(*given: torch.Tensor | None) -> Prepared | None:
            tensors = self.named(inputs or self.inputs, given, named)
            fields = self.fields(tensors, named)
            if fields is None:
                return None
            outputs = self.outputs(tensors, fields, fields, torch.device("meta"))
            return launch(self.op, fields, tensors, outputs, filled=self.filled(tensors))

        return prepare

    # Implementations

    def run(self, *arguments: Any) -> Any:
        """Run the operator."""
        count = len(self.inputs)
        tensors = [
            tensor.contiguous() if name in self.contiguous and tensor is not None else tensor
            for name, tensor in zip(self.inputs, arguments, strict=False)
        ]
        mods = arguments[count] if self.has_mods else []
        found = call(self.launcher(*arguments[count + self.has_mods :]), *tensors, *mods)
        results = [found] if isinstance(found, torch.Tensor) else list(found)
        for i, name in enumerate(self.results):
            if name in self.options and not arguments[self._position(name)]:
                results.insert(i, results[0].new_empty((0,)))
        return self._returned(results)

    def fake(self, *arguments: Any) -> Any:
        """Return results without memory."""
        tensors, options = self.split(arguments)
        fields = self.structure(tensors, options)
        sizes = {**options, **self.sizes(tensors, fields)}
        first = _first(tensors)
        found = self.outputs(tensors, fields, sizes, first.device)
        results = [found.pop(name) if name in found else first.new_empty((0,)) for name in self.results]
        return self._returned([*results, *found.values()])

    def sizes(self, tensors: Named, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the sizes, which may be symbolic, from which the shapes of outputs follow."""
        return sizes_of(_core.operation_arrays(self.op, dict(fields)), tensors)

    def _position(self, option: str) -> int:
        return len(self.inputs) + self.has_mods + list(self.options).index(option)

    def _returned(self, outputs: list[torch.Tensor]) -> Any:
        count = len(self.results)
        if self.rest:
            return (*outputs[:count], outputs[count:])
        return outputs[0] if count == 1 else tuple(outputs[:count])


def _first(tensors: Named) -> torch.Tensor:
    return next(tensor for tensor in tensors.values() if tensor is not None)


def names_of(aux: str) -> list[str]:
    """Return the names of the declared arrays."""
    return [declaration.split(":")[0] for declaration in split_list(aux)]
