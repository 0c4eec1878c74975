"""A Python function of numbers as CUDA source: its statements, and the tensors that it reads."""

from __future__ import annotations

import math
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

from .errors import Error
from .traced_calls import call
from .traced_numbers import NAMES_OF_NUMBERS, Number, flat

__all__ = ["ARGUMENTS", "MAX_ARRAYS", "NAMES_OF_NUMBERS", "Trace", "TraceError", "is_tensor", "translate"]

#: The names of a function's numbers.
ARGUMENTS = {"score_mod": ["score", "b", "h", "q", "k"], "mask_mod": ["b", "h", "q", "k"]}
MAX_ARRAYS = 8
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
#: Attributes of captured tensors that do not depend on their elements.
_STEADY_ATTRIBUTES = {"shape", "dtype", "ndim", "device", "requires_grad", "is_cuda"}


class TraceError(Error, TypeError):
    """A function does something that cannot be traced to CUDA source."""

    __module__ = "tunesmith.mods"
    code = "invalid_argument"


def translate(function: Callable[..., Any], kind: str) -> tuple[str, tuple[Any, ...], tuple[str, ...], bool]:
    """Return the CUDA source of a score_mod or mask_mod, the tensors that it reads, and their declarations.

    Also return whether the source depends only on shapes and dtypes of captured tensors. It does not where the function
    calls torch on them, such as t.item() or t.exp(): the source then contains the current values.
    """
    from torch.overrides import TorchFunctionMode

    under_way = Trace(kind, function)

    class Recording(TorchFunctionMode):
        def __torch_function__(self, called: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
            if any(isinstance(value, Number) for value in flat(arguments, named)):
                return under_way.call(called.__name__, arguments, named or {})
            if getattr(getattr(called, "__self__", None), "__name__", "") not in _STEADY_ATTRIBUTES:
                under_way.is_repeatable = False
            return called(*arguments, **(named or {}))

    numbers = [Number(under_way, name, "float" if name == "score" else "int") for name in ARGUMENTS[kind]]
    with Recording():
        result = function(*numbers)
    source = under_way.source(under_way.operand(result))
    return source, tuple(under_way.arrays), under_way.declarations(), under_way.is_repeatable


class Trace:
    """The statements of a function under construction."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self.kind, self.function = kind, function
        self.statements: list[str] = []
        self.arrays: list[Any] = []
        self.is_repeatable = True

    def number(self, expression: str, kind: str) -> Number:
        name = f"t{len(self.statements)}"
        if kind == "byte":  # results of uint8 wrap, where C++ computes in int
            expression = f"static_cast<unsigned char>({expression})"
        self.statements.append(f"  const auto {name} = {expression};")
        return Number(self, name, kind)

    def member(self, tensor: Any) -> str:
        for at, known in enumerate(self.arrays):
            if known is tensor:
                return f"{self.kind[0]}{at}"
        if len(self.arrays) == MAX_ARRAYS:
            raise self.error(f"it reads more than {MAX_ARRAYS} tensors")
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

    def operand(self, value: Any) -> Number:
        """Return a number for an operand: a number, a literal, or a tensor without dimensions."""
        if isinstance(value, Number):
            return value
        if hasattr(value, "dtype") and hasattr(value, "item") and not is_tensor(value) and not value.shape:
            value = value.item()  # a scalar of NumPy
        if isinstance(value, bool):
            return Number(self, "true" if value else "false", "bool", is_literal=True)
        if isinstance(value, int):
            if not -(1 << 63) < value < 1 << 63:
                raise self.error(f"it uses the integer {value}, which has more than 64 bits")
            return Number(self, f"({value})" if abs(value) < 1 << 31 else f"({value}LL)", "int", is_literal=True)
        if isinstance(value, float):
            return Number(self, _float_literal(value), "float", is_literal=True)
        if isinstance(value, Elements):
            raise self.error(f"a tensor has {len(value.shape)} dimensions that are not indexed")
        if is_tensor(value):
            return self.read(Elements(self, value))
        raise self.error(f"it uses a {type(value).__name__} as a number")

    def call(self, name: str, arguments: Any, named: dict[str, Any]) -> Any:
        """Trace a call of a function or method of torch."""
        return call(self, name, arguments, named)

    def elements(self, tensor: Any) -> Elements:
        return Elements(self, tensor)

    def read(self, elements: Elements) -> Number:
        if elements.shape:
            raise self.error(f"a tensor has {len(elements.shape)} dimensions that are not indexed")
        return self.element(elements.tensor, elements.offset)

    def element(self, tensor: Any, offset: str) -> Number:
        """Return an element of a captured tensor. offset: as C++ text."""
        element = _element(tensor)
        place = f"aux.{self.member(tensor)}[{offset or '0'}]"
        if str(tensor.dtype).endswith("bool"):
            return self.number(f"{place} != 0", "bool")
        if element in ("f16", "bf16"):
            return self.number(f"to_float({place})", "float")
        return self.number(place, {"f32": "float", "u8": "byte"}.get(str(element), "int"))

    def declarations(self) -> tuple[str, ...]:
        """Return the declarations of the tensors that were read."""
        extents = [math.prod(tensor.shape) for tensor in self.arrays]
        return tuple(f"{self.kind[0]}{at}:{_element(tensor)}[{extents[at]}]" for at, tensor in enumerate(self.arrays))

    def source(self, result: Number) -> str:
        parameters = ", ".join(f"{'float' if name == 'score' else 'int'} {name}" for name in ARGUMENTS[self.kind])
        returned = "float" if self.kind == "score_mod" else "bool"
        if self.kind == "mask_mod" and result.kind != "bool":
            raise self.error(f"its result is of type {result.kind}; expected a truth value, such as q >= k")
        body = "\n".join([*self.statements, f"  return static_cast<{returned}>({result.text});"])
        return f"__device__ {returned} {self.kind}({parameters}, const Aux& aux) {{\n{body}\n}}\n"


class Elements:
    """A captured tensor with its leading dimensions indexed."""

    def __init__(self, trace: Trace, tensor: Any, offset: str = "", shape: tuple[int, ...] | None = None) -> None:
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
            if not (number.is_literal or number.kind == "byte" or text in ARGUMENTS["mask_mod"]):  # may be negative
                text = self.trace.number(f"{text} < 0 ? {text} + {extent} : {text}", "int").text
            if math.prod(self.tensor.shape) > _MOST_ELEMENTS_OF_32_BITS:
                text = f"static_cast<long long>({text})"
            term = text if step == 1 else f"{text} * {step}"
            offset = f"{offset} + {term}" if offset else term
        elements = Elements(self.trace, self.tensor, offset, shape)
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


def is_tensor(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "data_ptr")


def _element(tensor: Any) -> str | None:
    return _MEMBERS.get(str(tensor.dtype).rpartition(".")[2])
