"""Numbers that record what a Python function does to them, and the CUDA source of what they recorded."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable
from typing import Any

from .errors import Error

_ARGUMENTS = {"score_mod": ["score", "b", "h", "q", "k"], "mask_mod": ["b", "h", "q", "k"]}
_MOST_ARRAYS = 8
_MEMBERS = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "bool": "u8",
}


class TraceError(Error, TypeError):
    """A function does something that cannot be traced to CUDA source."""

    __module__ = "tunesmith.mods"
    code = "invalid_argument"


class _Trace:
    """The statements of a function under construction."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self.kind, self.function = kind, function
        self.statements: list[str] = []
        self.arrays: list[Any] = []

    def number(self, expression: str, kind: str) -> _Number:
        name = f"t{len(self.statements)}"
        self.statements.append(f"  const auto {name} = {expression};")
        return _Number(self, name, kind)

    def member(self, tensor: Any) -> str:
        for at, known in enumerate(self.arrays):
            if known is tensor:
                return f"{self.kind[0]}{at}"
        if len(self.arrays) == _MOST_ARRAYS:
            raise self.error(f"it reads more than {_MOST_ARRAYS} tensors")
        if getattr(tensor, "requires_grad", False) and self.kind == "mask_mod":
            raise self.error("it reads a tensor that requires grad, and masks have no gradients; detach the tensor")
        if _element(tensor) is None:
            raise self.error(f"it reads a tensor of {tensor.dtype}; allowed: {', '.join(_MEMBERS)}")
        self.arrays.append(tensor)
        return f"{self.kind[0]}{len(self.arrays) - 1}"

    def error(self, reason: str) -> TraceError:
        code = getattr(self.function, "__code__", None)
        name = getattr(self.function, "__name__", repr(self.function))
        place = name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"
        frame: types.FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code is code:
                place = f"{frame.f_code.co_filename}:{frame.f_lineno}: {name}"
                break
            frame = frame.f_back
        return TraceError(f"{place} cannot be traced as {self.kind}: {reason}")

    def operand(self, value: Any) -> _Number:
        """Return a number for an operand: a number, a literal, or a tensor without dimensions."""
        if isinstance(value, _Number):
            return value
        if isinstance(value, bool):
            return _Number(self, "true" if value else "false", "bool")
        if isinstance(value, int):
            return _Number(self, f"({value})" if abs(value) < 1 << 31 else f"({value}LL)", "int")
        if isinstance(value, float):
            if math.isinf(value):
                return _Number(self, "INFINITY" if value > 0 else "(-INFINITY)", "float")
            return _Number(self, "NAN" if math.isnan(value) else f"({value!r}f)", "float")
        if isinstance(value, _Elements):
            raise self.error(f"a tensor has {len(value.shape)} dimensions that are not indexed")
        if is_tensor(value):
            return self.read(_Elements(self, value))
        raise self.error(f"it uses a {type(value).__name__} as a number")

    def read(self, elements: _Elements) -> _Number:
        if elements.shape:
            raise self.error(f"a tensor has {len(elements.shape)} dimensions that are not indexed")
        element = _element(elements.tensor)
        place = f"aux.{self.member(elements.tensor)}[{elements.offset or '0'}]"
        if str(elements.tensor.dtype).endswith("bool"):
            return self.number(f"{place} != 0", "bool")
        if element in ("f16", "bf16"):
            return self.number(f"to_float({place})", "float")
        return self.number(place, "float" if element == "f32" else "int")

    def source(self, result: _Number) -> str:
        parameters = ", ".join(f"{'float' if name == 'score' else 'int'} {name}" for name in _ARGUMENTS[self.kind])
        returned = "float" if self.kind == "score_mod" else "bool"
        if self.kind == "mask_mod" and result.kind != "bool":
            raise self.error(f"its result is of type {result.kind}; expected a truth value, such as q >= k")
        body = "\n".join([*self.statements, f"  return static_cast<{returned}>({result.text});"])
        return f"__device__ {returned} {self.kind}({parameters}, const Aux& aux) {{\n{body}\n}}\n"


class _Elements:
    """A captured tensor with its leading dimensions indexed."""

    def __init__(self, trace: _Trace, tensor: Any, offset: str = "", shape: tuple[int, ...] | None = None) -> None:
        self.trace, self.tensor, self.offset = trace, tensor, offset
        self.shape = tuple(tensor.shape) if shape is None else shape

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > len(self.shape):
            raise self.trace.error(f"a tensor of {len(self.shape)} dimensions gets {len(indices)} indices")
        offset, shape = self.offset, self.shape
        for one in indices:
            extent, shape = shape[0], shape[1:]
            if isinstance(one, int) and not isinstance(one, bool) and one < 0:
                one += extent
            number = self.trace.operand(one)
            if number.kind != "int":
                raise self.trace.error(f"an index is a {number.kind}; expected an integer")
            step = math.prod(shape)
            term = number.text if step == 1 else f"{number.text} * {step}"
            offset = f"{offset} + {term}" if offset else term
        elements = _Elements(self.trace, self.tensor, offset, shape)
        return elements if shape else self.trace.read(elements)


