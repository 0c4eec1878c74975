"""linear_log_probs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ..described import Described
from .operators import Named, Operator
from .transforms import autocast_dtype

__all__ = ["linear_log_probs"]


class _Gradient(Operator):
    def output(self, array: Described, tensors: Named, sizes: Mapping[str, Any], device: torch.device) -> torch.Tensor:
        hidden, weight = tensors["hidden"], tensors["weight"]
        assert hidden is not None and weight is not None
        return hidden.new_empty((hidden.shape[0], (weight.shape[0] + 7) // 8 * 8), device=device)  # columns are padded


FORWARD = Operator("linear_loss", without=["dloss", "z_loss"], results=["loss", "lse", "entropy"])
BACKWARD = _Gradient(
    "linear_loss_backward", without=["z_loss", "dlse"], results=["dlogits"], contiguous=["dloss", "dentropy"]
)


def linear_log_probs(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    *,
    temperature: float = 1.0,
    softcap: float = 0.0,
    ignore_index: int = -100,
    return_entropy: bool = False,
    memory_bytes: int = 1 << 30,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """log_softmax(softcap(input @ linear_weight.T / temperature))[target] of every token, for reinforcement learning.

    input: (..., hidden_size) bfloat16 or float32; linear_weight: (vocab_size, hidden_size); target: class indices (...).
    Returns float32 in the shape of target: 0 where target is ignore_index, NaN where it is no class. return_entropy: also
    return the entropy of the distribution of every token. Gradients flow through both.

    No logits are stored in the forward pass, and none are rounded. The backward pass computes the gradient of the logits in
    chunks of at most memory_bytes.
    """
    if linear_weight.dim() != 2 or input.shape[-1:] != linear_weight.shape[1:]:
        expected = f"(vocab_size, {input.shape[-1]})"
        raise ValueError(f"linear_weight has the shape {tuple(linear_weight.shape)}; expected {expected}")
    if target.shape != input.shape[:-1]:
        raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(input.shape[:-1])}")
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; allowed: greater than 0")
    if memory_bytes < 0:
        raise ValueError(f"memory_bytes is {memory_bytes}; allowed: 0 or more")
    dtype = autocast_dtype(input)
    if dtype is not None:
        input, linear_weight = input.to(dtype), linear_weight.to(dtype)
    options = {"scale": 1 / temperature, "softcap": softcap, "ignore_index": ignore_index}
    hidden = input.reshape(-1, input.shape[-1])
    log_probs, entropy = _LogProbs.apply(hidden, linear_weight, target.reshape(-1), options, return_entropy, memory_bytes)
    log_probs = log_probs.reshape(target.shape)
    return (log_probs, entropy.reshape(target.shape)) if return_entropy else log_probs


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        hidden, weight, targets, options, with_entropy, ctx.memory_bytes = arguments
        tensors = {"hidden": hidden, "weight": weight, "targets": targets}
        loss, lse, entropy = FORWARD.overload(*FORWARD.arguments(tensors, FORWARD.values(**options, entropy=with_entropy)))
        ctx.options, ctx.with_entropy = options, with_entropy
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, targets, lse, entropy)
        return -loss, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dlog_probs: Any, dentropy: Any) -> Any:
        hidden, weight, targets, lse, entropy = ctx.saved_tensors
        dloss = lse.new_zeros(lse.shape) if dlog_probs is None else -dlog_probs
        classes = weight.shape[0]
        rows = max(ctx.memory_bytes // ((classes + 7) // 8 * 8 * hidden.element_size()), 1)
        dhidden = hidden.new_empty(hidden.shape) if ctx.needs_input_grad[0] else None
        dweight = None
        for begin in range(0, hidden.shape[0], rows):
            chunk = slice(begin, begin + rows)
            tensors = {"hidden": hidden[chunk], "weight": weight, "targets": targets[chunk], "lse": lse[chunk]}
            tensors["dloss"] = dloss[chunk]
            if ctx.with_entropy and dentropy is not None:
                tensors |= {"entropy": entropy[chunk], "dentropy": dentropy[chunk]}
            dlogits = BACKWARD.overload(*BACKWARD.arguments(tensors, BACKWARD.values(**ctx.options)))[:, :classes]
            if dhidden is not None:
                torch.mm(dlogits, weight, out=dhidden[chunk])
            if ctx.needs_input_grad[1]:
                dweight = dlogits.T @ hidden[chunk] if dweight is None else dweight.addmm_(dlogits.T, hidden[chunk])
        if ctx.needs_input_grad[1] and dweight is None:
            dweight = torch.zeros_like(weight)
        return dhidden, dweight, None, None, None, None
