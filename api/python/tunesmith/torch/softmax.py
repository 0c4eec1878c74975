"""softmax and log_softmax."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .dtypes import DTYPES, wide
from .launchers import Gradient, Launcher, by_options, call, eager_launcher, increment_version, launcher
from .layouts import dimension_of
from .operators import Named, register_fake
from .row_operators import RowOperator
from .transforms import autocast_dtype, is_compiling, is_transformed, needs_grad

__all__ = ["log_softmax", "softmax"]


class _Softmax(RowOperator):
    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        fields = super().fields(tensors, structure)
        if fields is None or (structure.get("causal") and "inner" in fields):  # the diagonal counts rows in their own order
            return None
        x, y = tensors.get("x"), tensors.get("y")
        if x is not None and y is not None:
            fields["in_place"] = x.numel() > 0 and x.data_ptr() == y.data_ptr()
        return fields


def _layout(tensors: Named) -> dict[str, Any] | None:
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if not next(iter(given.values())).dim():
        return None
    written, like = ("y", "x") if "x" in given else ("dx", "y")
    given.setdefault(written, torch.empty_like(given[like], device="meta"))
    return dimension_of(given)


_NAMES = ("softmax", "log_softmax")
FORWARD = {name: _Softmax(name, also=["out_dtype"], layout=_layout, like="x", results=["y"]) for name in _NAMES}
BACKWARD = {
    name: _Softmax(f"{name}_backward", also=["out_dtype"], layout=_layout, like="y", results=["dx"]) for name in _NAMES
}
_OUT = "Tensor x, float scale, bool causal, bool safe, Tensor(a!) out"
_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")


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

    dtype: of the result; default the input's, and float32 under autocast. Computed in float32, in float64 if the input
    or the result is of it.
    causal: mask columns after the diagonal of square matrices. safe: fully masked rows give zeros instead of NaN.
    out: a tensor to write to, may be the input; not with autograd.
    """
    if dtype is not None:
        input = _in_precision_of(input, dtype)
    if (dim == -1 or dim == input.dim() - 1) and not is_compiling():
        if out is None:
            plain = dtype is None and scale == 1.0 and not (causal or safe)
            result = (_plain["softmax"] if plain else _eager("softmax", scale, causal, safe, dtype))(input)
            if result is not NotImplemented:
                return result
        elif _eager_into("softmax", scale, causal, safe)(input, out) is None:
            return out
    return _run("softmax", input, dim, dtype, scale, causal, safe, out)


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
            result = (_plain["log_softmax"] if plain else _eager("log_softmax", scale, causal, safe, dtype))(input)
            if result is not NotImplemented:
                return result
        elif _eager_into("log_softmax", scale, causal, safe)(input, out) is None:
            return out
    return _run("log_softmax", input, dim, dtype, scale, causal, safe, out)