def _binary(symbol: str, result: str | None = None, reverse: bool = False) -> Callable[[_Number, Any], _Number]:
    def operate(self: _Number, other: Any) -> _Number:
        a, b = self, self.trace.operand(other)
        if reverse:
            a, b = b, a
        return self.trace.number(f"{a.text} {symbol} {b.text}", result or _wider(a, b))

    return operate


def _wider(a: _Number, b: _Number) -> str:
    return "float" if "float" in (a.kind, b.kind) else "int"


def _divide(a: _Number, b: _Number) -> _Number:
    return a.trace.number(f"static_cast<float>({a.text}) / static_cast<float>({b.text})", "float")


def _floor_divide(a: _Number, b: _Number) -> _Number:
    if _wider(a, b) == "float":
        return a.trace.number(f"floorf(static_cast<float>({a.text}) / static_cast<float>({b.text}))", "float")
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(
        f"{a.text} / {b.text} - (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? 1 : 0)", "int"
    )


def _modulo(a: _Number, b: _Number) -> _Number:
    if _wider(a, b) == "float":
        return a - _floor_divide(a, b) * b
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(f"{rest.text} + (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? {b.text} : 0)", "int")


def _power(a: _Number, b: _Number) -> _Number:
    return a.trace.number(f"powf(static_cast<float>({a.text}), static_cast<float>({b.text}))", "float")


def _logical(symbol: str) -> Callable[[_Number, Any], _Number]:
    def operate(self: _Number, other: Any) -> _Number:
        b = self.trace.operand(other)
        if self.kind == b.kind == "bool":
            return self.trace.number(f"{self.text} {'!=' if symbol == '^' else symbol * 2} {b.text}", "bool")
        if "float" in (self.kind, b.kind):
            raise self.trace.error(f"it applies {symbol} to a float")
        return self.trace.number(f"{self.text} {symbol} {b.text}", "int")

    return operate


class _Number:
    """A number of the traced function, with the name of its C++ variable."""

    def __init__(self, trace: _Trace, text: str, kind: str) -> None:
        self.trace, self.text, self.kind = trace, text, kind

    __add__, __radd__ = _binary("+"), _binary("+", reverse=True)
    __sub__, __rsub__ = _binary("-"), _binary("-", reverse=True)
    __mul__, __rmul__ = _binary("*"), _binary("*", reverse=True)
    __lt__, __le__ = _binary("<", "bool"), _binary("<=", "bool")
    __gt__, __ge__ = _binary(">", "bool"), _binary(">=", "bool")
    __eq__ = _binary("==", "bool")  # type: ignore[assignment]
    __ne__ = _binary("!=", "bool")  # type: ignore[assignment]
    __and__, __or__, __xor__ = _logical("&"), _logical("|"), _logical("^")
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __hash__ = None  # type: ignore[assignment]

    def __truediv__(self, other: Any) -> _Number:
        return _divide(self, self.trace.operand(other))

    def __rtruediv__(self, other: Any) -> _Number:
        return _divide(self.trace.operand(other), self)

    def __floordiv__(self, other: Any) -> _Number:
        return _floor_divide(self, self.trace.operand(other))

    def __rfloordiv__(self, other: Any) -> _Number:
        return _floor_divide(self.trace.operand(other), self)

    def __mod__(self, other: Any) -> _Number:
        return _modulo(self, self.trace.operand(other))

    def __rmod__(self, other: Any) -> _Number:
        return _modulo(self.trace.operand(other), self)

    def __pow__(self, other: Any) -> _Number:
        return _power(self, self.trace.operand(other))

    def __rpow__(self, other: Any) -> _Number:
        return _power(self.trace.operand(other), self)

    def __neg__(self) -> _Number:
        return self.trace.number(f"-{self.text}", "int" if self.kind == "bool" else self.kind)

    def __pos__(self) -> _Number:
        return self

    def __invert__(self) -> _Number:
        return self.trace.number(f"!{self.text}" if self.kind == "bool" else f"~{self.text}", self.kind)

    def __abs__(self) -> _Number:
        if self.kind == "float":
            return self.trace.number(f"fabsf({self.text})", "float")
        return self.trace.number(f"{self.text} < 0 ? -{self.text} : {self.text}", "int")

    def __bool__(self) -> bool:
        raise self.trace.error("it branches on a number (if, and, or, not, min, max); use torch.where, &, | and ~")

    def _reject(self, *_: Any) -> Any:
        raise self.trace.error("it converts a number to Python's int or float; use functions of torch")

    __int__ = __float__ = __index__ = __complex__ = _reject

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("float", "int", "long", "bool", "abs", "exp", "log", "sqrt", "tanh", "sigmoid"):
            return lambda: _call(self.trace, name, (self,), {})
        raise self.trace.error(f"numbers have no attribute '{name}'")

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
        trace = next(value.trace for value in _flat(arguments, named) if isinstance(value, _Number))
        return _call(trace, function.__name__, arguments, named or {})


