"""rms_norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..row_programs import rms_norm_gradient
from .dtypes import DTYPES, wide
from .launchers import Gradient, Launcher, by_options, eager_launcher
from .layouts import rows_of
from .operators import Named
from .row_operators import RowOperator
from .texts import one_line
from .transforms import autocast_dtype, is_compiling, is_transformed

__all__ = ["rms_norm"]


def _layout(tensors: Named) -> dict[str, Any] | None:
    x = tensors["x"]
    assert x is not None
    layout = rows_of(x)
    return None if layout is None else dict(zip(("rows", "cols", "x_row_stride"), layout, strict=True))


FORWARD = RowOperator("rms_norm", layout=_layout, like="x", packed=True, results=["y"])


def rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int] | None = None,
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    weight_offset: float = 0.0,
) -> torch.Tensor:
    """input / sqrt(mean(input^2) + eps) * (weight + weight_offset) over the last dimension, as torch's rms_norm.

    normalized_shape: the last dimension alone. weight: in the input's dtype or float32. eps: default the machine epsilon
    of the input's dtype, as torch. Under autocast, the input is cast to float32, and float64 stays, as torch does. The
    gradient is the row program rms_norm_gradient, or a variant for another offset or dtype of the weight.
    """
    if normalized_shape is not None and tuple(normalized_shape) != tuple(input.shape[-1:]):
        raise NotImplementedError(f"normalized_shape is {tuple(normalized_shape)}; allowed: {tuple(input.shape[-1:])}")
    if weight is None and weight_offset:
        raise ValueError(f"weight_offset is {weight_offset}; allowed: only with a weight")
    given = eps
    if eps is None:
        eps = torch.finfo(input.dtype).eps
    if not is_compiling():
        result = _eager(eps, weight_offset)(input, weight)
        if result is not NotImplemented:
            return result
    eps, weight_offset = float(eps), float(weight_offset)
    if autocast_dtype(input) is not None and (wide(input) is not input or not _fits(weight, input)):
        weight = None if weight is None else weight.float()
        return rms_norm(wide(input), normalized_shape, weight, given, weight_offset=weight_offset)
    return FORWARD({"x": input, "weight": weight}, (eps, weight_offset))


def _fits(weight: torch.Tensor | None, x: torch.Tensor) -> bool:
    return weight is None or weight.dtype in (torch.float32, x.dtype)


@by_options
def _eager(eps: float, weight_offset: float) -> Launcher:
    def gradient(x: torch.Tensor, weight: torch.Tensor | None, dy: torch.Tensor) -> Any:
        return _gradients(x, weight, dy, eps, weight_offset, weight is not None and weight.requires_grad)

    recording = Gradient(2, 1, (0, 1), gradient)
    return eager_launcher(
        "rms_norm", FORWARD.prepare((float(eps), float(weight_offset))), not_in_autocast=True, gradient=recording
    )


def _gradients(
    x: torch.Tensor, weight: torch.Tensor | None, dy: torch.Tensor, eps: float, weight_offset: float, wanted: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the gradient of the input and, if `wanted`, of the weight."""
    may_differentiate = not torch.compiler.is_compiling() and (torch.is_grad_enabled() or is_transformed())
    if may_differentiate or not x.numel():
        return _differentiable_gradients(x, weight, dy, eps, weight_offset, wanted)
    cols = x.shape[-1]
    kinds = (None if weight is None else "float" if weight.dtype == x.dtype else DTYPES[weight.dtype], weight_offset != 0)
    text = one_line(rms_norm_gradient(*kinds, wanted))
    numbers = f"eps={float(eps)!r}" + (f";offset={float(weight_offset)!r}" if weight_offset else "")
    rows = [x.reshape(-1, cols), *([] if weight is None else [weight]), dy.to(x.dtype).reshape(-1, cols)]
    dx, *dweight = torch.ops.tunesmith.row_program(rows, text, numbers)
    return dx.reshape(x.shape), dweight[0] if dweight else None


def _differentiable_gradients(
    x: torch.Tensor, weight: torch.Tensor | None, dy: torch.Tensor, eps: float, weight_offset: float, wanted: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return what _gradients() does, by operations of PyTorch, for second derivatives."""
    upstream = wide(dy)
    rstd = torch.rsqrt(wide(x).square().mean(dim=-1, keepdim=True) + eps)
    normalized = wide(x) * rstd
    dweight = None
    scaled = upstream
    if weight is not None:
        scaled = upstream * (wide(weight) + weight_offset)
        if wanted:
            dweight = (upstream * normalized).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
    dx = rstd * (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True))
    return dx.to(x.dtype), dweight


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, ctx.eps, ctx.weight_offset = inputs
    ctx.save_for_backward(x, weight)
    ctx.save_for_forward(x, weight)


def _gradient(ctx: Any, dy: torch.Tensor) -> Any:
    x, weight = ctx.saved_tensors
    return *_gradients(x, weight, dy, ctx.eps, ctx.weight_offset, ctx.needs_input_grad[1]), None, None


def _jvp(ctx: Any, dx: torch.Tensor | None, dweight: torch.Tensor | None, *_: Any) -> Any:
    x, weight = ctx.saved_tensors
    rstd = torch.rsqrt(wide(x).square().mean(dim=-1, keepdim=True) + ctx.eps)
    normalized = wide(x) * rstd
    dy = torch.zeros_like(normalized)
    if dx is not None:
        scaled = rstd * wide(dx)
        dy = scaled - normalized * (normalized * scaled).mean(dim=-1, keepdim=True)
        if weight is not None:
            dy = dy * (wide(weight) + ctx.weight_offset)
    if dweight is not None:
        dy = dy + normalized * wide(dweight)
    return dy.to(x.dtype)


FORWARD.differentiable(_setup_context, _gradient, _jvp)
