"""linear_cross_entropy."""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import DTYPES
from .launchers import Prepared, launcher
from .launching import launch
from .losses import loss_options, upstream
from .operators import Named, Operator
from .transforms import autocast_dtype, is_eager, is_transformed, needs_grad, reject_gradients

__all__ = ["linear_cross_entropy"]

_GRADIENTS = ("dhidden", "dweight", "dbias")
_UPSTREAM = ("dloss", "dlse")


class _Linear(Operator):
    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        fields, hidden = super().fields(tensors, structure), tensors["hidden"]
        assert fields is not None and hidden is not None
        return {**fields, "caller_workspace": hidden.is_cuda}  # memory on the CPU is not aligned enough


FORWARD = _Linear("linear_cross_entropy", without=_UPSTREAM, results=["loss", "lse", *_GRADIENTS])
#: Also computes the loss and lse, which are dropped.
BACKWARD = _Linear("linear_cross_entropy_backward", "linear_cross_entropy", results=_GRADIENTS, contiguous=_UPSTREAM)


def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    *,
    linear_bias: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    options: Any = None,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
    return_lse: bool = False,
    f32_logits: bool = False,
    fused: bool = False,
    memory_bytes: int = 1126 << 20,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """cross_entropy(input @ linear_weight.T + linear_bias, target) without storing the logits.

    The arguments of torch's linear_cross_entropy. input: (tokens, hidden_size) or (..., hidden_size); linear_weight:
    (vocab_size, hidden_size); linear_bias: (vocab_size); target: class indices. Weights of more dimensions and class
    probabilities raise NotImplementedError. options: torch's options choose its chunks and have no effect here.

    With autograd and the reduction mean or sum, the forward computes all gradients for an upstream gradient of 1, so the
    backward multiplies them in place and the graph cannot be retained. With the reduction none or return_lse, the backward
    computes the logits a second time.

    return_lse: also return the log of the sum of exponentials of each token, float32 in the shape of target; gradients flow
    through it. f32_logits: chunks of logits are float32 instead of the dtype of input, which takes twice the memory and
    makes the loss and lse as accurate as for float32 logits. fused: the product of the logits computes exponentials and
    their sums, so that no logits are stored or rounded; for bfloat16 and float32, without linear_bias, weight,
    label_smoothing and f32_logits. memory_bytes bounds the workspace.
    """
    if linear_weight.dim() != 2:
        raise NotImplementedError(f"linear_weight has {linear_weight.dim()} dimensions; expected 2")
    if target.is_floating_point():
        raise NotImplementedError("target holds class probabilities; expected class indices")
    if target.shape != input.shape[:-1]:
        raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(input.shape[:-1])}")
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:1]:
        raise ValueError(f"linear_bias has the shape {tuple(linear_bias.shape)}; expected ({linear_weight.shape[0]},)")
    dtype = autocast_dtype(input)
    if dtype is not None:
        input, linear_weight = input.to(dtype), linear_weight.to(dtype)
    if linear_bias is not None:
        linear_bias = linear_bias.to(torch.float32 if f32_logits else input.dtype)
    ignore_index = -100 if ignore_index is None else ignore_index
    reject_gradients("linear_cross_entropy", weight=weight)
    shape = target.shape
    hidden, target = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    weight = weight if weight is None or weight.dtype == torch.float32 else weight.float()
    at_once = reduction != "none" and not return_lse and not is_transformed()
    now = {
        name: at_once and needs_grad(one) for name, one in zip(_GRADIENTS, (hidden, linear_weight, linear_bias), strict=True)
    }
    memory = {"f32_logits": f32_logits, "fused": fused, "memory_bytes": memory_bytes}
    values = loss_options(FORWARD, reduction, ignore_index, label_smoothing, z_loss, softcap, scale, **now, **memory)
    tensors = {"hidden": hidden, "weight": linear_weight, "targets": target, "bias": linear_bias, "class_weight": weight}
    loss, lse, *_ = FORWARD(tensors, values)
    if reduction == "none":
        loss = loss.reshape(shape)
    return (loss, lse.reshape(shape)) if return_lse else loss


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)
    tensors, ctx.options = FORWARD.split(inputs)
    ctx.present = tuple(ctx.options[name] for name in _GRADIENTS)
    bias = tensors["bias"]
    ctx.bias_dtype = None if bias is None else bias.dtype
    if any(ctx.present):
        ctx.save_for_backward(*output[2:])
        ctx.mark_non_differentiable(*output[1:])
    else:
        ctx.save_for_backward(*tensors.values())
        ctx.mark_non_differentiable(*output[2:])


def _prepare_scale(x: torch.Tensor, factor: torch.Tensor) -> Prepared | None:
    fields = {"elements": x.numel(), "dtype": DTYPES[x.dtype]}
    return launch("scale", fields, {"x": x, "factor": factor}, {}, config="variant=stride")


#: Multiplies a tensor with a float32 in place, and ends at once if that is 1, as it usually is.
_scale = launcher("scale", _prepare_scale)


def _scaled(ctx: Any, tensor: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
    """Return a finished gradient times the upstream one, in place where nothing traces or records it.

    A scale of float16 losses, such as 65536, exceeds float16: the product is in float32, rounded once.
    """
    factor = dloss.detach().float().reshape(1)
    if torch.is_grad_enabled() or not is_eager(tensor, dloss):
        return (tensor * factor).to(tensor.dtype)
    ctx.is_spent = True
    if _scale(tensor, factor) is NotImplemented:  # memory that no kernel reads
        tensor.mul_(factor)
    return tensor


def _gradient(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None, *_: Any) -> Any:
    results: list[torch.Tensor | None]
    if any(ctx.present):
        if getattr(ctx, "is_spent", False):
            raise RuntimeError(
                "tunesmith: linear_cross_entropy gave its gradients away in an earlier pass; its graph cannot be retained"
            )
        results = [
            _scaled(ctx, tensor, dloss) if present and dloss is not None else None
            for tensor, present in zip(ctx.saved_tensors, ctx.present, strict=True)
        ]
    else:
        tensors = dict(zip(FORWARD.inputs, ctx.saved_tensors, strict=True))
        lse = tensors["hidden"].new_empty(tensors["targets"].shape, dtype=torch.float32)
        needed = {name: ctx.needs_input_grad[FORWARD.inputs.index(name[1:])] for name in _GRADIENTS}
        given = {**tensors, "dloss": upstream(dloss, lse, ctx.options["reduction"]), "dlse": dlse}
        backward = BACKWARD.transformed if is_transformed() else BACKWARD.overload
        gradients = backward(*BACKWARD.arguments(given, BACKWARD.values(**{**ctx.options, **needed})))
        results = [tensor if present else None for tensor, present in zip(gradients, needed.values(), strict=True)]
    found = dict(zip(("hidden", "weight", "bias"), results, strict=True))
    if found["bias"] is not None:
        found["bias"] = found["bias"].to(ctx.bias_dtype)
    return *map(found.get, FORWARD.inputs), *[None] * len(ctx.options)


FORWARD.differentiable(_setup_context, _gradient)
BACKWARD.not_differentiable("linear_cross_entropy")