def _flat(arguments: Any, named: Any) -> list[Any]:
    found: list[Any] = []
    for value in [*arguments, *(named or {}).values()]:
        found.extend(value if isinstance(value, tuple | list) else [value])
    return found


_UNARY = {
    name: f"{name}f" for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "floor", "ceil")
}
_BINARY = {
    **{name: name for name in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "mod", "pow")},
    **{"subtract": "sub", "multiply": "mul", "div": "truediv", "divide": "truediv", "true_divide": "truediv"},
    **{"floor_divide": "floordiv", "remainder": "mod", "less": "lt", "less_equal": "le", "greater": "gt"},
    **{"greater_equal": "ge", "logical_and": "and", "logical_or": "or", "logical_xor": "xor", "not_equal": "ne"},
    **{"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"},
}
_CASTS = {"float": ("float", "float"), "int": ("int", "int"), "long": ("long long", "int"), "bool": ("bool", "bool")}


def _call(trace: _Trace, name: str, arguments: Any, named: dict[str, Any]) -> Any:
    """Trace a call of a function or method of torch."""
    if name in ("__getitem__", "getitem"):
        return _Elements(trace, arguments[0])[arguments[1]]
    if named and name != "clamp":
        raise trace.error(f"{name} gets the keyword '{next(iter(named))}'")
    if name == "clamp":
        low, high = (*arguments[1:], None, None)[:2]
        low, high = named.get("min", low), named.get("max", high)
        result = arguments[0]
        for limit, symbol in ((low, "<"), (high, ">")):
            if limit is not None:
                result = _select(trace, f"{{a}} {symbol} {{b}} ? {{b}} : {{a}}", result, limit)
        return result
    operands = [trace.operand(value) for value in arguments]
    bare = name.strip("_")
    if name == "where":
        condition, a, b = operands
        kind = a.kind if a.kind == b.kind else _wider(a, b)
        return trace.number(f"{condition.text} ? {a.text} : {b.text}", kind)
    if bare in _UNARY:
        return trace.number(f"{_UNARY[bare]}(static_cast<float>({operands[0].text}))", "float")
    if bare == "sigmoid":
        return trace.number(f"1.0f / (1.0f + expf(-static_cast<float>({operands[0].text})))", "float")
    if bare in ("abs", "absolute"):
        return abs(operands[0])
    if bare in ("neg", "negative"):
        return -operands[0]
    if bare in ("logical_not", "bitwise_not", "invert"):
        return ~operands[0]
    if bare in ("minimum", "maximum"):
        return _select(trace, f"{{a}} {'<' if bare == 'minimum' else '>'} {{b}} ? {{a}} : {{b}}", *operands)
    if bare in _CASTS:
        cpp, kind = _CASTS[bare]
        return trace.number(f"static_cast<{cpp}>({operands[0].text})", kind)
    if len(operands) == 2:
        if bare.startswith("r") and bare[1:] in _BINARY.values():
            return getattr(_Number, f"__{bare[1:]}__")(operands[1], operands[0])
        if bare in _BINARY or bare in _BINARY.values():
            return getattr(_Number, f"__{_BINARY.get(bare, bare)}__")(operands[0], operands[1])
    raise trace.error(f"it calls {name}, which has no translation")


def _select(trace: _Trace, text: str, a: Any, b: Any) -> _Number:
    a, b = trace.operand(a), trace.operand(b)
    return trace.number(text.format(a=a.text, b=b.text), _wider(a, b))


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "data_ptr")


def _element(tensor: Any) -> str | None:
    return _MEMBERS.get(str(tensor.dtype).rpartition(".")[2])


def translate(function: Callable[..., Any], kind: str) -> tuple[str, tuple[Any, ...], tuple[str, ...]]:
    """Return the CUDA source of a score_mod or mask_mod, the tensors that it reads, and their declarations."""
    from torch.overrides import TorchFunctionMode

    under_way = _Trace(kind, function)

    class Recording(TorchFunctionMode):
        def __torch_function__(self, called: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
            if any(isinstance(value, _Number) for value in _flat(arguments, named)):
                return _call(under_way, called.__name__, arguments, named or {})
            return called(*arguments, **(named or {}))

    numbers = [_Number(under_way, name, "float" if name == "score" else "int") for name in _ARGUMENTS[kind]]
    with Recording():
        result = function(*numbers)
        returned = under_way.operand(result)
    declarations = tuple(f"{kind[0]}{at}:{_element(tensor)}[{tensor.numel()}]" for at, tensor in enumerate(under_way.arrays))
    return under_way.source(returned), tuple(under_way.arrays), declarations
