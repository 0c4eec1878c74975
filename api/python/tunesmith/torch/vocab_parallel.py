"""cross_entropy of logits whose classes are sharded over the processes of a group."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .launching import (
    DTYPES,
    Launcher,
    Prepared,
    by_options,
    call,
    index_dtype,
    launch,
    launcher,
    register_fake,
)
from .layouts import rows_of
from .losses import OPTIONS, loss_shape, row_fields

__all__ = ["vocab_parallel_cross_entropy"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_SHARD = f"int vocab_start, int vocab_size, {OPTIONS}"
_LIBRARY.define(f"cross_entropy_shard(Tensor logits, Tensor target, {_SHARD}) -> Tensor")
_LIBRARY.define(f"cross_entropy_combine(Tensor partials, Tensor target, {_SHARD}) -> (Tensor, Tensor)")
_LIBRARY.define(f"cross_entropy_shard_backward(Tensor logits, Tensor target, Tensor lse, Tensor dloss, {_SHARD}) -> Tensor")


def vocab_parallel_cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    *,
    group: dist.ProcessGroup | None = None,
    vocab_start: int | None = None,
    vocab_size: int | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
) -> torch.Tensor:
    """Cross-entropy of logits whose classes are sharded over the processes of a group.

    input: this process's classes of the logits, (..., cols). target: (...), classes of the whole vocabulary, equal in all
    processes. group: the default group if None. vocab_start and vocab_size: the class of the first column and the number of
    classes in all shards; rank * cols and world_size * cols if None, for shards of equal width. Other options as for
    cross_entropy().

    Every process returns the same loss, bit for bit. One all-gather of 32 bytes for each row (64 for float64 logits) travels
    in the forward pass, none in the backward pass, and each process gets the gradient of its own logits.
    """
    group = group if group is not None else dist.group.WORLD
    cols = input.shape[-1]
    start = vocab_start if vocab_start is not None else dist.get_rank(group) * cols
    size = vocab_size if vocab_size is not None else dist.get_world_size(group) * cols
    if input.shape[:-1] != target.shape:
        raise ValueError(f"target has the shape {tuple(target.shape)}; expected {tuple(input.shape[:-1])}")
    logits = input.reshape(-1, cols)
    numbers = (float(label_smoothing), float(z_loss), float(softcap), float(scale))
    options = (start, size, reduction, ignore_index, *numbers)
    loss: torch.Tensor = _VocabParallel.apply(logits, target.reshape(-1).contiguous(), group, *options)
    return loss.reshape(target.shape) if reduction == "none" else loss


class _VocabParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor, group: Any, *options: Any) -> Any:
        from torch.distributed._functional_collectives import all_gather_tensor

        partials = torch.ops.tunesmith.cross_entropy_shard(logits, target, *options)
        gathered = all_gather_tensor(partials, 0, group)
        loss, lse = torch.ops.tunesmith.cross_entropy_combine(gathered, target, *options)
        ctx.save_for_backward(logits, target, lse)
        ctx.options = options
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> Any:
        logits, target, lse = ctx.saved_tensors
        gradient = torch.ops.tunesmith.cross_entropy_shard_backward(logits, target, lse, dloss, *ctx.options)
        return gradient, *[None] * (2 + len(ctx.options))


def _fields(logits: torch.Tensor, target: torch.Tensor, options: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return the fields of the operations on a shard; None if no kernel reads the tensors."""
    layout = rows_of(logits)
    if layout is None:
        return None
    start, size, *others = options
    return {**row_fields(logits, target, None, layout, tuple(others)), "vocab_start": start, "vocab_size": size}


def _number_of(logits: torch.Tensor) -> torch.dtype:
    """Return the dtype of partials and losses."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


@by_options
def _shard(*options: Any) -> Launcher:
    def prepare(logits: torch.Tensor, target: torch.Tensor) -> Prepared | None:
        fields = _fields(logits, target, options)
        if fields is None:
            return None
        for of_the_whole_loss in ("reduction", "z_loss"):
            del fields[of_the_whole_loss]
        outputs = {"partials": ((logits.shape[0], 8), _number_of(logits))}
        return launch("cross_entropy_shard", fields, {"logits": logits, "targets": target}, outputs)

    return launcher("cross_entropy_shard", prepare)


@by_options
def _combine(*options: Any) -> Launcher:
    _, size, reduction, ignore_index, label_smoothing, z_loss, _, _ = options

    def prepare(partials: torch.Tensor, target: torch.Tensor) -> Prepared | None:
        rows = target.shape[0]
        fields = {
            "rows": rows,
            "shards": partials.shape[0] // rows if rows else 1,
            "vocab_size": size,
            "dtype": DTYPES[partials.dtype],
            "target_dtype": index_dtype("target", target),
            "ignore_index": ignore_index,
            "label_smoothing": float(label_smoothing),
            "z_loss": float(z_loss),
            "reduction": reduction,
        }
        shape = loss_shape(reduction, (rows,))
        outputs = {"loss": (shape, partials.dtype), "lse": ((rows,), partials.dtype)}
        if z_loss:
            outputs["z_loss"] = (shape, partials.dtype)
        return launch("cross_entropy_combine", fields, {"partials": partials, "targets": target}, outputs)

    return launcher("cross_entropy_combine", prepare)


@by_options
def _backward(*options: Any) -> Launcher:
    def prepare(logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor) -> Prepared | None:
        fields = _fields(logits, target, options)
        if fields is None:
            return None
        tensors = {"logits": logits, "targets": target, "lse": lse, "dloss": dloss}
        return launch("cross_entropy_backward", fields, tensors, {"dlogits": (logits.shape, logits.dtype)})

    return launcher("cross_entropy_backward", prepare)


def _shard_kernel(logits: torch.Tensor, target: torch.Tensor, *options: Any) -> Any:
    return call(_shard(*options), logits, target)


def _combine_kernel(partials: torch.Tensor, target: torch.Tensor, *options: Any) -> Any:
    return tuple(call(_combine(*options), partials, target)[:2])


def _backward_kernel(
    logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor, *options: Any
) -> Any:
    return call(_backward(*options), logits, target, lse, dloss.contiguous())


def _combine_fake(partials: torch.Tensor, target: torch.Tensor, *options: Any) -> Any:
    rows = target.shape[0]
    return partials.new_empty(loss_shape(options[2], (rows,))), partials.new_empty((rows,))


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("cross_entropy_shard", _shard_kernel, _key)
    _LIBRARY.impl("cross_entropy_combine", _combine_kernel, _key)
    _LIBRARY.impl("cross_entropy_shard_backward", _backward_kernel, _key)
register_fake(
    "cross_entropy_shard",
    lambda logits, *_: logits.new_empty((logits.shape[0], 8), dtype=_number_of(logits)),
)
register_fake("cross_entropy_combine", _combine_fake)
register_fake("cross_entropy_shard_backward", lambda logits, *_: logits.new_empty(logits.shape))
