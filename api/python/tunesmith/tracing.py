"""Numbers that record what a Python function does to them, and the CUDA source of what they recorded."""

from __future__ import annotations

import math
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

from .errors import Error

_ARGUMENTS = {"score_mod": ["score", "b", "h", "q", "k"], "mask_mod": ["b", "h", "q", "k"]}
MOST_ARRAYS = 8
_MOST_ELEMENTS_OF_32_BITS = (1 << 31) - 1
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
        self.is_repeatable = True

    def number(self, expression: str, kind: str) -> _Number:
        name = f"t{len(self.statements)}"
        if kind == "byte":  # results of uint8 wrap, where C++ computes in int
            expression = f"static_cast<unsigned char>({expression})"
        self.statements.append(f"  const auto {name} = {expression};")
        return _Number(self, name, kind)

    def member(self, tensor: Any) -> str:
        for at, known in enumerate(self.arrays):
            if known is tensor:
                return f"{self.kind[0]}{at}"
        if len(self.arrays) == MOST_ARRAYS:
            raise self.error(f"it reads more than {MOST_ARRAYS} tensors")
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
        if hasattr(value, "dtype") and hasattr(value, "item") and not is_tensor(value) and not value.shape:
            value = value.item()  # a scalar of NumPy
        if isinstance(value, bool):
            return _Number(self, "true" if value else "false", "bool", is_literal=True)
        if isinstance(value, int):
            if not -(1 << 63) < value < 1 << 63:
                raise self.error(f"it uses the integer {value}, which has more than 64 bits")
            return _Number(self, f"({value})" if abs(value) < 1 << 31 else f"({value}LL)", "int", is_literal=True)
        if isinstance(value, float):
            return _Number(self, _float_literal(value), "float", is_literal=True)
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
        return self.number(place, {"f32": "float", "u8": "byte"}.get(str(element), "int"))

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
            if number.kind not in ("int", "byte"):
                raise self.trace.error(f"an index is a {number.kind}; expected an integer")
            text, step = number.text, math.prod(shape)
            if not (number.is_literal or number.kind == "byte" or text in _ARGUMENTS["mask_mod"]):  # may be negative
                text = self.trace.number(f"{text} < 0 ? {text} + {extent} : {text}", "int").text
            if math.prod(self.tensor.shape) > _MOST_ELEMENTS_OF_32_BITS:
                text = f"static_cast<long long>({text})"
            term = text if step == 1 else f"{text} * {step}"
            offset = f"{offset} + {term}" if offset else term
        elements = _Elements(self.trace, self.tensor, offset, shape)
        return elements if shape else self.trace.read(elements)


