"""Operators from the descriptions of operations: schemas, the fields of a call, and the shapes of its results.

An operator takes the input arrays of an operation in launch order, then the fields that cannot be inferred from tensors.
Sizes, strides, element types and the flags that enable arrays are inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..described import Described, arrays_of, filled
from ..signature import Signature, extent_of, names_of, sizes_of
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

__all__ = ["Named", "Operator", "register_fake"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_SCHEMA_TYPES = {"bool": "bool", "int": "int", "float": "float", "choice": "str", "str": "str"}
_TEXTS = ("score_mod", "mask_mod")
_META = torch.device("meta")

Named = dict[str, torch.Tensor | None]


def register_fake(operator: str, fake: Callable[..., Any]) -> None:
    """Register what an operator returns for tensors without memory. Meta tensors go with no others."""

    def checked(*arguments: Any) -> Any:
        tensors = [one for one in pytree.tree_leaves(arguments) if isinstance(one, torch.Tensor)]
        for tensor in tensors:
            if tensor.device != tensors[0].device:
                raise ValueError(f"{operator} got tensors on {tensors[0].device} and {tensor.device}; expected one device")
        return fake(*arguments)

    torch.library.register_fake(f"tunesmith::{operator}", checked)


class Operator(Signature):
    """torch.ops.tunesmith.NAME, with implementations for the CPU and CUDA and for tensors without memory.

    op: the operation, `name` if empty. without, also: as for Signature. results: the outputs that are returned; with
    `rest`, a list of all other outputs follows. contiguous: inputs that are copied, rather than all inputs, if they are not
    contiguous.
    """

    dtypes = DTYPES

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
        super().__init__(op or name, without, also)
        self.name, self.results, self.rest, self.contiguous = name, tuple(results), rest, contiguous
        first = len(self.inputs) + self.has_mods
        #: Results that an option of their name enables, and the places of these options.
        self.flags = [(i, first + list(self.options).index(one)) for i, one in enumerate(results) if one in self.options]
        arguments = [f"Tensor{'' if array.present else '?'} {array.name}" for array in self.arrays]
        arguments += ["Tensor[] mod_arrays"] if self.has_mods else []
        arguments += [
            f"{_SCHEMA_TYPES[field.kind]}{'?' if self.options[field.name] is None else ''} {field.name}"
            for field in self.option_fields
        ]
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

    def arguments(self, tensors: Mapping[str, Any], options: Sequence[Any], mods: Sequence[torch.Tensor] = ()) -> list[Any]:
        """Return the operator's arguments. tensors: by name; the absent ones are None."""
        return [*map(tensors.get, self.inputs), *([list(mods)] if self.has_mods else []), *options]

    def split(self, arguments: Sequence[Any]) -> tuple[Named, dict[str, Any]]:
        """Return tensors by name, user functions' tensors included, and options by name."""
        count = len(self.inputs)
        options = dict(zip(self.options, arguments[count + self.has_mods :], strict=True))
        mods = arguments[count] if self.has_mods else []
        return self.named(self.inputs, [*arguments[:count], *mods], options), options

    def named(self, inputs: Sequence[str], tensors: Sequence[Any], options: Mapping[str, Any]) -> Named:
        """Return tensors by name; the tensors of user functions follow `inputs`."""
        return dict(zip([*inputs, *names_of(options.get("aux", ""))], tensors, strict=False))

    # Problems

    def structure(self, tensors: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().structure(tensors, options)
        return {**fields, **{text: lines_of(fields[text]) for text in _TEXTS if text in fields}}

    def reads(self, tensors: Named) -> bool:
        """Return whether the operation takes tensors of such types; if not, a launcher returns NotImplemented."""
        return True

    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        """Return the fields of a problem, of which structure() gives some; None if no kernel reads the tensors' strides."""
        arrays = arrays_of(self.op, tuple(structure.items()))
        given = {bound: structure[bound] for bound in self.also if bound in structure}
        fields = {**structure, **sizes_of(arrays, tensors, given), **given}
        for array in arrays:
            tensor = tensors.get(array.name)
            if tensor is None or not any(array.strides):
                continue
            for name, stride, extent in zip(array.strides, tensor.stride(), tensor.shape, strict=True):
                if name is not None:
                    fields[name] = stride
                elif stride != 1 and extent > 1:
                    return None
        return fields

    def output(self, array: Described, tensors: Named, sizes: Mapping[str, Any], device: torch.device) -> torch.Tensor:
        """Return an output. sizes: fields, which may be symbolic. device: that of the tensors, or "meta"."""
        shape = [] if array.dims == ("1",) else [extent_of(dim, sizes) for dim in array.dims]
        return _first(tensors).new_empty(shape, dtype=TORCH_DTYPES[array.dtype], device=device)

    def outputs(
        self, tensors: Named, structure: Mapping[str, Any], sizes: Mapping[str, Any], device: torch.device
    ) -> dict[str, torch.Tensor]:
        """Return the outputs that the fields enable, those that the operator returns first."""
        found = {
            array.name: self.output(array, tensors, sizes, device)
            for array in arrays_of(self.op, tuple(structure.items()))
            if array.is_output and tensors.get(array.name) is None
        }
        return {**{name: found[name] for name in self.results if name in found}, **found}

    def prepare(self, options: Sequence[Any], inputs: Sequence[str] = ()) -> Prepare:
        """Return the function that prepares calls with these options. inputs: the names of its tensors."""
        named = dict(zip(self.options, options, strict=True))

        def prepare(*given: torch.Tensor | None) -> Prepared | None:
            tensors = self.named(inputs or self.inputs, given, named)
            if not self.reads(tensors):
                return None
            structure = self.structure(tensors, named)
            fields = self.fields(tensors, structure)
            if fields is None:
                return None
            outputs = self.outputs(tensors, structure, fields, _META)
            held = filled(self.op) if tensors.get("cu_seqlens_q") is not None else {}
            return launch(self.op, fields, tensors, outputs, filled=held)

        return prepare

    # Implementations

    def run(self, *arguments: Any) -> Any:
        """Run the operator."""
        count = len(self.inputs)
        tensors: Sequence[Any] = arguments[:count]
        if self.contiguous:
            tensors = [
                tensor.contiguous() if name in self.contiguous and tensor is not None else tensor
                for name, tensor in zip(self.inputs, tensors, strict=True)
            ]
        mods = arguments[count] if self.has_mods else ()
        found = call(self.launcher(*arguments[count + self.has_mods :]), *tensors, *mods)
        if isinstance(found, torch.Tensor):
            if len(self.results) == 1 and not self.rest:
                return found
            found = (found,)
        results = list(found)
        for i, option in self.flags:
            if not arguments[option]:
                results.insert(i, tensors[0].new_empty((0,)))
        return self._returned(results)

    def fake(self, *arguments: Any) -> Any:
        """Return results without memory."""
        tensors, options = self.split(arguments)
        structure = self.structure(
            tensors, {name: one for name, one in options.items() if not isinstance(one, torch.SymInt)}
        )
        sizes = {**options, **self.sizes(tensors, structure)}
        first = _first(tensors)
        found = self.outputs(tensors, structure, sizes, first.device)
        results = [found.pop(name) if name in found else first.new_empty((0,)) for name in self.results]
        return self._returned([*results, *found.values()])

    def sizes(self, tensors: Named, structure: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the sizes, which may be symbolic, from which the shapes of outputs follow."""
        return sizes_of(arrays_of(self.op, tuple(structure.items())), tensors)

    def _returned(self, outputs: list[torch.Tensor]) -> Any:
        count = len(self.results)
        if self.rest:
            return (*outputs[:count], outputs[count:])
        return outputs[0] if count == 1 else tuple(outputs[:count])


def _first(tensors: Named) -> torch.Tensor:
    return next(tensor for tensor in tensors.values() if tensor is not None)
