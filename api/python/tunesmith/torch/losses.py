"""cross_entropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .launching import (
    DTYPES,
    Gradient,
    Launcher,
    Prepared,
    by_options,
    call,
    eager_launcher,
    index_dtype,
    is_compiling,
    is_eager,
    is_transformed,
    launch,
    launcher,
    needs_grad,
    no_context,
    no_second_derivative,
    register_fake,
    reject_gradients,
    transformable,
    wide,
    wide_dtype,
)
from .layouts import classes_of, with_strides
from .soft_targets import soft_cross_entropy

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
    """Cross-entropy of logits (C,), (N, C) or (N, C, d1, ...), as torch's cross_entropy. No layout of logits takes a copy.

    target: class indices in the shape of the logits without C, or class probabilities in their shape. The loss is float32,
    or float64 for float64 logits, which pass torch.autograd.gradcheck; class probabilities do not take float64 logits.
    z_loss: factor of lse^2. softcap: logits become softcap * tanh(scale * logits / softcap); 0: none. return_lse: also
    return the log of the sum of exponentials, of the loss's dtype and in the shape of the logits without C; gradients flow
    through it. Class probabilities have gradients, too; their logits are copied unless C is the last dimension.
    """
    options = (reduction, ignore_index, label_smoothing, z_loss, softcap, scale)
    logits = input if input.dim() <= 2 else input.movedim(1, -1)
    if not is_compiling():
        result = _eager(return_lse, *options)(logits, target, weight)
        if result is not NotImplemented:
            return result
    if input.dim() == 0:
        raise ValueError("input has no dimensions; expected at least 1")
    reject_gradients("cross_entropy", weight=weight)
    options = (reduction, ignore_index, float(label_smoothing), float(z_loss), float(softcap), float(scale))
    weight = weight if weight is None else weight.to(wide_dtype(input))
    if logits.shape[-1] == 0:
        return _without_classes(input, target, weight, return_lse, *options)
    if target.is_floating_point():
        if target.shape != input.shape:
            raise ValueError(f"target has the shape {tuple(target.shape)}; expected that of input, {tuple(input.shape)}")
        if ignore_index >= 0:
            raise ValueError(f"ignore_index is {ignore_index}; expected no class with class probabilities")
        target = target if input.dim() <= 2 else target.movedim(1, -1)
        loss, lse = soft_cross_entropy(logits, target, weight, reduction, *options[2:])
        return (loss, lse) if return_lse else loss
    if logits.shape[:-1] != target.shape:
        raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(logits.shape[:-1])}")
    if is_transformed():
        loss, lse = _transformed(logits, target, weight, *options)
    elif needs_grad(logits) and is_eager(logits, target):
        loss, lse = _CrossEntropy.apply(logits, target, weight, *options)
    else:
        loss, lse = torch.ops.tunesmith.cross_entropy(logits, target, weight, *options)
    return (loss, lse) if return_lse else loss


def _without_classes(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, return_lse: bool, *options: Any
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return what torch defines for logits of no class; its errors name targets that are none."""
    reduction, ignore_index, label_smoothing, *_ = options
    logits, given = wide(input), target
    shape = input.shape[:1] + input.shape[2:] if input.dim() > 1 else torch.Size()
    if not target.is_floating_point():  # torch knows rows alone
        if target.shape != shape:
            raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(shape)}")
        logits, given = logits.reshape(target.numel(), 0), target.reshape(-1)
    loss = torch.nn.functional.cross_entropy(
        logits, given, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    if reduction == "none":
        loss = loss.reshape(shape)
    return (loss, torch.logsumexp(input.to(loss.dtype), min(1, input.dim() - 1))) if return_lse else loss


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


def loss_shape(reduction: str, rows: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the loss; rows: that of the targets."""
    return tuple(rows) if reduction == "none" else ()


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
        "target_dtype": index_dtype("target", target),
        "logits_row_stride": stride,
        "weight": weight is not None,
        **option_fields(*options),
    }


def _class_fields(
    logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: tuple[Any, ...]
) -> dict[str, Any] | None:
    """Return the fields of cross_entropy and of its gradient, the classes in the last dimension; None for other layouts."""
    if not logits.dim() or not logits.shape[-1] or target.is_floating_point():
        return None
    layout = classes_of(logits, target)
    if layout is None:
        return None
    return {**row_fields(logits, target, weight, (0, 0, 0), options), **layout}


def _prepare(*options: Any) -> Any:
    def prepare(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None) -> Prepared | None:
        fields = _class_fields(logits, target, weight, options)
        if fields is None:
            return None
        dtype = wide_dtype(logits)  # of the loss, of lse, and of class weights
        if weight is not None and weight.dtype != dtype:
            return None
        loss = (loss_shape(options[0], target.shape), dtype)
        outputs = {"loss": loss, "lse": (tuple(target.shape), dtype)}
        if options[3]:
            outputs["z_loss"] = loss
        return launch("cross_entropy", fields, {"logits": logits, "targets": target, "weight": weight}, outputs)

    return prepare


@by_options
def _forward(*options: Any) -> Launcher:
    return launcher("cross_entropy", _prepare(*options))


@by_options
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
            dloss = lse.new_zeros(loss_shape(options[0], lse.shape))
        return torch.ops.tunesmith.cross_entropy_backward(logits, target, lse, dloss, dlse, weight, *options)

    recording = Gradient(1, 2, (0, 1, 4, 2), gradient)
    return eager_launcher("cross_entropy", _prepare(*options), returned=2 if return_lse else 1, gradient=recording)


@by_options
def _backward(*options: Any) -> Launcher:
    def prepare(
        logits: torch.Tensor,
        target: torch.Tensor,
        lse: torch.Tensor,
        dloss: torch.Tensor,
        dlse: torch.Tensor | None,
        weight: torch.Tensor | None,
    ) -> Prepared | None:
        fields = _class_fields(logits, target, weight, options)
        if fields is None:
            return None
        fields["dlse"] = dlse is not None
        tensors = {"logits": logits, "targets": target, "lse": lse, "dloss": dloss, "dlse": dlse, "weight": weight}
        dlogits = _gradient_like(logits) if "inner" in fields else None
        if dlogits is None:
            return launch("cross_entropy_backward", fields, tensors, {"dlogits": (logits.shape, logits.dtype)})
        written = classes_of(dlogits, target)
        if written is None or any(written.get(name, 1) != fields[name] for name in ("rows", "inner")):
            return None
        fields.update({f"d{name}": stride for name, stride in written.items() if name.startswith("logits_")})
        return launch("cross_entropy_backward", fields, tensors, {"dlogits": dlogits})

    return launcher("cross_entropy_backward", prepare)


def _gradient_like(logits: torch.Tensor) -> torch.Tensor:
    """Return a tensor without memory, as torch.empty_like: with the strides of dense logits."""
    return torch.empty_like(logits, device="meta")


class _CrossEntropy(torch.autograd.Function):
    """The eager path with autograd: the launcher without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
        loss, lse = call(_forward(*options), logits, target.contiguous(), weight)[:2]
        ctx.save_for_backward(logits, target, lse, weight)
        ctx.set_materialize_grads(False)
        ctx.options = options
        return loss, lse

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None) -> Any:
        logits, target, lse, weight = ctx.saved_tensors
        if dloss is None:  # lse alone was used
            dloss = lse.new_zeros(loss_shape(ctx.options[0], lse.shape))
        backward = _transformed_backward if is_transformed() else torch.ops.tunesmith.cross_entropy_backward
        gradient = backward(logits, target, lse, dloss, dlse, weight, *ctx.options)
        return gradient, *[None] * (2 + len(ctx.options))


def _cross_entropy_kernel(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
    return tuple(call(_forward(*options), logits, target.contiguous(), weight)[:2])


def _cross_entropy_fake(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *options: Any) -> Any:
    return (
        logits.new_empty(loss_shape(options[0], target.shape), dtype=wide_dtype(logits)),
        logits.new_empty(target.shape, dtype=wide_dtype(logits)),
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
    dlse = None if dlse is None else dlse.contiguous()  # not by call(), which would copy the logits, too
    result = call(_backward(*options), logits, target.contiguous(), lse, dloss.contiguous(), dlse, weight)
    if not logits.is_contiguous():  # a copy may have been
        result = with_strides(result, _gradient_like(logits).stride())
    return result


def _cross_entropy_context(ctx: Any, inputs: Any, output: Any) -> None:
    logits, target, weight, *options = inputs
    ctx.save_for_backward(logits, target, output[1], weight)
    ctx.options = tuple(options)
    ctx.set_materialize_grads(False)


def _cross_entropy_gradient(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None) -> Any:
    return _CrossEntropy.backward(ctx, dloss, dlse)


_transformed = transformable(torch.ops.tunesmith.cross_entropy, _cross_entropy_context, _cross_entropy_gradient, vmap=True)


_no_second_derivative = no_second_derivative("cross_entropy")
_transformed_backward = transformable(
    torch.ops.tunesmith.cross_entropy_backward, no_context, _no_second_derivative, vmap=True
)

for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("cross_entropy", _cross_entropy_kernel, _key)
    _LIBRARY.impl("cross_entropy_backward", _cross_entropy_backward_kernel, _key)
register_fake("cross_entropy", _cross_entropy_fake)
register_fake("cross_entropy_backward", lambda logits, *_: torch.empty_like(logits))
torch.library.register_autograd("tunesmith::cross_entropy", _cross_entropy_gradient, setup_context=_cross_entropy_context)
torch.library.register_autograd("tunesmith::cross_entropy_backward", _no_second_derivative, setup_context=no_context)
