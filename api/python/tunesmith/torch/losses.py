"""cross_entropy."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .launching import (
    DTYPES,
    Gradient,
    Launcher,
    Prepared,
    call,
    eager_launcher,
    is_compiling,
    is_eager,
    is_transformed,
    launch,
    launcher,
    needs_grad,
    rows_of,
    transformable,
)

__all__ = ["cross_entropy"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
OPTIONS = "str reduction, int ignore_index, float label_smoothing, float z_loss, float softcap, float scale"
_LIBRARY.define(f"cross_entropy(Tensor logits, Tensor target, Tensor? weight, {OPTIONS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    "cross_entropy_backward(Tensor logits, Tensor target, Tensor lse, Tensor dloss, Tensor? dlse, Tensor? weight, "
    f"{OPTIONS}) -> Tensor"
)


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of logits (N, C), (C,) or (N, C, d1, ...) and class indices, as torch's cross_entropy.

    The loss is float32 for every dtype of the logits. z_loss: factor of lse^2. softcap: logits become
    softcap * tanh(scale * logits / softcap); 0: none. return_lse: also return the log of the sum of exponentials of each
    row, float32 in the shape of target; gradients flow through it. Class probabilities as targets raise
    NotImplementedError.
    """
    options = (reduction, ignore_index, label_smoothing, z_loss, softcap, scale)
    if not is_compiling():
        result = _eager(return_lse, *options)(input, target, weight)
        if result is not NotImplemented:
            return result
    if target.is_floating_point():
        raise NotImplementedError("target holds class probabilities; expected class indices")
    shape = target.shape
    if input.dim() > 2:
        input = input.movedim(1, -1)
    if input.shape[:-1] != shape:
        raise ValueError(f"target has the shape {tuple(shape)}; expected {tuple(input.shape[:-1])}")
    if input.dim() != 2:
        input, target = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    weight = weight if weight is None or weight.dtype == torch.float32 else weight.float()
    if is_transformed():
        loss, lse = _transformed(input, target, weight, *options)
    elif needs_grad(input) and is_eager(input, target):
        loss, lse = _CrossEntropy.apply(input, target, weight, *options)
    else:
        loss, lse = torch.ops.tunesmith.cross_entropy(input, target, weight, *options)
    if reduction == "none":
        loss = loss.reshape(shape)
    return (loss, lse.reshape(shape)) if return_lse else loss


def option_fields(
    reduction: str, ignore_index: int, label_smoothing: float, z_loss: float, softcap: float, scale: float
) -> dict[str, Any]:
    """Return the fields of OPTIONS."""
    return {
        "reduction": reduction,
        "ignore_index": ignore_index,
        "label_smoothing": float(label_smoothing),
        "z_loss": float(z_loss),
        "softcap": float(softcap),
        "scale": float(scale),
    }


def loss_shape(reduction: str, rows: int) -> tuple[int, ...]:
    return (rows,) if reduction == "none" else ()


def row_fields(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    layout: tuple[int, int, int],
    options: tuple[Any, ...],
) -> dict[str, Any]:
    """Return the fields of cross_entropy and of its gradient; layout has rows, columns and the stride of rows."""
    rows, cols, stride = layout
    return {
        "rows": rows,
        "cols": cols,
        "dtype": DTYPES[logits.dtype],
        "target_dtype": DTYPES[target.dtype],
        "logits_row_stride": stride,
        "weight": weight is not None,
        **option_fields(*options),
    }


def _prepare(*options: Any) -> Any:
    def prepare(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None) -> Prepared | None:
        if logits.dim() != 2 or target.shape != logits.shape[:1] or target.is_floating_point():
            return None
        layout = rows_of(logits)
        if layout is None or not target.is_contiguous():
            return None
        if weight is not None and (weight.dtype != torch.float32 or not weight.is_contiguous()):
            return None
        rows = layout[0]
        fields = row_fields(logits, target, weight, layout, options)
        outputs = {"loss": (loss_shape(options[0], rows), torch.float32), "lse": ((rows,), torch.float32)}
        if options[3]:
            outputs["z_loss"] = (loss_shape(options[0], rows), torch.float32)
        return launch("cross_entropy", fields, {"logits": logits, "targets": target, "weight": weight}, outputs)

    return prepare


@functools.cache
def _forward(*options: Any) -> Launcher:
    return launcher("cross_entropy", _prepare(*options))


