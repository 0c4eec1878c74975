"""Operators from the descriptions of operations: the fields of a call follow from arrays, and a batch is more rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..described import arrays_of
from ..signature import Signature, names_of, sizes_of
from .calls import DTYPES, launch

__all__ = ["Operator", "batched", "columns_of"]

Arrays = Mapping[str, jax.Array | None]


class Operator(Signature):
    """An operation as a function of arrays. It has no derivative; functions of this package add it.

    results: the outputs that are returned. over: the first dimension of most arrays, "rows" or "batch". vmap gives it more
    extent where every array that is mapped has it, and every output; elsewhere vmap runs one call after the other.
    """

    dtypes = DTYPES

    def __init__(self, op: str, *, without: Iterable[str] = (), results: Sequence[str], over: str = "rows") -> None:
        super().__init__(op, without)
        self.results, self.over = tuple(results), over
        self.functions = functools.lru_cache(maxsize=512)(self._function)

    def __call__(self, arrays: Arrays, options: Mapping[str, Any], also: Sequence[str] = ()) -> dict[str, jax.Array]:
        """Return the results by name. also: further outputs that options enable."""
        names = (*self.inputs, *names_of(options.get("aux", "")))
        given = {name: array for name in names if (array := arrays.get(name)) is not None}
        results = (*(name for name in self.results if options.get(name, True)), *also)
        found = self.functions(tuple(given), self.values(**options), results)(*given.values())
        return dict(zip(results, found, strict=True))

    def _function(self, names: tuple[str, ...], values: tuple[Any, ...], results: tuple[str, ...]) -> Any:
        options = dict(zip(self.options, values, strict=True))

        def dims_of(arrays: Sequence[Any]) -> dict[str, tuple[str, ...]]:
            return {array.name: array.dims for array in arrays_of(self.op, tuple(self._structure(names, arrays, options)))}

        def run(*arrays: Any) -> list[Any]:
            named = dict(zip(names, arrays, strict=True))
            structure = self._structure(names, arrays, options)
            sizes = sizes_of(arrays_of(self.op, tuple(structure)), named, {})
            return launch(self.op, {**dict(structure), **sizes}, named, results)

        def merges(arrays: Sequence[Any], mapped: Sequence[bool]) -> list[bool] | None:
            one = [
                jax.ShapeDtypeStruct(a.shape[1:] if is_mapped else a.shape, a.dtype)
                for a, is_mapped in zip(arrays, mapped, strict=True)
            ]
            dims = dims_of(one)
            over = [dims[name][0] == self.over for name in names]
            alone = any(is_mapped and not has for is_mapped, has in zip(mapped, over, strict=True))
            alone = alone or options.get("reduction", "none") != "none"
            alone = alone or any(options.get(text) for text in ("score_mod", "mask_mod"))  # may look at b
            return None if alone or any(dims[name][0] != self.over for name in results) else over

        return batched(run, merges)

    def _structure(self, names: Sequence[str], arrays: Sequence[Any], options: Mapping[str, Any]) -> tuple[Any, ...]:
        named = dict(zip(names, arrays, strict=True))
        fields = self.structure(named, options)
        first = arrays[0].shape
        if self.over == "rows" and len(first) == 3:
            fields["inner"] = first[2]
        return tuple(fields.items())


def batched(run: Any, merges: Any) -> Any:
    """Return a function that returns run(*arrays), a list, with a rule for vmap.

    merges(arrays, mapped) returns which arrays have the dimension that the batch is merged into, their first one, which all
    results have, too; None where each element of the batch needs a call of its own.
    """

    @jax.custom_batching.custom_vmap
    def function(*arrays: Any) -> list[Any]:
        return run(*arrays)

    @function.def_vmap
    def rule(size: int, mapped: Sequence[bool], *arrays: Any) -> tuple[list[Any], list[bool]]:
        over = merges(arrays, mapped)
        if over is None:
            count = len(arrays)

            def element(some: Sequence[Any]) -> list[Any]:
                rest = iter(some)
                return function(*(next(rest) if mapped[i] else arrays[i] for i in range(count)))

            found = jax.lax.map(element, [array for array, is_mapped in zip(arrays, mapped, strict=True) if is_mapped])
        else:
            whole = [
                _merged(array if is_mapped else jnp.broadcast_to(array, (size, *array.shape))) if has else array
                for array, is_mapped, has in zip(arrays, mapped, over, strict=True)
            ]
            found = [one.reshape(size, one.shape[0] // size if size else 0, *one.shape[1:]) for one in function(*whole)]
        return found, [True] * len(found)

    return function


def _merged(array: jax.Array) -> jax.Array:
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def columns_of(x: jax.Array, axis: int) -> jax.Array:
    """Return x with the dimensions before and after an axis merged: (rows, cols), or (rows, cols, inner)."""
    if x.ndim == 0:
        raise ValueError("the array has no dimensions; expected at least 1")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis}; allowed: {-x.ndim} to {x.ndim - 1}")
    axis %= x.ndim
    rows, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return x.reshape(rows, x.shape[axis], *([inner] if inner != 1 else []))
