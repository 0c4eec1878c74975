"""linear_cross_entropy."""

from __future__ import annotations

from typing import Any

import torch

from .launching import (
    DTYPES,
    Launcher,
    Prepared,
    autocast_dtype,
    by_options,
    call,
    index_dtype,
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
)
from .losses import OPTIONS, loss_shape, option_fields

__all__ = ["linear_cross_entropy"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_INPUTS = "Tensor hidden, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight"
_GRADIENTS = "bool dhidden, bool dweight, bool dbias"
_MEMORY = "bool f32_logits, int memory_bytes"
_LIBRARY.define(
    f"linear_cross_entropy({_INPUTS}, {_GRADIENTS}, {OPTIONS}, {_MEMORY}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    f"linear_cross_entropy_backward({_INPUTS}, Tensor dloss, Tensor? dlse, {_GRADIENTS}, {OPTIONS}, {_MEMORY}) "
    "-> (Tensor, Tensor, Tensor)"
)


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
    memory_bytes: int = 1 << 30,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """cross_entropy(input @ linear_weight.T + linear_bias, target) without storing the logits.

    The arguments of torch's linear_cross_entropy. input: (tokens, hidden_size) or (..., hidden_size); linear_weight:
    (vocab_size, hidden_size); linear_bias: (vocab_size); target: class indices. Weights of more dimensions and class
    probabilities raise NotImplementedError. options: those of torch choose its chunks and have no effect here.

    With autograd and the reduction mean or sum, the forward computes all gradients for an upstream gradient of 1, so the
    backward multiplies them in place and the graph cannot be retained. With the reduction none or return_lse, the backward
    computes the logits a second time.

    return_lse: also return the log of the sum of exponentials of each token, float32 in the shape of target; gradients flow
    through it. f32_logits: chunks of logits are float32 instead of the dtype of input, which takes twice the memory and
    makes the loss and lse as accurate as for float32 logits. memory_bytes bounds the workspace.
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
    numbers = (float(label_smoothing), float(z_loss), float(softcap), float(scale))
    settings = (reduction, ignore_index, *numbers, f32_logits, memory_bytes)
    shape = target.shape
    hidden, target = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    weight = weight if weight is None or weight.dtype == torch.float32 else weight.float()
    transformed = is_transformed()
    fused = reduction != "none" and not return_lse and not transformed
    now = [fused and needs_grad(tensor) for tensor in (hidden, linear_weight, linear_bias)]
    run = _transformed if transformed else torch.ops.tunesmith.linear_cross_entropy
    loss, lse, *_ = run(hidden, linear_weight, target, linear_bias, weight, *now, *settings)
    if reduction == "none":
        loss = loss.reshape(shape)
    return (loss, lse.reshape(shape)) if return_lse else loss


def _prepare(
    inputs: dict[str, torch.Tensor | None], gradients: tuple[bool, bool, bool], *options: Any, forward: bool
) -> Prepared | None:
    """Prepare a call; without forward, lse and the loss are computed and dropped."""
    *others, f32_logits, memory_bytes = options
    hidden, linear_weight, target = inputs["hidden"], inputs["weight"], inputs["targets"]
    assert hidden is not None and linear_weight is not None and target is not None
    fields = {
        "tokens": hidden.shape[0],
        "hidden_size": hidden.shape[1],
        "vocab_size": linear_weight.shape[0],
        "dtype": DTYPES[hidden.dtype],
        "target_dtype": index_dtype("target", target),
        "f32_logits": f32_logits,
        "memory_bytes": memory_bytes,
        "caller_workspace": hidden.is_cuda,  # memory on the CPU is not aligned enough
        **option_fields(*others),
        **{name: True for name in ("class_weight", "bias", "dloss", "dlse") if inputs.get(name) is not None},
        **{name: True for name, wanted in zip(("dhidden", "dweight", "dbias"), gradients, strict=True) if wanted},
    }
    outputs: dict[str, Any] = {"loss": (loss_shape(others[0], hidden.shape[:1]), torch.float32)}
    if forward:
        outputs["lse"] = ((hidden.shape[0],), torch.float32)
    shapes = (hidden.shape, linear_weight.shape, linear_weight.shape[:1])
    for name, shape in zip(("dhidden", "dweight", "dbias"), shapes, strict=True):
        if name in fields:
            outputs[name] = (shape, hidden.dtype)
    return launch("linear_cross_entropy", fields, inputs, outputs)


_NAMES = ("hidden", "weight", "targets", "bias", "class_weight", "dloss", "dlse")


@by_options
def _launcher(gradients: tuple[bool, bool, bool], forward: bool, *options: Any) -> Launcher:
    """Return the launcher of calls with the first five, or all seven, of _NAMES."""

    def prepare(*tensors: torch.Tensor | None) -> Prepared | None:
        return _prepare(dict(zip(_NAMES, tensors, strict=False)), gradients, *options, forward=forward)

    return launcher("linear_cross_entropy", prepare)


def _spread(hidden: torch.Tensor, gradients: tuple[bool, bool, bool], results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the three gradients, empty ones for those that were not computed."""
    return [results.pop(0) if present else hidden.new_empty((0,)) for present in gradients]


def _empty(hidden: torch.Tensor, linear_weight: torch.Tensor, gradients: tuple[bool, bool, bool]) -> list[torch.Tensor]:
    """Return uninitialized gradients, empty ones for those that are not computed."""
    shapes = (hidden.shape, linear_weight.shape, linear_weight.shape[:1])
    return [hidden.new_empty(shape if present else (0,)) for shape, present in zip(shapes, gradients, strict=True)]


def _kernel(*arguments: Any) -> Any:
    inputs, gradients, options = arguments[:5], arguments[5:8], arguments[8:]
    loss, lse, *others = call(_launcher(gradients, True, *options), *inputs)
    return (loss, lse, *_spread(inputs[0], gradients, others))


def _fake(*arguments: Any) -> Any:
    (hidden, linear_weight), gradients, reduction = arguments[:2], arguments[5:8], arguments[8]
    loss = hidden.new_empty(loss_shape(reduction, hidden.shape[:1]), dtype=torch.float32)
    lse = hidden.new_empty(hidden.shape[:1], dtype=torch.float32)
    return (loss, lse, *_empty(hidden, linear_weight, gradients))


def _backward_kernel(*arguments: Any) -> Any:
    inputs, (dloss, dlse), gradients, options = arguments[:5], arguments[5:7], arguments[7:10], arguments[10:]
    dlse = None if dlse is None else dlse.contiguous()
    _, *results = call(_launcher(gradients, False, *options), *inputs, dloss.contiguous(), dlse)
    return tuple(_spread(inputs[0], gradients, results))


def _backward_fake(*arguments: Any) -> Any:
    return tuple(_empty(arguments[0], arguments[1], arguments[7:10]))


def _context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)
    hidden, linear_weight, target, linear_bias, weight, *others = inputs
    ctx.present, ctx.options = tuple(others[:3]), tuple(others[3:])
    ctx.bias_dtype = None if linear_bias is None else linear_bias.dtype
    if any(ctx.present):
        ctx.save_for_backward(*output[2:])
        ctx.mark_non_differentiable(*output[1:])
    else:
        ctx.save_for_backward(hidden, linear_weight, target, linear_bias, weight)
        ctx.mark_non_differentiable(*output[2:])