def _float_literal(value: float) -> str:
    """Return the C++ text of a float, rounded as a float32 tensor would hold it."""
    if math.isnan(value):
        return "NAN"
    try:
        (value,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        value = math.copysign(math.inf, value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({value!r}f)"


def _binary(symbol: str, of_bools: str | None = None, reverse: bool = False) -> Callable[[_Number, Any], _Number]:
    """Return an arithmetic operator. of_bools: that of two booleans, whose result is a boolean in torch; None: an error."""

    def operate(self: _Number, other: Any) -> _Number:
        a, b = self, self.trace.operand(other)
        if reverse:
            a, b = b, a
        kind = _wider(a, b)
        if kind == "bool" and of_bools is None:
            raise self.trace.error(f"it applies {symbol} to two truth values; use ^ or ~")
        x, y = _texts(a, b)
        return self.trace.number(f"{x} {of_bools if kind == 'bool' else symbol} {y}", kind)

    return operate


def _comparison(symbol: str) -> Callable[[_Number, Any], _Number]:
    def operate(self: _Number, other: Any) -> _Number:
        x, y = _texts(self, self.trace.operand(other))
        return self.trace.number(f"{x} {symbol} {y}", "bool")

    return operate


_KINDS = ["bool", "byte", "int", "float"]
_CATEGORIES = {"bool": 0, "byte": 1, "int": 1, "float": 2}


def _wider(a: _Number, b: _Number) -> str:
    """Return the kind of a result as torch promotes: a literal counts only if its category is higher."""
    if a.is_literal != b.is_literal:
        literal, number = (a, b) if a.is_literal else (b, a)
        return literal.kind if _CATEGORIES[literal.kind] > _CATEGORIES[number.kind] else number.kind
    return max(a.kind, b.kind, key=_KINDS.index)


def _texts(a: _Number, b: _Number) -> tuple[str, str]:
    """Return the operands' texts. Literals become uint8 next to a uint8, as torch converts them: -1 is 255."""
    if _wider(a, b) != "byte":
        return a.text, b.text
    x, y = (f"static_cast<unsigned char>{one.text}" if one.is_literal and one.kind == "int" else one.text for one in (a, b))
    return x, y


def _divide(a: _Number, b: _Number) -> _Number:
    return a.trace.number(f"static_cast<float>({a.text}) / static_cast<float>({b.text})", "float")


def _floor_divide(a: _Number, b: _Number) -> _Number:
    if _wider(a, b) == "float":
        return a.trace.number(f"floorf(static_cast<float>({a.text}) / static_cast<float>({b.text}))", "float")
    if _wider(a, b) == "byte":
        return a.trace.number("{} / {}".format(*_texts(a, b)), "byte")
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(
        f"{a.text} / {b.text} - (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? 1 : 0)", "int"
    )


def _modulo(a: _Number, b: _Number) -> _Number:
    if _wider(a, b) == "float":
        return a - _floor_divide(a, b) * b
    if _wider(a, b) == "byte":
        return a.trace.number("{} % {}".format(*_texts(a, b)), "byte")
    rest = a.trace.number(f"{a.text} % {b.text}", "int")
    return a.trace.number(f"{rest.text} + (({rest.text} != 0 && ({rest.text} < 0) != ({b.text} < 0)) ? {b.text} : 0)", "int")


def _power(a: _Number, b: _Number) -> _Number:
    exponent = b.text.strip("()")
    if b.is_literal and a.kind in ("int", "byte") and b.kind == "int" and exponent.isdigit() and 0 < int(exponent) <= 8:
        result = a
        for _ in range(int(exponent) - 1):
            result = result * a
        return result
    return a.trace.number(f"powf(static_cast<float>({a.text}), static_cast<float>({b.text}))", "float")


def _logical(symbol: str) -> Callable[[_Number, Any], _Number]:
    def operate(self: _Number, other: Any) -> _Number:
        b = self.trace.operand(other)
        kind = _wider(self, b)
        if kind == "bool":
            return self.trace.number(f"{self.text} {'!=' if symbol == '^' else symbol * 2} {b.text}", "bool")
        if kind == "float":
            raise self.trace.error(f"it applies {symbol} to a float")
        x, y = _texts(self, b)
        return self.trace.number(f"{x} {symbol} {y}", kind)

    return operate


_METHODS = {"float", "int", "long", "bool", "abs", "exp", "log", "sqrt", "tanh", "sigmoid"}


class _Number:
    """A number of the traced function, with the name of its C++ variable."""

    def __init__(self, trace: _Trace, text: str, kind: str, *, is_literal: bool = False) -> None:
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
        if name in _METHODS:
            return lambda: _call(self.trace, name, (self,), {})
        if name == "device":
            return None
        if name in ("new_ones", "new_zeros"):  # torch's and_masks(), or_masks() and noop_mask() start with these
            return lambda *_, dtype=None, **__: self.trace.operand(
                name == "new_ones" if str(dtype).endswith("bool") else int(name == "new_ones")
            )
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
    **{"greater_equal": "ge", "not_equal": "ne"},
    **{"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"},
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
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
        x, y = _texts(a, b)
        return trace.number(f"{condition.text} ? {x} : {y}", _wider(a, b))
    if bare in _UNARY:
        return trace.number(f"{_UNARY[bare]}(static_cast<float>({operands[0].text}))", "float")
    if bare == "sigmoid":
        return trace.number(f"1.0f / (1.0f + expf(-static_cast<float>({operands[0].text})))", "float")
    if bare in ("abs", "absolute"):
        return abs(operands[0])
    if bare in ("neg", "negative"):
        return -operands[0]
    if bare in _LOGICAL:
        a, b = (operand != 0 for operand in operands)
        return getattr(_Number, f"__{_LOGICAL[bare]}__")(a, b)
    if bare == "logical_not":
        return operands[0] == 0
    if bare in ("bitwise_not", "invert"):
        return ~operands[0]
    if bare in ("minimum", "maximum"):  # NaN if either is
        return _select(
            trace, f"{{a}} {'<' if bare == 'minimum' else '>'} {{b}} || {{a}} != {{a}} ? {{a}} : {{b}}", *operands
        )
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
    x, y = _texts(a, b)
    return trace.number(text.format(a=x, b=y), _wider(a, b))


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "data_ptr")


def _element(tensor: Any) -> str | None:
    return _MEMBERS.get(str(tensor.dtype).rpartition(".")[2])


#: Attributes of the numbers that a traced function gets.
NAMES_OF_NUMBERS = _METHODS | {"device", "new_ones", "new_zeros"}

#: Attributes of captured tensors that do not depend on their elements.
_STEADY_ATTRIBUTES = {"shape", "dtype", "ndim", "device", "requires_grad", "is_cuda"}


def translate(function: Callable[..., Any], kind: str) -> tuple[str, tuple[Any, ...], tuple[str, ...], bool]:
    """Return the CUDA source of a score_mod or mask_mod, the tensors that it reads, and their declarations.

    Also return whether the source depends only on shapes and dtypes of captured tensors. It does not where the function
    calls torch on them, such as t.item() or t.exp(): the result is that of the moment.
    """
    from torch.overrides import TorchFunctionMode

    under_way = _Trace(kind, function)

    class Recording(TorchFunctionMode):
        def __torch_function__(self, called: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
            if any(isinstance(value, _Number) for value in _flat(arguments, named)):
                return _call(under_way, called.__name__, arguments, named or {})
            if getattr(getattr(called, "__self__", None), "__name__", "") not in _STEADY_ATTRIBUTES:
                under_way.is_repeatable = False
            return called(*arguments, **(named or {}))

    numbers = [_Number(under_way, name, "float" if name == "score" else "int") for name in _ARGUMENTS[kind]]
    with Recording():
        result = function(*numbers)
    returned = under_way.operand(result)
    declarations = tuple(f"{kind[0]}{at}:{_element(tensor)}[{tensor.numel()}]" for at, tensor in enumerate(under_way.arrays))
    return under_way.source(returned), tuple(under_way.arrays), declarations, under_way.is_repeatable
