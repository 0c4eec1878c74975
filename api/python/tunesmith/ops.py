"""Every operation as a function of arrays, with the fields of its description as keywords.

tunesmith.ops.softmax(x, scale=0.5) takes NumPy arrays, or anything that offers the buffer protocol, and returns NumPy
arrays; help(tunesmith.ops.softmax) lists arrays and fields. Shapes, element types and strides come from the arrays. Shipped
row programs are functions, too: tunesmith.ops.layer_norm(x, w, b, eps=1e-5). The functions exist for testing and for the
CPU: on a GPU, use tunesmith.torch, or prepare a plan and launch it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from .described import dtype_fields, enabling, filled, stride_fields
from .engine import Engine, default_engine
from .errors import InvalidArgument
from .number_text import is_number, number_texts

if TYPE_CHECKING:
    import inspect

__all__ = ["Operation", "operation"]

_Value = bool | int | float | str
_NUMPY_TYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "uint16",
    "u8": "uint8",
    "i32": "int32",
    "i64": "int64",
    "e4m3": "uint8",
    "e5m2": "uint8",
    "i8": "int8",
    "f64": "float64",
}
_PROBE = 1 << 20  # a stride that no default has
#: Fields of row programs, whose text names the arrays: "x=4104;y=0".
_STRIDES_OF_ARRAYS = ("row_strides", "col_strides", "inner_strides")


class Operation:
    """An operation: its arrays and fields, and a call."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name
        self.__doc__ = _documentation(name)
        self.__signature__ = _signature(name)

    @property
    def summary(self) -> str:
        """What the operation computes, in one line."""
        return _core.operation_summary(self.name)

    @property
    def fields(self) -> list[_core.Field]:
        """The fields of a problem."""
        return _core.operation_fields(self.name)

    @property
    def arrays(self) -> list[_core.Array]:
        """All arrays of a problem, in launch order; Array.present is false for those that a field enables."""
        return _core.operation_arrays(self.name, {})

    def problem(self, arrays: Mapping[str, Any], **fields: Any) -> _core.Problem:
        """Return the problem for input arrays: their shapes, element types, strides and alignments, and the fields."""
        return _infer(self.name, arrays, fields)

    def __call__(self, *arrays: Any, engine: Engine | None = None, out: Mapping[str, Any] | Any = None, **named: Any) -> Any:
        """Run the operation. Return its output, or a named tuple of its outputs if there are several.

        arrays: the inputs in the order of the signature, or by keyword. out: arrays to write to, by name, or the one array.
        """
        import numpy

        flags = {field.name for field in self.fields}
        # A program's text names its arrays. Choices do not reorder those of the signature.
        sources = {field.name for field in self.fields if field.kind == "str"}
        texts: dict[str, _Value] = {field: value for field, value in named.items() if field in sources}
        inputs = _inputs(self.name, texts)
        if len(arrays) > len(inputs):
            raise TypeError(f"{self.name} takes at most {len(inputs)} arrays; got {len(arrays)}")
        given = {array.name: value for array, value in zip(inputs, arrays, strict=False) if value is not None}
        for array in inputs:
            value = named.get(array.name)
            if value is not None and (array.name not in flags or not isinstance(value, bool | int | str)):
                given[array.name] = named.pop(array.name)
        _move_numbers(named, flags)
        engine = engine or default_engine("host")
        problem = self._problem_or_copy(given, named)
        passed, outputs = dict(given), _outputs(self.name, problem, out)
        launched: list[Any] = []
        results: dict[str, Any] = {}
        copied: list[tuple[Any, Any]] = []
        plan = engine.prepare(problem)
        for array in plan.arrays:
            if array.role == "input":
                value = given.pop(array.name, None)
            else:
                value = outputs.pop(array.name, None)
                if value is None:
                    value = passed.get(array.in_place_of or array.name)
                    given.pop(array.name, None)
                if value is None:
                    value = numpy.empty(array.shape, _NUMPY_TYPES[array.dtype])
                    if "cu_seqlens_q" in passed and array.name in filled(self.name):
                        value[...] = filled(self.name)[array.name]
                results[array.name] = value
                if not _lies_as(array, value):
                    copied.append((value, numpy.array(value, order="C")))
                    value = copied[-1][1]
            launched.append(value)
        if given or outputs:
            raise InvalidArgument(f"{self.name} has no array '{next(iter({**given, **outputs}))}' for these fields")
        plan.launch(*launched)
        for result, copy in copied:
            numpy.copyto(numpy.asarray(result), copy)
        if len(results) == 1:
            return next(iter(results.values()))
        return _result_type(self.name, tuple(results))(*results.values())

    def _problem_or_copy(self, arrays: dict[str, Any], fields: dict[str, Any]) -> _core.Problem:
        """Return the problem for input arrays, after copies of those whose strides no problem can state."""
        import numpy

        for name, value in arrays.items():
            if isinstance(value, numpy.ma.MaskedArray):
                raise InvalidArgument(f"{name} is a masked array, whose mask no kernel reads; pass {name}.filled(...)")

        def problem_of_copies(names: list[str]) -> _core.Problem:
            arrays.update({name: numpy.array(arrays[name], order="C") for name in names})
            return self.problem(arrays, **fields)

        try:
            problem = self.problem(arrays, **fields)
        except InvalidArgument:
            others = [name for name, value in arrays.items() if not _is_contiguous(value)]
            if not others:
                raise
            problem = problem_of_copies(others)
        others = [array.name for array in problem.arrays if not _lies_as(array, arrays.get(array.name))]
        if others:
            problem = problem_of_copies(others)
        return problem

    def __repr__(self) -> str:
        return f"<tunesmith operation {self.name}>"


