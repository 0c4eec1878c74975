"""A drop-in flex_attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..mods import TraceError, trace
from ..tracing import MAX_ARRAYS
from .attention import attention
from .block_masks import mask_mod_of, why_not_block_mask
from .sdpa import why_not_scaled_dot_product_attention

__all__ = ["flex_attention", "why_not_flex_attention"]


def why_not_flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    **others: Any,
) -> str | None:
    """Return why flex_attention falls back to torch for these arguments; None if it does not."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        return f"{given[0]} is given; allowed: None"
    if return_lse and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)):
        return "return_lse is True; allowed where no gradient is recorded"
    reason = why_not_scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=enable_gqa)
    reason = reason or why_not_block_mask(block_mask, query, key)
    if reason is not None:
        return reason
    try:
        mods = [trace(score_mod, "score_mod"), trace(mask_mod_of(block_mask, query, key), "mask_mod")]
    except TraceError as error:
        return str(error)
    count = sum(len(mod.arrays) for mod in mods)
    if count > MAX_ARRAYS:
        return f"score_mod and block_mask read {count} tensors; allowed: at most {MAX_ARRAYS}"
    return None


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    **others: Any,
) -> Any:
    """torch's flex_attention, which is called where Tunesmith has no kernel.

    score_mod and the mask_mod of block_mask are traced to CUDA (tunesmith.mods). Tensors that score_mod reads get gradients.
    Tunesmith itself finds the blocks that a mask_mod hides; the block lists of a BlockMask count as in torch.
    why_not_flex_attention() tells the reason for given arguments.
    """
    arguments = (query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse)
    if why_not_flex_attention(*arguments, **others) is not None:
        from torch.nn.attention import flex_attention as torchs  # its import is slow

        return torchs.flex_attention(*arguments, **others)
    mask_mod = mask_mod_of(block_mask, query, key)
    return attention(
        query, key, value, scale=scale, score_mod=score_mod, mask_mod=mask_mod, layout="bhsd", return_lse=return_lse
    )