def _scaled(ctx: Any, tensor: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
    """Return a finished gradient times the upstream one, in place where nothing traces or records it.

    A scale of float16 losses, such as 65536, exceeds float16. One dimension makes torch multiply in float32.
    """
    factor = dloss.float().reshape(1)
    if torch.is_grad_enabled() or not is_eager(tensor, dloss):
        return (tensor * factor).to(tensor.dtype)
    ctx.is_spent = True
    return tensor.mul_(factor)


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
        inputs = ctx.saved_tensors
        hidden = inputs[0]
        if dloss is None:  # lse alone was used
            dloss = torch.zeros(loss_shape(ctx.options[0], hidden.shape[:1]), dtype=torch.float32, device=hidden.device)
        needed = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[3]]
        backward = _transformed_backward if is_transformed() else torch.ops.tunesmith.linear_cross_entropy_backward
        gradients = backward(*inputs, dloss, dlse, *needed, *ctx.options)
        results = [tensor if present else None for tensor, present in zip(gradients, needed, strict=True)]
    dhidden, dweight, dbias = results
    return dhidden, dweight, None, dbias if dbias is None else dbias.to(ctx.bias_dtype), *[None] * (4 + len(ctx.options))


_no_second_derivative = no_second_derivative("linear_cross_entropy")
_transformed = transformable(torch.ops.tunesmith.linear_cross_entropy, _context, _gradient, vmap=True)
_transformed_backward = transformable(
    torch.ops.tunesmith.linear_cross_entropy_backward, no_context, _no_second_derivative, vmap=True
)

for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("linear_cross_entropy", _kernel, _key)
    _LIBRARY.impl("linear_cross_entropy_backward", _backward_kernel, _key)
register_fake("linear_cross_entropy", _fake)
register_fake("linear_cross_entropy_backward", _backward_fake)
torch.library.register_autograd("tunesmith::linear_cross_entropy", _gradient, setup_context=_context)
torch.library.register_autograd("tunesmith::linear_cross_entropy_backward", _no_second_derivative, setup_context=no_context)
