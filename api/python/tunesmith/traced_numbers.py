"""Numbers that record what is done to them as statements of CUDA source, with the types that torch gives results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tracing import Trace

__all__ = ["NAMES_OF_NUMBERS", "Number", "flat", "select", "texts", "wider"]

_KINDS = ["bool", "byte", "int", "float"]
_CATEGORIES = {"bool": 0, "byte": 1, "int": 1, "float": 2}
METHODS = {"float", "int", "long", "bool", "abs", "exp", "log", "sqrt", "tanh", "sigmoid"}
#: Attributes of the numbers that a traced function gets.
NAMES_OF_NUMBERS = METHODS | {"device", "new_ones", "new_zeros"}


def _binary(symbol: str, of_bools: str | None = None, reverse: bool = False) -> Callable[[Number, Any], Number]:
    """Return an arithmetic operator. of_bools: that of two booleans, whose result is a boolean in torch; None: an error."""

    def operate(self: Number, other: Any) -> Number:
        a, b = self, self.trace.operand(other)
        if reverse:
            a, b = b, a
        kind = wider(a, b)
        if kind == "bool" and of_bools is None:
            raise self.trace.error(f"it applies {symbol} to two truth values; use ^ or ~")
        x, y = texts(a, b)
        return self.trace.number(f"{x} {of_bools if kind == 'bool' else symbol} {y}", kind)

    return operate


def _comparison(symbol: str) -> Callable[[Number, Any], Number]:
    def operate(self: Number, other: Any) -> Number:
        x, y = texts(self, self.trace.operand(other))
        return self.trace.number(f"{x} {symbol} {y}", "bool")

    return operate


def wider(a: Number, b: Number) -> str:
    """Return the kind of a result as torch promotes: a literal counts only if its category is higher."""
    if a.is_literal != b.is_literal:
        literal, number = (a, b) if a.is_literal else (b, a)
        return literal.kind if _CATEGORIES[literal.kind] > _CATEGORIES[number.kind] else number.kind
    return max(a.kind, b.kind, key=_KINDS.index)


def texts(a: Number, b: Number) -> tuple[str, str]:
    """Return the operands' texts. Literals become uint8 next to a uint8, as torch converts them: -1 is 255."""
    if wider(a, b) != "byte":
        return a.text, b.text
    x, y = (f"static_cast<unsigned char>{one.text}" if one.is_literal and one.kind == "int" else one.text for one in (a, b))
    return x, y


def select(trace: Trace, text: str, a: Any, b: Any) -> Number:
    a, b = trace.operand(a), trace.operand(b)
    x, y = texts(a, b)
    return trace.number(text.format(a=x, b=y), wider(a, b))


def flat(arguments: Any, named: Any) -> list[Any]:
    found: list[Any] = []
    for value in [*arguments, *(named or {}).values()]:
        found.extend(value if isinstance(value, tuple | list) else [value])
    return found


def _divide(a: Number, b: Number) -> Number:
    return a.trace.number(f"static_cast<float>({a.text}) / static_cast<float>({b.text})", "float")


def _floor_divide(a: Number, b: Number) -> Number:
    if wider(a, b) == "float":
        return a.trace.number(f"floorf(static_cast<float>({a.text}) / static_cast<float>({b.text}))", "float")
    if wider(a, b) == "byte":
        return a.trace.number("{} / {}".format(*texts(a, b)), "byte")
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(
        f"{a.text} / {b.text} - (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? 1 : 0)", "int"
    )


def _modulo(a: Number, b: Number) -> Number:
    if wider(a, b) == "float":
        return a - _floor_divide(a, b) * b
    if wider(a, b) == "byte":
        return a.trace.number("{} % {}".format(*texts(a, b)), "byte")
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(f"{rest.text} + (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? {b.text} : 0)", "int")


