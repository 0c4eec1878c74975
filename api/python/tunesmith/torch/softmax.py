"""softmax and log_softmax."""

from __future__ import annotations

from typing import Any

import torch

from .launching import (
    DTYPES,
    Gradient,
    Launcher,
    Prepared,
    autocast_dtype,
    by_options,
    call,
    eager_launcher,
    increment_version,
    is_compiling,
    is_eager,
    is_transformed,
    launch,
    launcher,
    needs_grad,
    register_fake,
    transformable,
    wide,
)
from .layouts import dimension_of, with_strides

__all__ = ["log_softmax", "softmax"]

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
    """softmax(scale * input) along a dimension, as torch.softmax; no dimension takes a copy.

    dtype: of the result; default that of the input, and float32 under autocast. Computed in float32, in float64 if the input
    or the result is of it.
    causal: mask columns after the diagonal of square matrices. safe: fully masked rows give zeros instead of NaN.
    out: a tensor to write to, may be the input; not with autograd.
    """
    if dtype is not None:
        input = _in_precision_of(input, dtype)
    if (dim == -1 or dim == input.dim() - 1) and not is_compiling():
        if out is None:
            plain = dtype is None and scale == 1.0 and not (causal or safe)
            result = (_plain[False] if plain else _eager(False, scale, causal, safe, dtype))(input)
            if result is not NotImplemented:
                return result
        elif _eager_into(False, scale, causal, safe)(input, out) is None:
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
    if dtype is not None:
        input = _in_precision_of(input, dtype)
    if (dim == -1 or dim == input.dim() - 1) and not is_compiling():
        if out is None:
            plain = dtype is None and scale == 1.0 and not (causal or safe)
            result = (_plain[True] if plain else _eager(True, scale, causal, safe, dtype))(input)
            if result is not NotImplemented:
                return result
        elif _eager_into(True, scale, causal, safe)(input, out) is None:
            return out
    return _run(input, dim, True, dtype, scale, causal, safe, out)


