"""Functions and methods of torch that are called with numbers of a traced function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .traced_numbers import Number, select, texts, wider

if TYPE_CHECKING:
    from .tracing import Trace

__all__ = ["call"]

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


def call(trace: Trace, name: str, arguments: Any, named: dict[str, Any]) -> Any:
    """Trace a call of a function or method of torch."""
    if name in ("__getitem__", "getitem"):
        return trace.elements(arguments[0])[arguments[1]]
    if named and name != "clamp":
        raise trace.error(f"{name} gets the keyword '{next(iter(named))}'")
    if name == "clamp":
        low, high = (*arguments[1:], None, None)[:2]
        low, high = named.get("min", low), named.get("max", high)
        result = arguments[0]
        for limit, symbol in ((low, "<"), (high, ">")):
            if limit is not None:
                result = select(trace, f"{{a}} {symbol} {{b}} ? {{b}} : {{a}}", result, limit)
        return result
    operands = [trace.operand(value) for value in arguments]
    bare = name.strip("_")
    if name == "where":
        condition, a, b = operands
        x, y = texts(a, b)
        return trace.number(f"{condition.text} ? {x} : {y}", wider(a, b))
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
        return getattr(Number, f"__{_LOGICAL[bare]}__")(a, b)
    if bare == "logical_not":
        return operands[0] == 0
    if bare in ("bitwise_not", "invert"):
        return ~operands[0]
    if bare in ("minimum", "maximum"):  # NaN if either is
        return select(trace, f"{{a}} {'<' if bare == 'minimum' else '>'} {{b}} || {{a}} != {{a}} ? {{a}} : {{b}}", *operands)
    if bare in _CASTS:
        cpp, kind = _CASTS[bare]
        return trace.number(f"static_cast<{cpp}>({operands[0].text})", kind)
    if len(operands) == 2:
        if bare.startswith("r") and bare[1:] in _BINARY.values():
            return getattr(Number, f"__{bare[1:]}__")(operands[1], operands[0])
        if bare in _BINARY or bare in _BINARY.values():
            return getattr(Number, f"__{_BINARY.get(bare, bare)}__")(operands[0], operands[1])
    raise trace.error(f"it calls {name}, which has no translation")