@functools.cache
def _eager(return_lse: bool, *options: Any) -> Launcher:
    def gradient(
        logits: torch.Tensor,
        target: torch.Tensor,
        lse: torch.Tensor,
        weight: torch.Tensor | None,
        dloss: torch.Tensor | None,
        dlse: torch.Tensor | None,
    ) -> torch.Tensor:
        if dloss is None:  # lse alone was used
            dloss = lse.new_zeros(loss_shape(options[0], lse.shape[0]))
        return torch.ops.tunesmith.cross_entropy_backward(logits, target, lse, dloss, dlse, weight, *options)

    recording = Gradient(1, 2, (0, 1, 4, 2), gradient)
    return eager_launcher("cross_entropy", _prepare(*options), returned=2 if return_lse else 1, gradient=recording)


@functools.cache
def _backward(*options: Any) -> Launcher:
    def prepare(
        logits: torch.Tensor,
        target: torch.Tensor,
        lse: torch.Tensor,
        dloss: torch.Tensor,
        dlse: torch.Tensor | None,
        weight: torch.Tensor | None,
    ) -> Prepared | None:
        layout = rows_of(logits)
        if layout is None or not (target.is_contiguous() and dloss.is_contiguous()):
            return None
        if dlse is not None and not dlse.is_contiguous():
            return None
        fields = row_fields(logits, target, weight, layout, options)
        fields["dlse"] = dlse is not None
        tensors = {"logits": logits, "targets": target, "lse": lse, "dloss": dloss, "dlse": dlse, "weight": weight}
        return launch("cross_entropy_backward", fields, tensors, {"dlogits": (logits.shape, logits.dtype)})

    return launcher("cross_entropy_backward", prepare)


class _CrossEntropy(torch.autograd.Function):
    """The eager path with autograd: the launcher without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
        loss, lse = call(_forward(*options), logits, target, weight)[:2]
        ctx.save_for_backward(logits, target, lse, weight)
        ctx.set_materialize_grads(False)
        ctx.options = options
        return loss, lse

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None) -> Any:
        logits, target, lse, weight = ctx.saved_tensors
        if dloss is None:  # lse alone was used
            dloss = lse.new_zeros(loss_shape(ctx.options[0], lse.shape[0]))
        backward = _transformed_backward if is_transformed() else torch.ops.tunesmith.cross_entropy_backward
        gradient = backward(logits, target, lse, dloss, dlse, weight, *ctx.options)
        return gradient, *[None] * (2 + len(ctx.options))


def _cross_entropy_kernel(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
    return tuple(call(_forward(*options), logits, target, weight)[:2])


def _cross_entropy_fake(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
    rows = logits.shape[0]
    return (
        logits.new_empty(loss_shape(options[0], rows), dtype=torch.float32),
        logits.new_empty((rows,), dtype=torch.float32),
    )


def _cross_entropy_backward_kernel(
    logits: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    dloss: torch.Tensor,
    dlse: torch.Tensor | None,
    weight: torch.Tensor | None,
    *options: Any,
) -> Any:
    return call(_backward(*options), logits, target, lse, dloss.contiguous(), dlse, weight)


def _cross_entropy_context(ctx: Any, inputs: Any, output: Any) -> None:
    logits, target, weight, *options = inputs
    ctx.save_for_backward(logits, target, output[1], weight)
    ctx.options = tuple(options)
    ctx.set_materialize_grads(False)


def _cross_entropy_gradient(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None) -> Any:
    return _CrossEntropy.backward(ctx, dloss, dlse)


_transformed = transformable(torch.ops.tunesmith.cross_entropy, _cross_entropy_context, _cross_entropy_gradient)


def _no_second_derivative(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError("tunesmith: cross_entropy has no second derivative")


def _no_context(*_: Any, **__: Any) -> None:
    pass


_transformed_backward = transformable(torch.ops.tunesmith.cross_entropy_backward, _no_context, _no_second_derivative)

for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("cross_entropy", _cross_entropy_kernel, _key)
    _LIBRARY.impl("cross_entropy_backward", _cross_entropy_backward_kernel, _key)
torch.library.register_fake("tunesmith::cross_entropy", _cross_entropy_fake)
torch.library.register_fake("tunesmith::cross_entropy_backward", lambda logits, *_: logits.new_empty(logits.shape))
torch.library.register_autograd("tunesmith::cross_entropy", _cross_entropy_gradient, setup_context=_cross_entropy_context)
torch.library.register_autograd("tunesmith::cross_entropy_backward", _no_second_derivative, setup_context=_no_context)