def _in_precision_of(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return x, converted if one dtype is float64 and the other is not, as torch.softmax does."""
    return x.to(dtype) if (x.dtype == torch.float64) != (dtype == torch.float64) else x


def _run(
    name: str,
    x: torch.Tensor,
    dim: int,
    dtype: torch.dtype | None,
    scale: float,
    causal: bool,
    safe: bool,
    out: torch.Tensor | None,
) -> torch.Tensor:
    scale = float(scale)
    if x.dim() == 0:
        raise ValueError("input has no dimensions; expected at least 1")
    if out is not None and (out.shape != x.shape or out.device != x.device):
        raise ValueError(f"out has the shape {tuple(out.shape)} on {out.device}; expected {tuple(x.shape)} on {x.device}")
    if dim != -1 and dim != x.dim() - 1:
        function = softmax if name == "softmax" else log_softmax
        last = None if out is None else out.movedim(dim, -1)
        result = function(x.movedim(dim, -1), dtype=dtype, scale=scale, causal=causal, safe=safe, out=last)
        return result.movedim(-1, dim) if out is None else out
    if out is not None:
        if needs_grad(x, out):
            raise RuntimeError("out does not support automatic differentiation, but one of the arguments requires grad")
        getattr(torch.ops.tunesmith, f"{name}_out")(x, scale, causal, safe, out)
        return out
    if dtype is None:
        dtype = x.dtype if x.dtype == torch.float64 or autocast_dtype(x) is None else torch.float32
    return FORWARD[name]({"x": x}, _values(name, scale, causal, safe, dtype))


def _values(name: str, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> tuple[Any, ...]:
    out_dtype = None if dtype is None else DTYPES[dtype]
    return FORWARD[name].values(out_dtype=out_dtype, scale=float(scale), causal=causal, safe=safe)


@by_options
def _eager(name: str, scale: float, causal: bool, safe: bool, dtype: torch.dtype | None) -> Launcher:
    values = _values(name, scale, causal, safe, dtype)

    backward, known = BACKWARD[name].overload, functools.cache(functools.partial(_values, name, scale, causal, safe))

    def gradient(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return backward(dy.to(y.dtype), y, *known(y.dtype))

    prepare = FORWARD[name].prepare(values)
    if dtype is not None:  # the gradient has the dtype of the input, which is not known here
        return eager_launcher(name, prepare)
    return eager_launcher(name, prepare, not_in_autocast=True, gradient=Gradient(1, 1, (1,), gradient))


def _first_plain(name: str) -> Launcher:
    def run(x: torch.Tensor) -> Any:
        _plain[name] = _eager(name, 1.0, False, False, None)
        return _plain[name](x)

    return run


#: The launchers of softmax and log_softmax without options, which save the look-up.
_plain = {name: _first_plain(name) for name in _NAMES}


def _prepare_into(name: str, scale: float, causal: bool, safe: bool) -> Any:
    return FORWARD[name].prepare(_values(name, scale, causal, safe, None), ("x", "y"))


@by_options
def _forward_into(*options: Any) -> Launcher:
    return launcher(options[0], _prepare_into(*options))


@by_options
def _eager_into(*options: Any) -> Launcher:
    return eager_launcher(options[0], _prepare_into(*options), writes_last=True)


def _out_kernel(name: str, x: torch.Tensor, scale: float, causal: bool, safe: bool, out: torch.Tensor) -> None:
    run = _forward_into(name, scale, causal, safe)
    if run(x, out) is NotImplemented and run(x.contiguous(), out) is NotImplemented:
        out.copy_(call(FORWARD[name].launcher(*_values(name, scale, causal, safe, out.dtype)), x))
    elif not out.is_inference():
        increment_version(out)  # torch's dispatcher does not


def _setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    x, *options = inputs
    ctx.save_for_backward(output)
    ctx.save_for_forward(output)
    ctx.options = {**dict(zip(FORWARD["softmax"].options, options, strict=True)), "out_dtype": DTYPES[x.dtype]}


def _gradient(name: str, ctx: Any, dy: torch.Tensor) -> Any:
    (y,) = ctx.saved_tensors
    backward = BACKWARD[name].transformed if is_transformed() else BACKWARD[name].overload
    return backward(dy.to(y.dtype), y, *BACKWARD[name].values(**ctx.options)), *[None] * len(ctx.options)


def _jvp(name: str, ctx: Any, dx: torch.Tensor, *_: Any) -> torch.Tensor:
    (y,) = ctx.saved_tensors
    scale, logarithm = _scale_with_derivatives(name, ctx), name == "log_softmax"
    return (scale * _change(_probabilities(y, logarithm), wide(dx), logarithm)).to(y.dtype)


def _scale_with_derivatives(name: str, ctx: Any) -> float:
    """Return the scale. Raises NotImplementedError for options without the derivatives of PyTorch's operations."""
    if name == "log_softmax" and ctx.options["causal"]:
        raise NotImplementedError("tunesmith: causal log_softmax has neither second nor forward-mode derivatives")
    return ctx.options["scale"]


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
    ctx.options = dict(zip(BACKWARD["softmax"].options, options, strict=True))
    ctx.dtype = output.dtype


def _double_backward(name: str, ctx: Any, gradient: torch.Tensor) -> Any:
    """Return the derivatives of dx = scale * (dy - p sum(dy)), or scale * y (dy - sum(y dy)), with respect to dy and y."""
    dy, y = ctx.saved_tensors
    scale, logarithm = _scale_with_derivatives(name, ctx), name == "log_softmax"
    g, wide_dy, p = wide(gradient), wide(dy), _probabilities(y, logarithm)
    by_dy = _change(p, g, logarithm)
    if logarithm:
        by_y = -p * g * wide_dy.sum(-1, keepdim=True)
    else:
        by_y = g * (wide_dy - (p * wide_dy).sum(-1, keepdim=True)) - wide_dy * (g * p).sum(-1, keepdim=True)
    return (scale * by_dy).to(dy.dtype), (scale * by_y).to(y.dtype), *[None] * len(ctx.options)


def _jvp_of_backward(name: str, ctx: Any, ddy: torch.Tensor | None, dy_of_y: torch.Tensor | None, *_: Any) -> torch.Tensor:
    """Return the change of dx for changes of dy and of y."""
    dy, y = ctx.saved_tensors
    scale, logarithm = _scale_with_derivatives(name, ctx), name == "log_softmax"
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
    return (scale * result).to(ctx.dtype)


for _name in _NAMES:
    FORWARD[_name].differentiable(_setup_context, functools.partial(_gradient, _name), functools.partial(_jvp, _name))
    BACKWARD[_name].differentiable(
        _setup_backward, functools.partial(_double_backward, _name), functools.partial(_jvp_of_backward, _name)
    )
    _LIBRARY.define(f"{_name}_out({_OUT}) -> ()")
    for _key in ("CPU", "CUDA"):
        _LIBRARY.impl(f"{_name}_out", functools.partial(_out_kernel, _name), _key)
    register_fake(f"{_name}_out", lambda *_: None)
