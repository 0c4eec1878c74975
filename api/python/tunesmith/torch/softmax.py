"""softmax and log_softmax."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import _core
from .launching import DTYPES, Launcher, call, eager_launcher, is_compiling, is_eager, launch, launcher, needs_grad, rows_of

__all__ = ["log_softmax", "softmax"]

increment_version = torch.autograd.graph.increment_version
_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define("softmax(Tensor x, bool logarithm, float scale, bool causal, bool safe, ScalarType dtype) -> Tensor")
_LIBRARY.define(
    "softmax_backward(Tensor dy, Tensor y, bool logarithm, float scale, bool causal, bool safe, ScalarType dtype) -> Tensor"
)
_LIBRARY.define(
    "softmax_out(Tensor x, bool logarithm, float scale, bool causal, bool safe, Tensor(a!) out) -> ()",
)


def softmax(
    input: torch.Tensor,
    dim: int = -1,
    *,
    dtype: torch.dtype | None = None,
    scale: float = 1.0,
    causal: bool = False,
    safe: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale * input) along a dimension, as torch.softmax.

    dtype: of the result; default that of the input, and float32 under autocast. Computed in float32 in any case.
    causal: mask columns after the diagonal of square matrices. safe: fully masked rows give zeros instead of NaN.
    out: a tensor to write to, may be the input; not with autograd.
    """
    if dim == -1 and not is_compiling():
        if out is None:
            result = _eager(False, scale, causal, safe, dtype)(input)
            if result is not NotImplemented:
                return result
        elif _eager_into(False, scale, causal, safe)(input, out) is None:
            increment_version(out)
            return out
    return _run(input, dim, False, dtype, scale, causal, safe, out)


def log_softmax(
    input: torch.Tensor,
    dim: int = -1,
    *,
    dtype: torch.dtype | None = None,
    scale: float = 1.0,
    causal: bool = False,
    safe: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The logarithm of softmax(), as torch.log_softmax."""
    if dim == -1 and not is_compiling():
        if out is None:
            result = _eager(True, scale, causal, safe, dtype)(input)
            if result is not NotImplemented:
                return result
        elif _eager_into(True, scale, causal, safe)(input, out) is None:
            increment_version(out)
            return out
    return _run(input, dim, True, dtype, scale, causal, safe, out)


def _run(
    x: torch.Tensor,
    dim: int,
    logarithm: bool,
    dtype: torch.dtype | None,
    scale: float,
    causal: bool,
    safe: bool,
    out: torch.Tensor | None,
) -> torch.Tensor:
    if x.dim() == 0:
        raise ValueError("input has no dimensions; expected at least 1")
    if dim != -1 and dim != x.dim() - 1:
        if out is not None:
            raise NotImplementedError(f"out goes with the last dimension; dim is {dim}")
        return _run(x.transpose(dim, -1), -1, logarithm, dtype, scale, causal, safe, None).transpose(dim, -1)
    if out is not None:
        if needs_grad(x, out):
            raise RuntimeError("out does not support automatic differentiation, but one of the arguments requires grad")
        _check_out(x, out)
        torch.ops.tunesmith.softmax_out(x, logarithm, scale, causal, safe, out)
        return out
    if dtype is None:
        dtype = torch.float32 if torch.is_autocast_enabled(x.device.type) else x.dtype
    if needs_grad(x) and is_eager(x):
        return _Softmax.apply(x, logarithm, scale, causal, safe, dtype)
    return torch.ops.tunesmith.softmax(x, logarithm, scale, causal, safe, dtype)


def _check_out(x: torch.Tensor, out: torch.Tensor) -> None:
    if out.shape != x.shape or out.device != x.device:
        raise ValueError(f"out has the shape {tuple(out.shape)} on {out.device}; expected {tuple(x.shape)} on {x.device}")
    if rows_of(out) is None:
        raise NotImplementedError(f"out has the strides {out.stride()}; expected rows of one stride with adjacent columns")


def _fields(x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool) -> dict[str, Any] | None:
    layout = rows_of(x)
    if layout is None:
        return None
    rows, cols, stride = layout
    return {
        "rows": rows,
        "cols": cols,
        "dtype": DTYPES[x.dtype],
        "x_row_stride": stride,
        "scale": float(scale),
        "causal": causal,
        "safe": safe,
    }


def _name(logarithm: bool) -> str:
    return "log_softmax" if logarithm else "softmax"


def _prepare(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> Any:
    def prepare(x: torch.Tensor) -> _core.Launch | None:
        fields = _fields(x, logarithm, scale, causal, safe) if x.dim() else None
        if fields is None:
            return None
        fields["out_dtype"] = DTYPES[dtype or x.dtype]
        return launch(_name(logarithm), fields, {"x": x}, {"y": (x.shape, dtype or x.dtype)})

    return prepare


@functools.cache
def _forward(*options: Any) -> Launcher:
    return launcher(_name(options[0]), _prepare(*options))


@functools.cache
def _eager(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> Launcher:
    prepare = _prepare(logarithm, scale, causal, safe, dtype)
    return eager_launcher(_name(logarithm), prepare, not_in_autocast=dtype is None)


def _prepare_into(logarithm: bool, scale: float, causal: bool, safe: bool) -> Any:
    def prepare(x: torch.Tensor, out: torch.Tensor) -> _core.Launch | None:
        if not x.dim() or x.shape != out.shape:
            return None
        fields, target = _fields(x, logarithm, scale, causal, safe), rows_of(out)
        if fields is None or target is None:
            return None
        in_place = x.numel() > 0 and x.data_ptr() == out.data_ptr()
        fields.update(out_dtype=DTYPES[out.dtype], y_row_stride=target[2], in_place=in_place)
        return launch(_name(logarithm), fields, {"x": x, "y": out}, {})

    return prepare


@functools.cache
def _forward_into(*options: Any) -> Launcher:
    return launcher(_name(options[0]), _prepare_into(*options))


@functools.cache
def _eager_into(*options: Any) -> Launcher:
    return eager_launcher(_name(options[0]), _prepare_into(*options))


@functools.cache
def _backward(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype) -> Launcher:
    op = "log_softmax_backward" if logarithm else "softmax_backward"

    def prepare(dy: torch.Tensor, y: torch.Tensor) -> _core.Launch | None:
        gradient, result = rows_of(dy), rows_of(y)
        if gradient is None or result is None:
            return None
        fields = {
            "rows": gradient[0],
            "cols": gradient[1],
            "dtype": DTYPES[y.dtype],
            "out_dtype": DTYPES[dtype],
            "dy_row_stride": gradient[2],
            "y_row_stride": result[2],
            "scale": float(scale),
            "causal": causal,
            "safe": safe,
        }
        return launch(op, fields, {"dy": dy, "y": y}, {"dx": (y.shape, dtype)})

    return launcher(op, prepare)


def _softmax_kernel(x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype) -> Any:
    return call(_forward(logarithm, scale, causal, safe, dtype), x)


def _softmax_backward_kernel(
    dy: torch.Tensor, y: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype
) -> Any:
    return call(_backward(logarithm, scale, causal, safe, dtype), dy.to(y.dtype), y)


def _softmax_out_kernel(x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, out: torch.Tensor) -> None:
    run = _forward_into(logarithm, scale, causal, safe)
    if run(x, out) is NotImplemented:
        call(run, x.contiguous(), out)


class _Softmax(torch.autograd.Function):
    """The eager path with autograd: the launcher without the dispatcher."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype
    ) -> Any:
        y = call(_forward(logarithm, scale, causal, safe, dtype), x)
        ctx.save_for_backward(y)
        ctx.options = (logarithm, scale, causal, safe, x.dtype)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return torch.ops.tunesmith.softmax_backward(dy, y, *ctx.options), None, None, None, None, None