def _in_precision_of(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return x, converted if one dtype is float64 and the other is not, as torch.softmax does."""
    return x.to(dtype) if (x.dtype == torch.float64) != (dtype == torch.float64) else x


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
    scale = float(scale)
    if x.dim() == 0:
        raise ValueError("input has no dimensions; expected at least 1")
    if dim != -1 and dim != x.dim() - 1:
        if out is not None:
            _check_shape(x, out)
        function = log_softmax if logarithm else softmax
        last = None if out is None else out.movedim(dim, -1)
        result = function(x.movedim(dim, -1), dtype=dtype, scale=scale, causal=causal, safe=safe, out=last)
        return result.movedim(-1, dim) if out is None else out
    if out is not None:
        if needs_grad(x, out):
            raise RuntimeError("out does not support automatic differentiation, but one of the arguments requires grad")
        _check_shape(x, out)
        torch.ops.tunesmith.softmax_out(x, logarithm, scale, causal, safe, out)
        return out
    if dtype is None:
        dtype = x.dtype if x.dtype == torch.float64 or autocast_dtype(x) is None else torch.float32
    if is_transformed():
        return _transformed(x, logarithm, scale, causal, safe, dtype)
    if needs_grad(x) and is_eager(x):
        return _Softmax.apply(x, logarithm, scale, causal, safe, dtype)
    return torch.ops.tunesmith.softmax(x, logarithm, scale, causal, safe, dtype)


def _check_shape(x: torch.Tensor, out: torch.Tensor) -> None:
    if out.shape != x.shape or out.device != x.device:
        raise ValueError(f"out has the shape {tuple(out.shape)} on {out.device}; expected {tuple(x.shape)} on {x.device}")


def _fields(x: torch.Tensor, y: torch.Tensor, scale: float, causal: bool, safe: bool) -> dict[str, Any] | None:
    fields = dimension_of({"x": x, "y": y})
    if fields is None or (causal and "inner" in fields):  # the diagonal counts rows in their own order
        return None
    fields.update(dtype=DTYPES[x.dtype], out_dtype=DTYPES[y.dtype], scale=float(scale), causal=causal, safe=safe)
    return fields


def _like(x: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Return a tensor without memory, as torch.empty_like: with the strides of a dense tensor."""
    return torch.empty_like(x, dtype=dtype or x.dtype, device="meta")


def _name(logarithm: bool) -> str:
    return "log_softmax" if logarithm else "softmax"


def _prepare(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> Any:
    def prepare(x: torch.Tensor) -> Prepared | None:
        if not x.dim():
            return None
        y = _like(x, dtype)
        fields = _fields(x, y, scale, causal, safe)
        return None if fields is None else launch(_name(logarithm), fields, {"x": x}, {"y": y})

    return prepare


@by_options
def _forward(*options: Any) -> Launcher:
    return launcher(_name(options[0]), _prepare(*options))


@by_options
def _eager(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> Launcher:
    prepare = _prepare(logarithm, scale, causal, safe, dtype)

    def gradient(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return torch.ops.tunesmith.softmax_backward(dy, y, logarithm, scale, causal, safe, y.dtype)

    if dtype is not None:  # the gradient has the dtype of the input, which is not known here
        return eager_launcher(_name(logarithm), prepare)
    return eager_launcher(_name(logarithm), prepare, not_in_autocast=True, gradient=Gradient(1, 1, (1,), gradient))


def _first_plain(logarithm: bool) -> Launcher:
    def run(x: torch.Tensor) -> Any:
        _plain[logarithm] = _eager(logarithm, 1.0, False, False, None)
        return _plain[logarithm](x)

    return run


#: The launchers of softmax and log_softmax without options, which save the look-up.
_plain = [_first_plain(False), _first_plain(True)]


def _prepare_into(logarithm: bool, scale: float, causal: bool, safe: bool) -> Any:
    def prepare(x: torch.Tensor, out: torch.Tensor) -> Prepared | None:
        if not x.dim() or x.shape != out.shape:
            return None
        fields = _fields(x, out, scale, causal, safe)
        if fields is None:
            return None
        fields["in_place"] = x.numel() > 0 and x.data_ptr() == out.data_ptr()
        return launch(_name(logarithm), fields, {"x": x, "y": out}, {})

    return prepare


@by_options
def _forward_into(*options: Any) -> Launcher:
    return launcher(_name(options[0]), _prepare_into(*options))


@by_options
def _eager_into(*options: Any) -> Launcher:
    return eager_launcher(_name(options[0]), _prepare_into(*options), writes_last=True)


@by_options
def _backward(logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype) -> Launcher:
    op = "log_softmax_backward" if logarithm else "softmax_backward"

    def prepare(dy: torch.Tensor, y: torch.Tensor) -> Prepared | None:
        dx = _like(y, dtype)
        fields = dimension_of({"dy": dy, "y": y, "dx": dx})
        if fields is None or (causal and "inner" in fields):
            return None
        fields.update(dtype=DTYPES[y.dtype], out_dtype=DTYPES[dtype], scale=float(scale), causal=causal, safe=safe)
        return launch(op, fields, {"dy": dy, "y": y}, {"dx": dx})

    return launcher(op, prepare)


def _softmax_kernel(x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype) -> Any:
    return _call(_forward(logarithm, scale, causal, safe, dtype), x)


def _call(run: Launcher, *tensors: torch.Tensor) -> Any:
    """Call a launcher, again with contiguous copies if need be; the result has the strides of the last tensor if dense."""
    result = run(*tensors)
    if result is NotImplemented:
        result = call(run, *tensors)
        result = with_strides(result, _like(tensors[-1], result.dtype).stride())
    return result


def _softmax_backward_kernel(
    dy: torch.Tensor, y: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype
) -> Any:
    return _call(_backward(logarithm, scale, causal, safe, dtype), dy.to(y.dtype), y)


def _softmax_out_kernel(x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, out: torch.Tensor) -> None:
    run = _forward_into(logarithm, scale, causal, safe)
    if run(x, out) is NotImplemented and run(x.contiguous(), out) is NotImplemented:
        out.copy_(call(_forward(logarithm, scale, causal, safe, out.dtype), x))
    elif not out.is_inference():
        increment_version(out)  # torch's dispatcher does not


class _Softmax(torch.autograd.Function):
    """The eager path with autograd: the launcher without the dispatcher."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, logarithm: bool, scale: float, causal: bool, safe: bool, dtype: torch.dtype
    ) -> Any:
        y = _call(_forward(logarithm, scale, causal, safe, dtype), x)
        ctx.save_for_backward(y)
        ctx.options = (logarithm, scale, causal, safe, x.dtype)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        backward = _transformed_backward if is_transformed() else torch.ops.tunesmith.softmax_backward
        return backward(dy, y, *ctx.options), None, None, None, None, None


def _setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    x, *options, _ = inputs
    ctx.save_for_backward(output)
    ctx.save_for_forward(output)
    ctx.options = (*options, x.dtype)


def _gradient(ctx: Any, dy: torch.Tensor) -> Any:
    return _Softmax.backward(ctx, dy)


def _jvp(ctx: Any, dx: torch.Tensor, *_: Any) -> torch.Tensor:
    (y,) = ctx.saved_tensors
    logarithm, scale = _options_with_derivatives(ctx)
    return (scale * _change(_probabilities(y, logarithm), wide(dx), logarithm)).to(y.dtype)


def _options_with_derivatives(ctx: Any) -> tuple[bool, float]:
    """Return logarithm and scale. Raises NotImplementedError for options without the derivatives of PyTorch's operations."""
    logarithm, scale, causal, *_ = ctx.options
    if logarithm and causal:
        raise NotImplementedError("tunesmith: causal log_softmax has neither second nor forward-mode derivatives")
    return logarithm, scale


def _probabilities(y: torch.Tensor, logarithm: bool) -> torch.Tensor:
    return wide(y).exp() if logarithm else wide(y)


def _change(p: torch.Tensor, dx: torch.Tensor, logarithm: bool) -> torch.Tensor:
    """Return the change of y for a change of x, without the scale."""
    centered = dx - (p * dx).sum(-1, keepdim=True)
    return centered if logarithm else p * centered


def _setup_backward(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    dy, y, *options = inputs
    ctx.save_for_backward(dy, y)
    ctx.save_for_forward(dy, y)
    ctx.options = tuple(options)


def _double_backward(ctx: Any, gradient: torch.Tensor) -> Any:
    """Return the derivatives of dx = scale * (dy - p sum(dy)), or scale * y (dy - sum(y dy)), with respect to dy and y."""
    dy, y = ctx.saved_tensors
    logarithm, scale = _options_with_derivatives(ctx)
    g, wide_dy, p = wide(gradient), wide(dy), _probabilities(y, logarithm)
    by_dy = _change(p, g, logarithm)
    if logarithm:
        by_y = -p * g * wide_dy.sum(-1, keepdim=True)
    else:
        by_y = g * (wide_dy - (p * wide_dy).sum(-1, keepdim=True)) - wide_dy * (g * p).sum(-1, keepdim=True)
    return (scale * by_dy).to(dy.dtype), (scale * by_y).to(y.dtype), *[None] * len(ctx.options)


def _jvp_of_backward(ctx: Any, ddy: torch.Tensor | None, dy_of_y: torch.Tensor | None, *_: Any) -> torch.Tensor:
    """Return the change of dx for changes of dy and of y."""
    dy, y = ctx.saved_tensors
    logarithm, scale = _options_with_derivatives(ctx)
    wide_dy, p = wide(dy), _probabilities(y, logarithm)
    result = torch.zeros_like(p)
    if ddy is not None:
        change = wide(ddy)
        result = change - p * change.sum(-1, keepdim=True) if logarithm else _change(p, change, logarithm)
    if dy_of_y is not None:
        change = wide(dy_of_y)
        if logarithm:
            result = result - p * change * wide_dy.sum(-1, keepdim=True)
        else:
            centered = wide_dy - (p * wide_dy).sum(-1, keepdim=True)
            result = result + change * centered - p * (change * wide_dy).sum(-1, keepdim=True)
    return (scale * result).to(ctx.options[-1])


_transformed = transformable(torch.ops.tunesmith.softmax, _setup_context, _gradient, vmap=True, jvp=_jvp)
_transformed_backward = transformable(
    torch.ops.tunesmith.softmax_backward, _setup_backward, _double_backward, vmap=True, jvp=_jvp_of_backward
)

for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("softmax", _softmax_kernel, _key)
    _LIBRARY.impl("softmax_backward", _softmax_backward_kernel, _key)
    _LIBRARY.impl("softmax_out", _softmax_out_kernel, _key)
register_fake("softmax", lambda x, *options: torch.empty_like(x, dtype=options[-1]))
register_fake("softmax_backward", lambda dy, y, *options: torch.empty_like(y, dtype=options[-1]))
register_fake("softmax_out", lambda x, *options: None)
torch.library.register_autograd("tunesmith::softmax", _gradient, setup_context=_setup_context)
torch.library.register_autograd("tunesmith::softmax_backward", _double_backward, setup_context=_setup_backward)


@torch.library.register_vmap("tunesmith::softmax")
def _(info: Any, in_dims: Any, x: torch.Tensor, *options: Any) -> Any:
    return torch.ops.tunesmith.softmax(x.movedim(in_dims[0], 0), *options), 0


@torch.library.register_vmap("tunesmith::softmax_backward")
def _(info: Any, in_dims: Any, dy: torch.Tensor, y: torch.Tensor, *options: Any) -> Any:
    size = info.batch_size
    dy = dy.expand(size, *dy.shape) if in_dims[0] is None else dy.movedim(in_dims[0], 0)
    y = y.expand(size, *y.shape) if in_dims[1] is None else y.movedim(in_dims[1], 0)
    return torch.ops.tunesmith.softmax_backward(dy, y, *options), 0
