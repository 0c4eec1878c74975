"""score_mod and mask_mod as Python functions of numbers, traced to CUDA source.

    def alibi(score, b, h, q, k):
        return score - slopes[h] * (q - k)

A function runs once, with numbers that record what is done to them. It may use arithmetic, comparisons, & | ~ instead of
and, or, not, torch.where, abs and elementwise functions of torch, and tensors that it captures, indexed by numbers. Captured
numbers become literals. `if`, `and`, min() and other uses of a number as a truth value raise TraceError with the line.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from . import tracing
from .tracing import TraceError

__all__ = ["Mod", "TraceError", "Traced", "trace"]


class Traced(NamedTuple):
    """A traced function: its CUDA source, and the tensors that it reads with their declarations."""

    source: str
    arrays: tuple[Any, ...] = ()
    declarations: tuple[str, ...] = ()


#: A Python function of numbers, or a function that was traced before.
Mod = Callable[..., Any] | Traced


_known: weakref.WeakKeyDictionary[Any, dict[str, tuple[tuple[Any, ...], Traced]]] = weakref.WeakKeyDictionary()


def _captured(function: Any) -> tuple[Any, ...] | None:
    """Return what a plain function reads from outside; None if a later call may see other values than these."""
    if not isinstance(function, types.FunctionType):
        return None
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    values += [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    steady = bool | int | float | types.ModuleType | types.BuiltinFunctionType | type
    return tuple(values) if all(isinstance(value, steady) or tracing.is_tensor(value) for value in values) else None


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    numbers = bool | int | float
    return len(a) == len(b) and all(
        x is y or (isinstance(x, numbers) and isinstance(y, numbers) and type(x) is type(y) and x == y)
        for x, y in zip(a, b, strict=True)
    )


def trace(mod: Mod | str | None, kind: str) -> Traced:
    """Trace a function to CUDA source; kind: "score_mod" or "mask_mod".

    A plain function is traced again only if a number or tensor that it captures was replaced. Under torch.compile, trace
    the function before, and pass the result to attention().
    """
    if mod is None:
        return Traced("")
    if isinstance(mod, str):
        return Traced(mod)
    if isinstance(mod, Traced):
        return mod
    captured = _captured(mod)
    if captured is not None:
        known = _known.get(mod, {}).get(kind)
        if known is not None and _same(known[0], captured):
            return known[1]
    traced = Traced(*tracing.translate(mod, kind))
    if captured is not None:
        _known.setdefault(mod, {})[kind] = (captured, traced)
    return traced