def _lies_as(array: _core.Array, value: Any) -> bool:
    """Whether a value, if there is one, lies in memory as an array of a problem, and is aligned as it is."""
    if value is None or hasattr(value, "__cuda_array_interface__"):
        return True  # what launches the plan checks the rest
    layout = _core.layout(value, array.name)
    if array.bytes and layout["address"] % array.alignment:
        return False
    if len(array.shape) != len(layout["shape"]):
        return _is_contiguous(value)
    return _has_strides(layout, array.strides)


def _is_contiguous(value: Any) -> bool:
    if hasattr(value, "__cuda_array_interface__"):
        return True
    layout = _core.layout(value, "array")
    strides = [1]
    for extent in layout["shape"][:0:-1]:
        strides.append(strides[-1] * extent)
    return _has_strides(layout, strides[::-1])


def _has_strides(layout: Mapping[str, Any], strides: Sequence[int]) -> bool:
    shape = layout["shape"]
    return 0 in shape or all(
        expected == found or extent == 1
        for expected, found, extent in zip(strides[: len(shape)], layout["strides"], shape, strict=True)
    )


@functools.cache
def _names() -> list[str]:
    return _core.operation_names() + _core.shipped_program_names()


def _move_numbers(named: dict[str, Any], flags: set[str]) -> None:
    """Make the field `numbers` of keywords that are numbers of a row program."""
    if "numbers" not in flags:
        return
    numbers = {key: value for key, value in named.items() if key not in flags and is_number(value)}
    given = [named.pop("numbers")] if named.get("numbers") else []
    for key in numbers:
        del named[key]
    if numbers or given:
        named["numbers"] = ";".join(given + ([number_texts(numbers)] if numbers else []))


@functools.cache
def operation(name: str) -> Operation:
    """Return an operation, or a shipped row program, by name; InvalidArgument lists the names."""
    if name not in _names():
        raise InvalidArgument(f"operation is '{name}'; allowed: {', '.join(_names())}")
    return Operation(name)


def __getattr__(name: str) -> Operation:
    if name.startswith("_"):
        raise AttributeError(f"module 'tunesmith.ops' has no attribute '{name}'")
    if name not in _names():
        import difflib  # slow; not when tunesmith is imported

        near = difflib.get_close_matches(name, _names(), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"module 'tunesmith.ops' has no operation '{name}'{hint}")
    return operation(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_names()])


def _inputs(name: str, fields: dict[str, _Value]) -> list[_core.Array]:
    """Return the inputs in the order of positional arguments: launch order, but optional ones last."""
    inputs = [array for array in _core.operation_arrays(name, fields) if array.role != "output"]
    return sorted(inputs, key=lambda array: array.optional or not array.present)


