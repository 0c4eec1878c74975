"""Hugging Face transformers: its models with Tunesmith's attention and loss. Importing this module registers both.

    import tunesmith.torch.transformers

    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="tunesmith")
    tunesmith.torch.transformers.use_loss(model)

Calls that no kernel serves (padding, local attention, paged caches) go to the "sdpa" implementation of
transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .attention import attention
from .losses import cross_entropy
from .sdpa import why_not_scaled_dot_product_attention

__all__ = ["attention_forward", "attention_mask", "use_loss", "why_not"]

#: Arguments of an attention function that change its result, and that only "sdpa" or nobody knows.
_UNKNOWN = ("position_bias", "cache", "head_mask")


def why_not(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    scaling: float | None,
    **others: Any,
) -> str | None:
    """Return why a call goes to the implementation "sdpa"; None if Tunesmith serves it."""
    if mask is not None:
        return "the mask is not a plain causal one: padding, local attention, or queries before the last keys"
    for name in _UNKNOWN:
        if others.get(name) is not None:
            return f"{name} is given"
    return why_not_scaled_dot_product_attention(query, key, value, None, dropout, False, scaling, True)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of transformers: (batch, heads, seq, head_dim) to (batch, seq, heads, head_dim)."""
    reason = why_not(query, key, value, attention_mask, dropout, scaling, **others)
    if reason is not None:
        if softcap is not None or s_aux is not None:
            raise NotImplementedError(f"tunesmith: {reason}, which is not allowed with softcap or s_aux")
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **others
        )
        return result
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    o = attention(
        query,
        key,
        value,
        causal="bottom-right" if causal else "none",
        scale=scaling,
        softcap=softcap or 0.0,
        sinks=None if s_aux is None else s_aux.float(),
        dropout=dropout,
        layout="bhsd",
    )
    return o.transpose(1, 2).contiguous(), None


def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **others: Any,
) -> torch.Tensor | None:
    """The mask function of transformers: None where attention_forward() needs no mask, otherwise the mask of "sdpa".

    As for FlashAttention, it reads a padding mask on the host.
    """
    is_plain = allow_is_causal_skip or allow_is_bidirectional_skip
    is_whole = local_size is None or kv_length + int(kv_offset) <= local_size
    # Tunesmith aligns the last query with the last key; a static cache has keys beyond.
    is_aligned = not allow_is_causal_skip or int(q_offset) + q_length == int(kv_offset) + kv_length
    if is_plain and is_whole and is_aligned and (attention_mask is None or bool(attention_mask[:, -kv_length:].all())):
        return None
    mask: torch.Tensor | None = sdpa_mask(
        batch_size,
        q_length,
        kv_length,
        q_offset,
        kv_offset,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        **others,
    )
    return mask


def use_loss(model: Any) -> None:
    """Let one causal language model compute its loss with cross_entropy(), which reads the logits in their own dtype."""
    if getattr(model, "loss_type", None) not in (None, "ForCausalLM", "ForCausalLMLoss"):
        raise ValueError(f"the model's loss_type is {model.loss_type!r}; allowed: 'ForCausalLM'")
    model.loss_function = _causal_loss


def _causal_loss(
    logits: torch.Tensor,
    labels: torch.Tensor | None,
    vocab_size: int,
    num_items_in_batch: torch.Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    if shift_labels is None:
        assert labels is not None
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).contiguous().to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = cross_entropy(logits.reshape(-1, vocab_size), target, ignore_index=ignore_index, reduction=reduction)
    assert isinstance(loss, torch.Tensor)
    if num_items_in_batch is None:
        return loss
    return loss / torch.as_tensor(num_items_in_batch, device=loss.device)


_attention: Callable[..., Any] = attention_forward
AttentionInterface.register("tunesmith", _attention)
AttentionMaskInterface.register("tunesmith", attention_mask)
