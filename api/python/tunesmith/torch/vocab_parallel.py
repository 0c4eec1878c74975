"""cross_entropy of logits whose classes are sharded over the processes of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from .layouts import rows_of
from .losses import loss_options
from .operators import Named, Operator
from .row_operators import RowOperator

__all__ = ["vocab_parallel_cross_entropy"]


class _Combine(Operator):
    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        partials = tensors["partials"]
        assert partials is not None
        rows = self.sizes(tensors, structure)["rows"]
        return {**structure, "rows": rows, "shards": partials.shape[0] // rows if rows else 1}

    def sizes(self, tensors: Named, structure: Mapping[str, Any]) -> Mapping[str, Any]:
        target = tensors["targets"]
        assert target is not None
        return {"rows": target.shape[0]}


def _layout(tensors: Named) -> dict[str, Any] | None:
    logits = tensors["logits"]
    assert logits is not None
    layout = rows_of(logits)
    return None if layout is None else dict(zip(("rows", "cols", "logits_row_stride"), layout, strict=True))


_SIZE = ["vocab_size"]
SHARD = Operator("cross_entropy_shard", without=["weight"], also=_SIZE, results=["partials"])
COMBINE = _Combine("cross_entropy_combine", without=["weight", "shards"], also=_SIZE, results=["loss", "lse", "lse_low"])
BACKWARD = RowOperator(
    "cross_entropy_shard_backward",
    "cross_entropy_backward",
    without=["weight", "dlse"],
    also=_SIZE,
    layout=_layout,
    like="logits",
    results=["dlogits"],
    contiguous=["dloss"],
)


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
    options = (reduction, ignore_index, label_smoothing, z_loss, softcap, scale)
    loss: torch.Tensor = _VocabParallel.apply(logits, target.reshape(-1).contiguous(), group, start, size, *options)
    return loss.reshape(target.shape) if reduction == "none" else loss


class _VocabParallel(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, target: torch.Tensor, group: Any, start: int, size: int, *options: Any
    ) -> Any:
        from torch.distributed._functional_collectives import all_gather_tensor

        shard: dict[str, Any] = {"vocab_start": start, "vocab_size": size}
        partials = SHARD.overload(logits, target, *loss_options(SHARD, *options, **shard))
        gathered = all_gather_tensor(partials, 0, group)
        values = loss_options(COMBINE, *options, vocab_size=size, lse_low=True)
        loss, *lse = COMBINE.overload(gathered, target, *values)
        ctx.save_for_backward(logits, target, *lse)
        ctx.options = loss_options(BACKWARD, *options, **shard)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> Any:
        logits, target, lse, lse_low = ctx.saved_tensors
        return BACKWARD.overload(logits, target, lse, dloss, lse_low, *ctx.options), *[None] * 10
