"""score_mod and mask_mod as Python functions of JAX numbers: their jaxprs as CUDA source.

    def alibi(score, b, h, q, k):
        return score - slopes[h] * (q - k)

A function may use elementwise functions of jax.numpy and jax.lax, and arrays that it captures, indexed by numbers: traced
ones, too, which attention() differentiates if score_mod reads them. An index outside of an array reads its last element
on that side, as in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from ..mods import Traced
from ..traced_calls import call
from ..traced_numbers import Number, select
from ..tracing import ARGUMENTS, Trace

__all__ = ["Mod", "trace"]

Mod = Callable[..., Any]

#: Primitives whose names are those of functions that ..traced_calls translates.
_CALLS = {
    **{name: name for name in ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "floor", "ceil", "neg", "abs")},
    **{name: name for name in ("add", "sub", "mul", "pow", "lt", "le", "gt", "ge", "eq", "ne")},
    **{"logistic": "sigmoid", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not"},
    **{"max": "maximum", "min": "minimum"},
}
#: Primitives that pass on what they get.
_SAME = {"broadcast_in_dim", "reshape", "squeeze", "copy", "copy_p", "stop_gradient", "reduce_precision", "pvary"}
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def trace(mod: Mod | Traced | str | None, kind: str) -> Traced:
    """Trace a function to CUDA source; kind: "score_mod" or "mask_mod"."""
    if mod is None:
        return Traced("")
    if isinstance(mod, str):
        return Traced(mod)
    if isinstance(mod, Traced):
        return mod
    under_way = Trace(kind, mod)
    types = [jnp.float32 if name == "score" else jnp.int32 for name in ARGUMENTS[kind]]
    try:
        closed = jax.make_jaxpr(mod)(*(jax.ShapeDtypeStruct((), dtype) for dtype in types))
    except jax.errors.ConcretizationTypeError as error:
        raise under_way.error("it branches on a number (if, and, or, not); use jnp.where, &, | and ~") from error
    numbers = [Number(under_way, name, "float" if name == "score" else "int") for name in ARGUMENTS[kind]]
    (result,) = _Translation(under_way).results(closed.jaxpr, [_Array(each) for each in closed.consts], numbers)
    source = under_way.source(_number(under_way, result))
    return Traced(source, tuple(under_way.arrays), under_way.declarations())


class _Array:
    """A captured array with some dimensions indexed; `steps`: the strides of the others, whose extents are in `shape`."""

    def __init__(self, array: Any, offset: str = "", shape: Sequence[int] | None = None, steps: Sequence[int] = ()) -> None:
        self.array, self.offset = array, offset
        self.shape = tuple(array.shape) if shape is None else tuple(shape)
        self.steps = tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))) if shape is None else tuple(steps)


def _number(trace: Trace, value: Any) -> Number:
    """Return the number that a value is, or the element of an array of one element."""
    if isinstance(value, Number):
        return value
    if isinstance(value, _Array) and all(extent == 1 for extent in value.shape):
        return trace.element(value.array, value.offset)
    raise trace.error("an array is used that is not indexed to one number")


class _Translation:
    """The statements of a jaxpr whose values have one element each, but for captured arrays and vectors of indices."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def results(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

        def read(variable: Any) -> Any:
            if not isinstance(variable, core.Literal):
                return known[variable]
            value = variable.val
            return _Array(value) if math.prod(getattr(value, "shape", ())) != 1 else self.trace.operand(_plain(value))

        for equation in jaxpr.eqns:
            found = self.equation(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, found, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def equation(self, equation: Any, operands: list[Any]) -> list[Any]:
        inner = next((equation.params[name] for name in _INNER if name in equation.params), None)
        if inner is not None:
            closed = hasattr(inner, "consts")
            constants = [_Array(each) for each in inner.consts] if closed else []
            return self.results(inner.jaxpr if closed else inner, constants, operands)
        return [self.value(equation.primitive.name, equation.params, operands)]

    def value(self, name: str, params: dict[str, Any], operands: list[Any]) -> Any:
        trace = self.trace
        if name in _SAME:
            return self.reshaped(operands[0], name, params)
        if name == "concatenate":
            return [
                number
                for operand in operands
                for number in (operand if isinstance(operand, list) else [_number(trace, operand)])
            ]
        if name == "slice":
            return self.part(operands[0], params)
        if name == "dynamic_slice":
            return self.sliced(operands[0], operands[1:], params["slice_sizes"])
        if name == "gather":
            return self.gathered(operands[0], operands[1], params)
        numbers = [_number(trace, operand) for operand in operands]
        if name == "lt" and numbers[0].text in ARGUMENTS["mask_mod"] and numbers[1].text == "(0)":
            return trace.operand(False)  # the test whether an index is negative
        if name in _CALLS:
            return call(trace, _CALLS[name], tuple(numbers), {})
        if name == "select_n" and len(numbers) == 3 and numbers[0].kind == "bool":
            if numbers[0].text == "false":
                return numbers[1]
            return call(trace, "where", (numbers[0], numbers[2], numbers[1]), {})
        if name == "convert_element_type":
            return self.converted(numbers[0], params["new_dtype"])
        if name == "integer_pow":
            return numbers[0] ** params["y"] if params["y"] > 0 else 1.0 / numbers[0] ** -params["y"]
        if name == "square":
            return numbers[0] * numbers[0]
        if name == "div":
            integers = numbers[0].kind != "float"
            a, b = numbers
            return trace.number(f"{a.text} / {b.text}", "int") if integers else a / b
        if name == "rem":  # has the sign of the dividend, as in C
            a, b = numbers
            text = f"fmodf({a.text}, {b.text})" if a.kind == "float" else f"{a.text} % {b.text}"
            return trace.number(text, a.kind)
        if name == "sign":
            zero = "0.0f" if numbers[0].kind == "float" else "0"
            text = numbers[0].text
            return trace.number(f"({text} > {zero}) - ({text} < {zero}) + {zero}", numbers[0].kind)
        if name == "clamp":
            low, value, high = numbers
            bounded = select(trace, "{a} < {b} ? {b} : {a}", value, low)
            return select(trace, "{a} > {b} ? {b} : {a}", bounded, high)
        raise trace.error(f"it calls {name}, which has no translation")

    def converted(self, number: Number, dtype: Any) -> Number:
        if dtype == jnp.bool_:
            return number if number.kind == "bool" else number != 0
        if jnp.issubdtype(dtype, jnp.integer):
            return number if number.kind == "int" else call(self.trace, "int", (number,), {})
        if dtype != jnp.float32 and not (number.is_literal and number.kind == "float"):
            raise self.trace.error(f"it converts a number to {dtype}; numbers are float32, int32 or bool")
        return number if number.kind == "float" else call(self.trace, "float", (number,), {})

    def reshaped(self, value: Any, name: str, params: dict[str, Any]) -> Any:
        if not isinstance(value, _Array):
            return value
        if name == "squeeze":
            kept = [i for i in range(len(value.shape)) if i not in params["dimensions"]]
            return _Array(value.array, value.offset, [value.shape[i] for i in kept], [value.steps[i] for i in kept])
        if name in ("broadcast_in_dim", "reshape") and math.prod(value.shape) != 1:
            raise self.trace.error("it reshapes an array that is not indexed")
        return value

    def indexed(self, array: _Array, offset: str, dimension: int, index: Any) -> str:
        """Return an offset plus an index, which is bounded, times the stride of a dimension."""
        number, extent, step = _number(self.trace, index), array.shape[dimension], array.steps[dimension]
        text = number.text
        if number.is_literal:
            text = str(min(max(int(text.strip("()")), 0), extent - 1))
        elif text not in ARGUMENTS["mask_mod"]:
            text = self.trace.number(f"{text} < 0 ? 0 : {text} < {extent} ? {text} : {extent - 1}", "int").text
        if array.array.size > (1 << 31) - 1:
            text = f"static_cast<long long>({text})"
        term = text if step == 1 else f"{text} * {step}"
        return f"{offset} + {term}" if offset else term

    def part(self, array: Any, params: dict[str, Any]) -> Any:
        """Return a slice with known bounds."""
        starts, limits, strides = params["start_indices"], params["limit_indices"], params["strides"]
        if not isinstance(array, _Array) or strides is not None:
            raise self.trace.error("it takes a slice of an array with a step")
        terms = [str(start * step) for start, step in zip(starts, array.steps, strict=True) if start]
        shape = [limit - start for start, limit in zip(starts, limits, strict=True)]
        return _Array(array.array, " + ".join([*([array.offset] if array.offset else []), *terms]), shape, array.steps)

    def sliced(self, array: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
        if not isinstance(array, _Array):
            return array
        offset = array.offset
        for i, size in enumerate(sizes):
            if size not in (1, array.shape[i]):
                raise self.trace.error("it takes a slice of an array; index it by numbers")
            if size < array.shape[i]:
                offset = self.indexed(array, offset, i, starts[i])
        return _Array(array.array, offset, sizes, array.steps)

    def gathered(self, array: Any, indices: Any, params: dict[str, Any]) -> Any:
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        starts: list[Any] = [None] * len(sizes)
        given = indices if isinstance(indices, list) else [indices]
        if not isinstance(array, _Array) or len(given) != len(numbers.start_index_map) or numbers.operand_batching_dims:
            raise self.trace.error("it indexes an array by something else than numbers")
        for i, index in zip(numbers.start_index_map, given, strict=True):
            starts[i] = index
        taken = self.sliced(array, starts, sizes)
        kept = [i for i in range(len(sizes)) if i not in numbers.collapsed_slice_dims]
        return _Array(taken.array, taken.offset, [taken.shape[i] for i in kept], [taken.steps[i] for i in kept])


def _plain(value: Any) -> bool | int | float:
    """Return a literal, which may be a scalar of NumPy or of a subclass that JAX has, as a number of Python."""
    value = value.item() if hasattr(value, "item") else value
    return bool(value) if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value)
