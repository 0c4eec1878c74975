"""cross_entropy."""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import wide, wide_dtype
from .launchers import Gradient, Launcher, by_options, eager_launcher
from .layouts import classes_of
from .operators import Named, Operator
from .row_operators import RowOperator
from .soft_targets import soft_cross_entropy
from .transforms import is_compiling, is_transformed, needs_grad, reject_gradients

__all__ = ["cross_entropy"]


class _CrossEntropy(RowOperator):
    """The classes are the last dimension of logits; a target for each index of the other ones."""

    def reads(self, tensors: Named) -> bool:
        logits, target, weight = tensors["logits"], tensors["targets"], tensors.get("weight")
        assert logits is not None and target is not None
        has_classes = logits.dim() > 0 and logits.shape[-1] > 0
        return has_classes and not target.is_floating_point() and (weight is None or weight.dtype == wide_dtype(logits))

    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        logits, fields = tensors["logits"], super().fields(tensors, structure)
        assert logits is not None
        if fields is None or "inner" not in fields or "lse" not in tensors:
            return fields
        # The gradient has the strides of dense logits.
        written = _layout({**tensors, "logits": torch.empty_like(logits, device="meta")})
        if written is None or any(written.get(name, 1) != fields[name] for name in ("rows", "inner")):
            return None
        return fields | {f"d{name}": stride for name, stride in written.items() if name.startswith("logits_")}


def _layout(tensors: Named) -> dict[str, Any] | None:
    logits, target = tensors["logits"], tensors["targets"]
    assert logits is not None and target is not None
    return classes_of(logits, target)


FORWARD = _CrossEntropy(
    "cross_entropy",
    without=["dloss"],
    layout=_layout,
    like="logits",
    rows="targets",
    results=["loss", "lse", "lse_low"],
    contiguous=["targets"],
)
BACKWARD = _CrossEntropy(
    "cross_entropy_backward",
    without=["vocab_start", "vocab_size"],
    layout=_layout,
    like="logits",
    results=["dlogits"],
    contiguous=["targets", "dloss", "lse_low", "dlse"],
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
    recorded = is_transformed() or needs_grad(input)
    if not is_compiling():
        result = _eager(return_lse, recorded, *options)(logits, target, weight)
        if result is not NotImplemented:
            return result
    if input.dim() == 0:
        raise ValueError("input has no dimensions; expected at least 1")
    reject_gradients("cross_entropy", weight=weight)
    weight = weight if weight is None else weight.to(wide_dtype(input))
    if logits.shape[-1] == 0:
        return _without_classes(input, target, weight, return_lse, reduction, ignore_index, float(label_smoothing))
    if target.is_floating_point():
        if target.shape != input.shape:
            raise ValueError(f"target has the shape {tuple(target.shape)}; expected that of input, {tuple(input.shape)}")
        if ignore_index >= 0:
            raise ValueError(f"ignore_index is {ignore_index}; expected no class with class probabilities")
        target = target if input.dim() <= 2 else target.movedim(1, -1)
        numbers = (float(label_smoothing), float(z_loss), float(softcap), float(scale))
        loss, lse = soft_cross_entropy(logits, target, weight, reduction, *numbers)
        return (loss, lse) if return_lse else loss
    if logits.shape[:-1] != target.shape:
        raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(logits.shape[:-1])}")
    values = loss_options(FORWARD, *options, lse_low=recorded)
    loss, lse, _ = FORWARD({"logits": logits, "targets": target, "weight": weight}, values)
    return (loss, lse) if return_lse else loss


def _without_classes(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, return_lse: bool, *options: Any
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Return what torch defines for logits of no class; its errors name targets that are none."""
    reduction, ignore_index, label_smoothing = options
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


def loss_options(
    operator: Operator,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    scale: float,
    **others: Any,
) -> tuple[Any, ...]:
    """Return the options of a loss as an operator takes them; it may lack some."""
    numbers = {"label_smoothing": label_smoothing, "z_loss": z_loss, "softcap": softcap, "scale": scale}
    given = {"reduction": reduction, "ignore_index": ignore_index, **{name: float(one) for name, one in numbers.items()}}
    return operator.values(**{name: value for name, value in given.items() if name in operator.options}, **others)


def upstream(dloss: torch.Tensor | None, lse: torch.Tensor, reduction: str) -> torch.Tensor:
    """Return the gradient of the loss; zeros if lse alone was used."""
    return lse.new_zeros(lse.shape if reduction == "none" else ()) if dloss is None else dloss


@by_options
def _eager(return_lse: bool, recorded: bool, *options: Any) -> Launcher:
    values, backward = loss_options(FORWARD, *options, lse_low=recorded), loss_options(BACKWARD, *options)

    def gradient(*saved: Any) -> torch.Tensor:
        logits, target, lse, lse_low, weight, dloss, dlse = saved
        return BACKWARD.overload(logits, target, lse, upstream(dloss, lse, options[0]), lse_low, weight, dlse, *backward)

    recording = Gradient(1, 2, (0, 1, 4, 5, 2), gradient) if recorded else None
    return eager_launcher("cross_entropy", FORWARD.prepare(values), returned=2 if return_lse else 1, gradient=recording)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    logits, target, weight, *ctx.options = inputs
    ctx.save_for_backward(logits, target, *output[1:], weight)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None, _: torch.Tensor | None) -> Any:
    logits, target, lse, lse_low, weight = ctx.saved_tensors
    options = dict(zip(FORWARD.options, ctx.options, strict=True))
    lse_low = lse_low if options.pop("lse_low") else None
    backward = BACKWARD.transformed if is_transformed() else BACKWARD.overload
    dloss = upstream(dloss, lse, options["reduction"])
    dlogits = backward(logits, target, lse, dloss, lse_low, weight, dlse, *BACKWARD.values(**options))
    return dlogits, *[None] * (2 + len(FORWARD.options))


FORWARD.differentiable(_setup_context, _gradient)
BACKWARD.not_differentiable("cross_entropy")
