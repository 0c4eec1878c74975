"""A drop-in for torch's scaled_dot_product_attention."""

from __future__ import annotations

import torch

from .attention import attention

__all__ = ["scaled_dot_product_attention", "why_not_scaled_dot_product_attention"]


def why_not_scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str | None:
    """Return why scaled_dot_product_attention falls back to torch for these arguments; None if it does not."""
    if attn_mask is not None:
        return "attn_mask is given; use attention() with a mask_mod or score_mod"
    if not 0 <= dropout_p <= 0.9999:
        return f"dropout_p is {dropout_p}; allowed: 0 to 0.9999"
    if any(tensor.dim() != 4 for tensor in (query, key, value)):
        return f"query has {query.dim()} dimensions; expected 4: batch, heads, seq, head_dim"
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32) or not (query.dtype == key.dtype == value.dtype):
        return f"the dtypes are {query.dtype}, {key.dtype}, {value.dtype}; allowed: one of float16, bfloat16, float32"
    if query.shape[-1] % 8 or value.shape[-1] % 8 or not 8 <= query.shape[-1] <= 256 or not 8 <= value.shape[-1] <= 256:
        return f"head_dim is {query.shape[-1]} and {value.shape[-1]}; allowed: 8 to 256 in steps of 8"
    if not (query.shape[0] == key.shape[0] == value.shape[0]) or key.shape[1] != value.shape[1]:
        return "the batches or the heads of key and value differ"
    if key.shape[1] != query.shape[1] and (not enable_gqa or query.shape[1] % key.shape[1]):
        return f"query has {query.shape[1]} heads and key {key.shape[1]}; enable_gqa is {enable_gqa}"
    if scale is not None and not 1e-6 <= scale <= 1e6:
        return f"scale is {scale}; allowed: 1e-6 to 1e6"
    return None


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, which is called where Tunesmith has no kernel.

    The mask of dropout differs from torch's for the same seed.
    why_not_scaled_dot_product_attention() tells the reason for given arguments.
    """
    arguments = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if why_not_scaled_dot_product_attention(*arguments) is not None:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    causal = "top-left" if is_causal else "none"
    return attention(query, key, value, causal=causal, scale=scale, dropout=dropout_p, layout="bhsd")