def _signature(name: str) -> inspect.Signature:
    import inspect  # slow

    parameters = [
        inspect.Parameter(array.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for array in _inputs(name, {})
    ]
    taken = {parameter.name for parameter in parameters} | {"engine", "out"}
    for keyword in ["engine", "out"] + [field.name for field in _core.operation_fields(name) if not field.hidden]:
        if keyword in ("engine", "out") or keyword not in taken:
            parameters.append(inspect.Parameter(keyword, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def _documentation(name: str) -> str:
    lines = [_core.operation_summary(name), "", "Arrays:"]
    for array in _core.operation_arrays(name, {}):
        use = array.role if array.present else f"{array.role}, optional"
        lines.append(f"  {array.name} ({use}): {' x '.join(array.dims)}. {array.meaning}".rstrip(". ") + ".")
    lines += ["", "Fields; those of shape, element type, strides and alignment come from the arrays:"]
    for field in _core.operation_fields(name):
        if field.hidden:
            continue
        values = ", ".join(field.choices) or field.range or field.kind
        default = f"default {field.default}" if field.default else "from the arrays"
        lines.append(f"  {field.name} ({values}; {default}): {field.meaning}.")
    return "\n".join(lines)


@functools.cache
def _result_type(name: str, fields: tuple[str, ...]) -> Any:
    return NamedTuple(f"{name}_result", [(field, Any) for field in fields])


def _find(name: str, fields: Mapping[str, _Value], array: str) -> _core.Array | None:
    return next((each for each in _core.operation_arrays(name, dict(fields)) if each.name == array), None)


def _set(name: str, fields: dict[str, _Value], field: str, value: _Value, array: str) -> None:
    if fields.setdefault(field, value) != value:
        raise InvalidArgument(f"{name}: {field} is {fields[field]}, but {array} has {value}")


def _infer(name: str, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> _core.Problem:
    fields: dict[str, _Value] = {key: value for key, value in given.items() if value is not None}
    layouts = {array: _core.layout(value, array) for array, value in arrays.items()}
    _require_inputs(name, fields, arrays)
    for array, layout in layouts.items():
        info = _find(name, fields, array)
        if info is None:
            raise InvalidArgument(f"{name} has no array '{array}'")
        if not info.present and not _is_enabled(name, fields, array, layout["shape"]):
            # Not a number, which would be a guess.
            ways = [way for way in enabling(name).get(array, ()) if way[0] not in fields and type(way[1]) is not int]
            if len(ways) != 1:
                options = ", ".join(f"{key}={value!r}" for key, value in ways)
                raise InvalidArgument(f"{name}: {array} is given; state what it is: {options or 'no field enables it'}")
            fields.update(ways)
        field, choices = dtype_fields(name).get(array, (None, []))
        if field is not None and info.dtype in choices:  # otherwise other fields decide, such as mask="keep"
            dtype = {"bool": "u8", "u16": "bf16"}.get(layout["dtype"], layout["dtype"])
            if dtype not in choices:
                raise InvalidArgument(f"{name}: {array} has elements of {layout['type']}; allowed: {', '.join(choices)}")
            _set(name, fields, field, dtype, array)
        if (
            info.present
            and len(info.dims) != len(layout["shape"])
            and not _core.infer_fields(name, {}, array, layout["shape"])
        ):
            shape = tuple(layout["shape"])
            raise InvalidArgument(f"{name}: {array} has the shape {shape}; expected {' x '.join(info.dims)}")
        for field, extent in _core.infer_fields(name, fields, array, layout["shape"]).items():
            _set(name, fields, field, extent, array)
    for array, layout in layouts.items():
        _set_strides(name, fields, array, layout)
    return _core.Problem(name, **fields)


def _is_enabled(name: str, fields: Mapping[str, _Value], array: str, shape: Sequence[int]) -> bool:
    """Whether the extents of an array, such as its heads, enable it."""
    info = _find(name, {**fields, **_core.infer_fields(name, dict(fields), array, shape)}, array)
    return info is not None and info.present


def _require_inputs(name: str, fields: dict[str, _Value], given: Mapping[str, Any]) -> None:
    """Raise if an input is missing that every problem with these fields has."""
    inputs = [array for array in _core.operation_arrays(name, fields) if array.role == "input" and array.present]
    needed = [array.name for array in inputs if not array.optional]
    missing = [array for array in needed if array not in given]
    if missing:
        raise InvalidArgument(f"{name}: {missing[0]} is missing; it needs {', '.join(needed)}")


def _outputs(name: str, problem: _core.Problem, out: Mapping[str, Any] | Any) -> dict[str, Any]:
    """Return `out` by name."""
    if out is None or isinstance(out, Mapping):
        return dict(out or {})
    names = [array.name for array in problem.arrays if array.role == "output" and array.present]
    if len(names) != 1:
        raise InvalidArgument(f"out is one array, but {name} has the outputs {', '.join(names)}; pass out={{name: array}}")
    return {names[0]: out}


def _set_of_array(fields: dict[str, _Value], field: str, array: str, value: int) -> dict[str, _Value]:
    """Add a property of an array to a field such as "x=4;y=0", unless it has one; return the fields."""
    given = str(fields.get(field) or "")
    if all(pair.partition("=")[0] != array for pair in given.replace(",", ";").split(";")):
        fields[field] = f"{given};{array}={value}" if given else f"{array}={value}"
    return fields


def _set_strides(name: str, fields: dict[str, _Value], array: str, layout: Mapping[str, Any]) -> None:
    """Set the fields of an array's strides that differ from the contiguous ones, and its alignment."""
    info = _find(name, fields, array)
    if info is None:
        return
    if info.alignment_field and layout["address"]:
        address = layout["address"] | 16
        fields.setdefault(info.alignment_field, address & -address)
    of_arrays = any(field.name in _STRIDES_OF_ARRAYS for field in _core.operation_fields(name))
    if of_arrays and layout["address"] % 16:
        _set_of_array(fields, "alignments", array, layout["address"] & -layout["address"])
    if len(info.shape) != len(layout["shape"]):
        return
    for dimension, (wanted, extent) in enumerate(zip(layout["strides"], layout["shape"], strict=True)):
        if extent <= 1 or info.strides[dimension] == wanted:
            continue
        if of_arrays:
            for strides in _STRIDES_OF_ARRAYS:
                probed = _find(name, _set_of_array(dict(fields), strides, array, _PROBE), array)
                if probed is not None and probed.strides[dimension] == _PROBE:
                    _set_of_array(fields, strides, array, wanted)
                    break
            continue
        stride = stride_fields(name, info, fields)[dimension]
        if stride is not None:
            fields.setdefault(stride, wanted)
