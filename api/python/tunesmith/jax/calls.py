"""Calls of plans in programs that XLA compiles: a custom call states the problem, and XLA's threads launch the plan.

The first execution on a device compiles and tunes, with what the engine's mode allows. Plans live as long as the process,
because compiled programs do.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import _core
from ..engine import Engine, default_engine

__all__ = ["DTYPES", "alike", "launch", "use_engine"]

_TARGET = "tunesmith"
_HOST = -1  # in place of the number of a GPU

#: The names of dtypes in problems.
DTYPES = {
    jnp.dtype(dtype): name
    for dtype, name in (
        (jnp.float32, "f32"),
        (jnp.float16, "f16"),
        (jnp.bfloat16, "bf16"),
        (jnp.float64, "f64"),
        (jnp.int32, "i32"),
        (jnp.int64, "i64"),
        (jnp.bool_, "u8"),
        (jnp.uint8, "u8"),
        (jnp.int8, "i8"),
        (jnp.float8_e4m3fn, "e4m3"),
        (jnp.float8_e5m2, "e5m2"),
    )
}
_JAX_DTYPES = {name: dtype for dtype, name in reversed(DTYPES.items())}

_engines: dict[int, Engine] = {}
_plans: dict[tuple[str, int], _core.Plan] = {}
_lock = threading.Lock()


def use_engine(engine: Engine) -> None:
    """Let calls on the engine's device use it. Plans of earlier calls stay in use; set it before the first call."""
    _engines[_HOST if engine.is_host else engine.ordinal] = engine


def launch(op: str, fields: Mapping[str, Any], operands: Mapping[str, jax.Array], results: Sequence[str]) -> list[jax.Array]:
    """Return the results of an operation. operands, results: by the names of its arrays; operands are made contiguous.

    Raises Error(invalid_argument) for a problem that no kernel solves.
    """
    _register()
    arrays = {array.name: array for array in _core.Problem(op, **fields).arrays if array.present}
    for name, operand in operands.items():
        if DTYPES[operand.dtype] != arrays[name].dtype:
            raise ValueError(f"{op}: {name} is {operand.dtype}; expected {_JAX_DTYPES[arrays[name].dtype]}")
        if operand.size != math.prod(arrays[name].shape):
            raise ValueError(f"{op}: {name} has the shape {operand.shape}; expected {tuple(arrays[name].shape)}")
    required = [name for name, array in arrays.items() if array.role == "output" and not array.optional]
    written = list(dict.fromkeys([*results, *required]))
    call = json.dumps({"op": op, "fields": dict(fields), "operands": list(operands), "results": written}, sort_keys=True)
    like = jax.typeof(next(iter(operands.values())))
    shapes = [_result(like, tuple(arrays[name].shape), _JAX_DTYPES[arrays[name].dtype]) for name in written]
    found = jax.ffi.ffi_call(_TARGET, shapes, vmap_method="sequential")(*operands.values(), call=call)
    return list(found[: len(results)])


def _result(like: Any, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return the type of a result. like: that of an operand; in shard_map, all vary over the same axes (alike())."""
    if not like.manual_axis_type.varying:
        return jax.ShapeDtypeStruct(shape, dtype)
    sharding = jax.sharding.NamedSharding(like.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(shape)))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding, manual_axis_type=like.manual_axis_type)


def prepare(call: str, ordinal: int) -> tuple[_core.Plan, list[int]]:
    """Return the plan of a call on a GPU, or on the host if ordinal is negative, and the sources of the plan's arrays.

    A source is the number of an operand, operands + n for result n, or -1 for an absent array. src/xla.cpp calls this.
    """
    described = json.loads(call)
    with _lock:
        engine = _engines.get(ordinal) or _engines.setdefault(
            ordinal, default_engine("host" if ordinal < 0 else f"cuda:{ordinal}")
        )
    made = engine.prepare(_core.Problem(described["op"], **described["fields"]))
    plan = _plans.setdefault((call, ordinal), made)  # never replaced: programs hold its address
    names = [*described["operands"], *described["results"]]
    return plan, [names.index(array.name) if array.name in names else -1 for array in plan.arrays]


def alike(*arrays: jax.Array | None) -> tuple[Any, ...]:
    """Return arrays that vary over the same axes of a mesh, as the operands of a call in shard_map must.

    Outside of shard_map, they are returned as they are.
    """
    varying = [frozenset() if array is None else jax.typeof(array).manual_axis_type.varying for array in arrays]
    axes: frozenset[Any] = frozenset().union(*varying)
    return tuple(
        array if array is None or over == axes else jax.lax.pcast(array, tuple(axes - over), to="varying")
        for array, over in zip(arrays, varying, strict=True)
    )


@functools.cache
def _register() -> None:
    """Register the handlers, once XLA's clients exist: those that are made later take targets before their types."""
    jax.devices()
    for platform, (state, handlers) in _core.xla_handlers().items():
        jax.ffi.register_ffi_type(f"{_TARGET}_{platform}", state, platform=platform)
        jax.ffi.register_ffi_target(_TARGET, handlers, platform=platform)


if not hasattr(_core, "xla_handlers"):
    raise ImportError("this build of tunesmith has no tunesmith.jax, because jaxlib was not there when it was built")
