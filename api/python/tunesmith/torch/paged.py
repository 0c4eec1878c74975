"""paged_attention."""

from __future__ import annotations

from typing import Any

import torch

from ..mods import Mod
from ..options import score_options
from .attention_operators import FORWARD, run_attention
from .launchers import Launcher, by_options, eager_launcher
from .transforms import autocast_dtype, is_compiling, reject_gradients
from .varlen import check_starts

__all__ = ["paged_attention"]

#: The tensors of eager calls.
_EAGER = ("q", "k", "v", "alibi_slopes", "sinks", "block_table", "kv_lengths", "k_scale", "v_scale")


def paged_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor | None,
    kv_lengths: torch.Tensor,
    *,
    cu_seqlens_q: torch.Tensor | None = None,
    max_seq_q: int | None = None,
    max_seq_kv: int | None = None,
    causal: bool | str = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    score_mod: Mod | str | None = None,
    mask_mod: Mod | str | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    split_keys: int = 0,
    layout: str = "bshd",
    return_lse: bool = False,
) -> Any:
    """Attention of the latest queries of each sequence over a KV cache in pages: decoding, drafts, chunks of prompts.

    q: (batch, seq_q, heads, head_dim). With cu_seqlens_q, int32 (batch + 1), queries are packed: (total_q, heads, head_dim),
    and sequence b has the queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1. k, v: (pages, page_size, kv_heads, head_dim),
    with any page size from 1 and any strides but head_dim's, such as kv_cache[:, 0] and kv_cache[:, 1] of one array.
    With layout "bhsd", heads come before seq_q and before page_size; packed queries stay as they are. block_table: int32
    (batch, max_pages), the pages of each sequence; None: k and v are (batch, seq_kv, kv_heads, head_dim), without pages.
    kv_lengths: int32 (batch), the keys of each sequence, its queries' keys included. A length of 0 gives zeros and an lse
    of -inf (with sinks: the sink). Entries of the table and slots of the cache beyond a length may hold anything.

    k and v may be torch.float8_e4m3fn, whatever q's dtype is, as kv_append writes them: an element stands for its value
    times a scale. k_scale, v_scale: float32 (1); (kv_heads); (batch, kv_heads); or one for each row, of the shape of k
    without head_dim, in any strides. Without them, the scale is 1.

    causal: True aligns the last query of a sequence with its last key. max_seq_q: at least the most packed queries of a
    sequence; default: all. max_seq_kv: at least the longest length; default: all that a row of the table has room for. A
    tighter bound makes smaller grids; longer lengths count as the bound. Other options as for attention().

    split_keys: a multiple of 64; decoding splits the keys of each sequence in these steps, and a sequence has the same bits
    whatever runs next to it. 0: splits fill the GPU.

    Nothing is read on the host: a CUDA graph serves all steps while shapes stay, with other lengths, tables and starts.
    There is no gradient. Under autocast, q is cast to the dtype of the cache, or to autocast's if the cache has 8 bits.
    return_lse: also return the log-sum-exp of the scores, float32 (batch, heads, seq_q), or (heads, total_q) of packed
    queries. Rows of q that belong to no sequence give zeros and -inf.
    """
    if cu_seqlens_q is None and max_seq_q is not None:
        raise ValueError(f"max_seq_q is {max_seq_q}; allowed: only with cu_seqlens_q")
    if block_table is None and max_seq_kv is not None:
        raise ValueError(f"max_seq_kv is {max_seq_kv}; allowed: only with block_table")
    if (k_scale is None) != (v_scale is None):
        missing, given = ("k_scale", "v_scale") if k_scale is None else ("v_scale", "k_scale")
        raise ValueError(f"{missing} is missing; expected with {given}")
    if score_mod is None and mask_mod is None and cu_seqlens_q is None and not is_compiling():
        run = _eager(return_lse, layout, causal, window, scale, softcap, max_seq_kv, split_keys)
        result = run(q, k, v, alibi_slopes, sinks, block_table, kv_lengths, k_scale, v_scale)
        if result is not NotImplemented:
            return result
    if cu_seqlens_q is not None and layout == "bhsd":  # packed queries have one order
        k, v, layout = k.transpose(1, 2), v.transpose(1, 2), "bshd"
        if k_scale is not None and v_scale is not None and k_scale.dim() == 3:
            k_scale, v_scale = k_scale.transpose(1, 2), v_scale.transpose(1, 2)
    reject_gradients(
        "paged_attention", q=q, k=k, v=v, alibi_slopes=alibi_slopes, sinks=sinks, k_scale=k_scale, v_scale=v_scale
    )
    tensors = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks}
    if cu_seqlens_q is not None:
        max_seq_q = q.shape[0] if max_seq_q is None else max_seq_q
        check_starts("q", q, cu_seqlens_q, max_seq_q)
    if (dtype := autocast_dtype(q)) is not None:
        tensors["q"] = q.to(dtype if k.dtype == torch.float8_e4m3fn else k.dtype)
    tensors |= {"cu_seqlens_q": cu_seqlens_q, "block_table": block_table, "kv_lengths": kv_lengths}
    tensors |= {"k_scale": k_scale, "v_scale": v_scale}
    options = {"layout": layout, "seq_q": max_seq_q, "seq_kv": max_seq_kv, "split_keys": split_keys}
    options |= score_options(causal, window, scale, softcap)
    result = run_attention("paged_attention", tensors, options, score_mod, mask_mod)
    return tuple(result) if return_lse else result[0]


@by_options
def _eager(
    return_lse: bool,
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
    max_seq_kv: int | None,
    split_keys: int,
) -> Launcher:
    values = FORWARD.values(
        layout=layout, seq_kv=max_seq_kv, split_keys=split_keys, **score_options(causal, window, scale, softcap)
    )
    prepare = FORWARD.prepare(values, _EAGER)
    return eager_launcher("paged_attention", prepare, not_in_autocast=True, returned=2 if return_lse else 1)
