"""Tunesmith's attention as an implementation of PyTorch's FlashAttention backend.

After `torch.nn.attention.activate_flash_attention_impl("tunesmith")`, programs that call torch's
scaled_dot_product_attention with CUDA tensors run Tunesmith's kernels wherever torch chooses FLASH_ATTENTION.
`torch.nn.attention.restore_flash_attention_impl()` ends it. Versions of PyTorch without this registry have no "tunesmith".
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.attention

from .attention_operators import BACKWARD, FORWARD

__all__: list[str] = []


@dataclasses.dataclass
class _Handle:
    """Keeps the kernels in the dispatcher; the registry removes them."""

    library: torch.library.Library | None

    def remove(self) -> None:
        self.library = None


def _has_heads_inside(query: torch.Tensor) -> bool:
    """Whether (batch, heads, seq, head_dim) is (batch, seq, heads, head_dim) in memory, as outputs must be then."""
    return query.transpose(1, 2).is_contiguous() and not query.is_contiguous()


def _options(layout: str, dropout_p: float, is_causal: bool, scale: float | None) -> dict[str, Any]:
    causal = "top-left" if is_causal else "none"
    return {"layout": layout, "causal": causal, "scale": scale, "dropout": float(dropout_p)}


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """aten::_scaled_dot_product_flash_attention: (batch, heads, seq, head_dim), float16 or bfloat16."""
    if return_debug_mask:
        raise NotImplementedError("tunesmith: return_debug_mask is True; allowed: False")
    inside = _has_heads_inside(query)
    given = {"q": query, "k": key, "v": value}
    tensors = {name: tensor.transpose(1, 2) if inside else tensor for name, tensor in given.items()}
    state = torch.randint(2**62, (2,), device=query.device) if dropout_p else None
    options = _options("bshd" if inside else "bhsd", dropout_p, is_causal, scale)
    o, lse = FORWARD.run(*FORWARD.arguments({**tensors, "rng_state": state}, FORWARD.values(**options)))
    rng_state = query.new_empty(2, dtype=torch.uint64) if state is None else state.view(torch.uint64)
    unused, debug_mask = query.new_empty((), dtype=torch.uint64), query.new_empty(0)
    o = o.transpose(1, 2) if inside else o
    return o, lse, None, None, query.shape[2], key.shape[2], rng_state, unused, debug_mask


def backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """aten::_scaled_dot_product_flash_attention_backward, for what forward() returned."""
    inside = _has_heads_inside(query)
    given = {"dout": grad_out, "q": query, "k": key, "v": value, "o": out}
    tensors = {name: tensor.transpose(1, 2) if inside else tensor for name, tensor in given.items()}
    state = philox_seed.view(torch.int64) if dropout_p else None
    options = _options("bshd" if inside else "bhsd", dropout_p, is_causal, scale)
    values = BACKWARD.values(**options, deterministic=torch.are_deterministic_algorithms_enabled())
    gradients = BACKWARD.run(*BACKWARD.arguments({**tensors, "lse": logsumexp, "rng_state": state}, values))
    return tuple(gradient.transpose(1, 2) if inside else gradient for gradient in gradients[:3])


def _activate() -> _Handle:
    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl("_scaled_dot_product_flash_attention", forward, "CUDA")
    library.impl("_scaled_dot_product_flash_attention_backward", backward, "CUDA")
    return _Handle(library)


if hasattr(torch.nn.attention, "register_flash_attention_impl"):
    torch.nn.attention.register_flash_attention_impl("tunesmith", register_fn=_activate)
