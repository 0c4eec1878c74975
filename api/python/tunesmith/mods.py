"""score_mod and mask_mod as Python functions of numbers, traced to CUDA source.

    def alibi(score, b, h, q, k):
        return score - slopes[h] * (q - k)

A function runs once, with numbers that record what is done to them. It may use arithmetic, comparisons, & | ~ instead of
and, or, not, torch.where, abs and elementwise functions of torch, and tensors that it captures, indexed by numbers. Captured
numbers become literals. `if`, `and`, min() and other uses of a number as a truth value raise TraceError with the line.
"""

from __future__ import annotations

import builtins
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

#: Builtins that read what names do not tell.
_HIDDEN_READERS = {"getattr", "vars", "eval", "exec", "globals", "locals", "dir", "open", "__import__"}


def _captured(function: Any) -> tuple[Any, ...] | None:
    """Return what a plain function reads from outside; None if a later call may see other values than these.

    Captured values, globals, and the attributes of captured modules, classes and tensors. A function that may read anything
    else is traced in every call.
    """
    if not isinstance(function, types.FunctionType):
        return None
    try:
        values = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a cell without a value
        return None
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    pending = _names_of(function.__code__)
    found: set[str] = set()
    for name in pending & function.__globals__.keys():
        values.append(function.__globals__[name])
        found.add(name)
    holders = list(values)
    while holders:
        holder = holders.pop()
        if tracing.is_tensor(holder):
            found |= {name for name in pending if hasattr(type(holder), name)}
        elif isinstance(holder, types.ModuleType | type):
            read = [getattr(holder, name) for name in pending if hasattr(holder, name)]
            found |= {name for name in pending if hasattr(holder, name)}
            new = [value for value in read if all(value is not known for known in values)]
            values += new
            holders += new
    rest = pending - found - tracing.NAMES_OF_NUMBERS
    if any(not hasattr(builtins, name) or name in _HIDDEN_READERS for name in rest):
        return None
    steady = tuple(_steady(value) for value in values)
    return None if None in steady else steady


def _names_of(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes that a function and the functions in it use."""
    inner = [_names_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _steady(value: Any) -> tuple[Any, ...] | None:
    """Return what stays equal as long as a trace that reads the value stays right; None if nothing does."""
    if tracing.is_tensor(value):
        return (value, str(value.dtype), tuple(value.shape), getattr(value, "requires_grad", False))
    if value is None or isinstance(value, bool | int | float | str) or type(value).__name__ in ("dtype", "device"):
        return (type(value), repr(value))
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
        return (value,)
    return None


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(
        len(one) == len(other)
        and all(x is y or (not tracing.is_tensor(x) and x == y) for x, y in zip(one, other, strict=True))
        for one, other in zip(a, b, strict=True)
    )


def trace(mod: Mod | str | None, kind: str) -> Traced:
    """Trace a function to CUDA source; kind: "score_mod" or "mask_mod".

    A plain function is traced again only if something that it reads was replaced: a number, a tensor, the dtype of a tensor,
    an attribute of a module or a class. Functions that read anything else, such as attributes of objects, or that compute
    with tensors before they index them, are traced in every call. Under torch.compile, trace
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
    source, arrays, declarations, is_repeatable = tracing.translate(mod, kind)
    traced = Traced(source, arrays, declarations)
    if captured is not None and is_repeatable:
        _known.setdefault(mod, {})[kind] = (captured, traced)
    return traced