def _setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    x, *options, _ = inputs
    ctx.save_for_backward(output)
    ctx.options = (*options, x.dtype)


def _double_backward(ctx: Any, gradient: torch.Tensor) -> Any:
    raise NotImplementedError("tunesmith: softmax has no second derivative")


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("softmax", _softmax_kernel, _key)
    _LIBRARY.impl("softmax_backward", _softmax_backward_kernel, _key)
    _LIBRARY.impl("softmax_out", _softmax_out_kernel, _key)
torch.library.register_fake("tunesmith::softmax", lambda x, *options: x.new_empty(x.shape, dtype=options[-1]))
torch.library.register_fake("tunesmith::softmax_backward", lambda dy, y, *options: y.new_empty(y.shape, dtype=options[-1]))
torch.library.register_fake("tunesmith::softmax_out", lambda x, *options: None)
torch.library.register_autograd("tunesmith::softmax", _Softmax.backward, setup_context=_setup_context)
torch.library.register_autograd("tunesmith::softmax_backward", _double_backward, setup_context=lambda *_: None)


@torch.library.register_vmap("tunesmith::softmax")
def _(info: Any, in_dims: Any, x: torch.Tensor, *options: Any) -> Any:
    return torch.ops.tunesmith.softmax(x.movedim(in_dims[0], 0), *options), 0


@torch.library.register_vmap("tunesmith::softmax_backward")
def _(info: Any, in_dims: Any, dy: torch.Tensor, y: torch.Tensor, *options: Any) -> Any:
    size = info.batch_size
    dy = dy.expand(size, *dy.shape) if in_dims[0] is None else dy.movedim(in_dims[0], 0)
    y = y.expand(size, *y.shape) if in_dims[1] is None else y.movedim(in_dims[1], 0)
    return torch.ops.tunesmith.softmax_backward(dy, y, *options), 0
