"""rms_norm."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .launching import (
    DTYPES,
    Gradient,
    Launcher,
    Prepared,
    autocast_dtype,
    call,
    eager_launcher,
    is_compiling,
    is_transformed,
    launch,
    launcher,
    register_fake,
    transformable,
    wide,
    wide_dtype,
)
from .layouts import rows_of

__all__ = ["rms_norm"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_LIBRARY.define("rms_norm(Tensor x, Tensor? weight, float eps, float weight_offset) -> (Tensor, Tensor)")


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
    gradient is computed by PyTorch's operations from the saved 1 / rms.
    """
    if normalized_shape is not None and tuple(normalized_shape) != tuple(input.shape[-1:]):
        raise NotImplementedError(f"normalized_shape is {tuple(normalized_shape)}; allowed: {tuple(input.shape[-1:])}")
    if weight is None and weight_offset:
        raise ValueError(f"weight_offset is {weight_offset}; allowed: only with a weight")
    given = eps
    if eps is None:
        eps = torch.finfo(input.dtype).eps
    if not is_compiling():
        recorded = torch.is_grad_enabled() and (input.requires_grad or (weight is not None and weight.requires_grad))
        result = _eager(eps, weight_offset, recorded)(input, weight)
        if result is not NotImplemented:
            return result
    if autocast_dtype(input) is not None and (wide(input) is not input or not _fits(weight, input)):
        weight = None if weight is None else weight.float()
        return rms_norm(wide(input), normalized_shape, weight, given, weight_offset=weight_offset)
    if is_transformed():
        return _transformed(input, weight, eps, weight_offset)[0]
    return torch.ops.tunesmith.rms_norm(input, weight, eps, weight_offset)[0]


def _fits(weight: torch.Tensor | None, x: torch.Tensor) -> bool:
    return weight is None or weight.dtype in (torch.float32, x.dtype)


def _prepare(eps: float, weight_offset: float, rstd: bool) -> Any:
    def prepare(x: torch.Tensor, weight: torch.Tensor | None) -> Prepared | None:
        layout = rows_of(x)
        if layout is None or (weight is not None and not weight.is_contiguous()):
            return None
        rows, cols, stride = layout
        fields: dict[str, Any] = {
            "rows": rows,
            "cols": cols,
            "dtype": DTYPES[x.dtype],
            "x_row_stride": stride,
            "eps": float(eps),
            "weight": weight is not None,
            "rstd": rstd,
        }
        if weight is not None:
            fields.update(weight_dtype=DTYPES[weight.dtype], weight_offset=float(weight_offset))
        outputs: dict[str, tuple[Sequence[int], torch.dtype]] = {"y": (x.shape, x.dtype)}
        if rstd:
            outputs["rstd"] = ((*x.shape[:-1], 1), wide_dtype(x))
        return launch("rms_norm", fields, {"x": x, "weight": weight}, outputs)

    return prepare


@functools.cache
def _forward(eps: float, weight_offset: float) -> Launcher:
    return launcher("rms_norm", _prepare(eps, weight_offset, True))


@functools.cache
def _eager(eps: float, weight_offset: float, recorded: bool) -> Launcher:
    def gradient(x: torch.Tensor, weight: torch.Tensor | None, rstd: torch.Tensor, dy: torch.Tensor) -> Any:
        return _gradients(x, weight, rstd, dy, eps, weight_offset, weight is not None and weight.requires_grad)

    prepare = _prepare(eps, weight_offset, recorded)  # 1 / rms is stored for the gradient
    recording = Gradient(2, 1, (0, 1, 3), gradient) if recorded else None
    return eager_launcher("rms_norm", prepare, not_in_autocast=True, returned=1, gradient=recording)


def _kernel(x: torch.Tensor, weight: torch.Tensor | None, eps: float, weight_offset: float) -> Any:
    return call(_forward(eps, weight_offset), x, weight)


def _fake(x: torch.Tensor, weight: torch.Tensor | None, eps: float, weight_offset: float) -> Any:
    return x.new_empty(x.shape), x.new_empty((*x.shape[:-1], 1), dtype=wide_dtype(x))


def _gradients(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    eps: float,
    weight_offset: float,
    wanted: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the gradient of the input and, if `wanted`, of the weight."""
    upstream = wide(dy)
    if torch.is_grad_enabled() or is_transformed():  # for a second derivative, 1 / rms is a function of the input
        rstd = torch.rsqrt(wide(x).square().mean(dim=-1, keepdim=True) + eps)
    normalized = wide(x) * rstd
    dweight = None
    scaled = upstream
    if weight is not None:
        scaled = upstream * (wide(weight) + weight_offset)
        if wanted:
            dweight = (upstream * normalized).sum(dim=tuple(range(x.dim() - 1))).to(weight.dtype)
    dx = rstd * (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True))
    return dx.to(x.dtype), dweight


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, ctx.eps, ctx.weight_offset = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.save_for_forward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, dy: torch.Tensor, _: Any) -> Any:
    x, weight, rstd = ctx.saved_tensors
    wanted = ctx.needs_input_grad[1]
    return *_gradients(x, weight, rstd, dy, ctx.eps, ctx.weight_offset, wanted), None, None


def _jvp(ctx: Any, dx: torch.Tensor | None, dweight: torch.Tensor | None, *_: Any) -> Any:
    x, weight, rstd = ctx.saved_tensors
    normalized = wide(x) * rstd
    dy = torch.zeros_like(normalized)
    if dx is not None:
        scaled = rstd * wide(dx)
        dy = scaled - normalized * (normalized * scaled).mean(dim=-1, keepdim=True)
        if weight is not None:
            dy = dy * (wide(weight) + ctx.weight_offset)
    if dweight is not None:
        dy = dy + normalized * wide(dweight)
    return dy.to(x.dtype), None


_transformed = transformable(torch.ops.tunesmith.rms_norm, _setup_context, _gradient, vmap=True, jvp=_jvp)


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("rms_norm", _kernel, _key)
register_fake("rms_norm", _fake)
torch.library.register_autograd("tunesmith::rms_norm", _gradient, setup_context=_setup_context)