def _power(a: Number, b: Number) -> Number:
    exponent = b.text.strip("()")
    if b.is_literal and a.kind in ("int", "byte") and b.kind == "int" and exponent.isdigit() and 0 < int(exponent) <= 8:
        result = a
        for _ in range(int(exponent) - 1):
            result = result * a
        return result
    return a.trace.number(f"powf(static_cast<float>({a.text}), static_cast<float>({b.text}))", "float")


def _logical(symbol: str) -> Callable[[Number, Any], Number]:
    def operate(self: Number, other: Any) -> Number:
        b = self.trace.operand(other)
        kind = wider(self, b)
        if kind == "bool":
            return self.trace.number(f"{self.text} {'!=' if symbol == '^' else symbol * 2} {b.text}", "bool")
        if kind == "float":
            raise self.trace.error(f"it applies {symbol} to a float")
        x, y = texts(self, b)
        return self.trace.number(f"{x} {symbol} {y}", kind)

    return operate


class Number:
    """A number of the traced function, with the name of its C++ variable."""

    def __init__(self, trace: Trace, text: str, kind: str, *, is_literal: bool = False) -> None:
        self.trace, self.text, self.kind, self.is_literal = trace, text, kind, is_literal

    __add__, __radd__ = _binary("+", "||"), _binary("+", "||", reverse=True)
    __sub__, __rsub__ = _binary("-"), _binary("-", reverse=True)
    __mul__, __rmul__ = _binary("*", "&&"), _binary("*", "&&", reverse=True)
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __eq__ = _comparison("==")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __and__, __or__, __xor__ = _logical("&"), _logical("|"), _logical("^")
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __hash__ = None  # type: ignore[assignment]

    def __truediv__(self, other: Any) -> Number:
        return _divide(self, self.trace.operand(other))

    def __rtruediv__(self, other: Any) -> Number:
        return _divide(self.trace.operand(other), self)

    def __floordiv__(self, other: Any) -> Number:
        return _floor_divide(self, self.trace.operand(other))

    def __rfloordiv__(self, other: Any) -> Number:
        return _floor_divide(self.trace.operand(other), self)

    def __mod__(self, other: Any) -> Number:
        return _modulo(self, self.trace.operand(other))

    def __rmod__(self, other: Any) -> Number:
        return _modulo(self.trace.operand(other), self)

    def __pow__(self, other: Any) -> Number:
        return _power(self, self.trace.operand(other))

    def __rpow__(self, other: Any) -> Number:
        return _power(self.trace.operand(other), self)

    def __neg__(self) -> Number:
        return self.trace.number(f"-{self.text}", "int" if self.kind == "bool" else self.kind)

    def __pos__(self) -> Number:
        return self

    def __invert__(self) -> Number:
        return self.trace.number(f"!{self.text}" if self.kind == "bool" else f"~{self.text}", self.kind)

    def __abs__(self) -> Number:
        if self.kind == "float":
            return self.trace.number(f"fabsf({self.text})", "float")
        if self.kind == "byte":
            return self
        return self.trace.number(f"{self.text} < 0 ? -{self.text} : {self.text}", "int")

    def __bool__(self) -> bool:
        raise self.trace.error("it branches on a number (if, and, or, not, min, max); use torch.where, &, | and ~")

    def _reject(self, *_: Any) -> Any:
        raise self.trace.error("it converts a number to Python's int or float; use functions of torch")

    __int__ = __float__ = __index__ = __complex__ = _reject

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in METHODS:
            return lambda: self.trace.call(name, (self,), {})
        if name == "device":
            return None
        if name in ("new_ones", "new_zeros"):  # torch's and_masks(), or_masks() and noop_mask() start with these
            return lambda *_, dtype=None, **__: self.trace.operand(
                name == "new_ones" if str(dtype).endswith("bool") else int(name == "new_ones")
            )
        raise self.trace.error(f"numbers have no attribute '{name}'")

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
        trace = next(value.trace for value in flat(arguments, named) if isinstance(value, Number))
        return trace.call(function.__name__, arguments, named or {})
