"""attention of packed sequences."""

from __future__ import annotations

from typing import Any

import torch

from ..options import score_options
from .attention_operators import cast, run_attention

__all__ = ["attention_varlen", "check_starts"]


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    max_seq_q: int,
    max_seq_kv: int,
    *,
    causal: bool | str = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention of sequences that are packed one after the other, without padding.

    q: (total_q, heads, head_dim), k and v: (total_kv, kv_heads, head_dim). Sequence b has the queries cu_seqlens_q[b] to
    cu_seqlens_q[b + 1] - 1, and likewise keys; the starts are int32, one more than there are sequences. max_seq_q and
    max_seq_kv: at least the longest length; the host does not read the starts. Other options as for attention(), for each
    sequence by itself. A query without visible keys gives zeros. return_lse: also return the log-sum-exp of the scores,
    float32 (heads, total_q), without a gradient.

    Rows before the first sequence and after the last one give zeros, and the lse -inf.

    Differentiable with respect to q, k, v, alibi_slopes and sinks.
    """
    check_starts("q", q, cu_seqlens_q, max_seq_q)
    check_starts("kv", k, cu_seqlens_kv, max_seq_kv)
    q, k, v = cast(q, q, k, v)
    tensors = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks}
    tensors |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_kv": cu_seqlens_kv}
    options = {"seq_q": max_seq_q, "seq_kv": max_seq_kv, **score_options(causal, window, scale, softcap)}
    result = run_attention("attention_varlen", tensors, options)
    return tuple(result) if return_lse else result[0]


def check_starts(of: str, packed: torch.Tensor, starts: torch.Tensor, longest: int) -> None:
    """Raise ValueError for starts of packed sequences that cannot be ones. of: "q" or "kv"."""
    if starts.dim() != 1 or not starts.shape[0]:
        shape = tuple(starts.shape)
        raise ValueError(f"cu_seqlens_{of} has the shape {shape}; expected one start more than there are sequences")
    if longest < 0:
        raise ValueError(f"max_seq_{of} is {longest}; allowed: 0 or more")
    if packed.dim() != 3:
        raise ValueError(f"{of[0]} has {packed.dim()} dimensions; expected 3: total_{of}, heads, head_dim")
