"""A drop-in flex_attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..mods import TraceError, trace
from .attention import attention
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
    try:
        trace(score_mod, "score_mod")
        trace(None if block_mask is None else block_mask.mask_mod, "mask_mod")
    except TraceError as error:
        return str(error)
    return why_not_scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=enable_gqa)


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
    Tunesmith itself finds the blocks that a mask hides. why_not_flex_attention() tells the reason for given arguments.
    """
    arguments = (query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse)
    if why_not_flex_attention(*arguments, **others) is not None:
        from torch.nn.attention import flex_attention as torchs  # its import is slow

        return torchs.flex_attention(*arguments, **others)
    mask_mod = None if block_mask is None else block_mask.mask_mod
    return attention(
        query, key, value, scale=scale, score_mod=score_mod, mask_mod=mask_mod, layout="bhsd", return_lse=return_lse
    )
