"""Implementations that attention is compared with, each built for one cell (family.Family.peers).

If a peer offers several ways, the fastest that a user can call counts: PyTorch's kernels get q, k and v as views of
Tunesmith's (batch, sequence, heads, head_dim) memory or copied to (batch, heads, sequence, head_dim), whichever is faster.
"""
import importlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from suites import attention_grids as grids
from family import DEVICE


def of(o):
    return {"o": o}


def layouts(arrays):
    """Returns (q, k, v) by layout in memory."""
    views = (arrays.q, arrays.k, arrays.v)
    return {"bshd": views, "bhsd": tuple(view.contiguous() for view in views)}


def by_backend(backend, q, k, v, causal):
    """Returns a launch of PyTorch's function with one of its kernels."""
    grouped = q.shape[1] != k.shape[1]

    def launch():
        with sdpa_kernel(backend):
            return of(F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped))

    return launch


def sdpa(backend):
    """Returns the builder of a peer that is one of PyTorch's kernels. PyTorch's causal mask is top-left."""
    def build(cell, arrays, timer):
        if cell.case or (cell.causal == "bottom-right" and not cell.square):
            return None
        works = {name: by_backend(backend, *given, cell.causal != "none") for name, given in layouts(arrays).items()}
        return works[timer.fastest(works)]
    return build


def cudnn_packed(cell, arrays, timer):
    """Decodes with grouped heads: query heads that share a K/V head become queries of one head."""
    if cell.grid != "decode" or cell.heads == cell.kv_heads:
        return None

    def launcher(q, k, v):
        launch = by_backend(SDPBackend.CUDNN_ATTENTION, q.reshape(cell.batch, cell.kv_heads, -1, cell.head_dim), k, v, False)
        return lambda: of(launch()["o"].reshape(arrays.q.shape))

    works = {name: launcher(*given) for name, given in layouts(arrays).items()}
    return works[timer.fastest(works)]


def masks(cell):
    """Returns flex_attention's mask_mod of a cell, or None."""
    def causal(entry, head, query, key):
        return query >= key

    def window(entry, head, query, key):
        return (query >= key) & (query - key <= grids.WINDOW)

    def document(entry, head, query, key):
        return query // grids.DOCUMENT == key // grids.DOCUMENT

    return {"window": window, "document": document}.get(cell.kind, None if cell.causal == "none" else causal)


def scores(cell, slopes):
    """Returns flex_attention's score_mod of a cell, or None."""
    def alibi(score, entry, head, query, key):
        return score - slopes[head] * (query - key).abs()

    def softcap(score, entry, head, query, key):
        return grids.SOFTCAP * torch.tanh(score / grids.SOFTCAP)

    return {"alibi": alibi, "softcap": softcap}.get(cell.kind)


def flex(cell, arrays, timer):
    """Builds flex_attention through torch.compile."""
    if cell.grid not in ("mods", "quick"):
        return None
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch._dynamo.reset()
    mask = masks(cell)
    blocks = create_block_mask(mask, None, None, cell.seq_q, cell.seq_kv, device=DEVICE) if mask else None
    compiled, given, score = torch.compile(flex_attention, dynamic=False), layouts(arrays)["bhsd"], scores(cell, arrays.slopes)
    return lambda: of(compiled(*given, score_mod=score, block_mask=blocks))


def flash4(cell, arrays, timer):
    """Builds FlashAttention-4. Its causal mask is bottom-right."""
    if cell.grid not in ("forward", "quick") or cell.causal == "top-left":
        return None
    function = importlib.import_module("flash_attn.cute").flash_attn_func
    q, k, v = (array.transpose(1, 2) for array in (arrays.q, arrays.k, arrays.v))

    def launch():
        result = function(q, k, v, causal=cell.causal != "none")
        return of((result[0] if isinstance(result, tuple) else result).transpose(1, 2))

    return launch


PEERS = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "flash2": sdpa(SDPBackend.FLASH_ATTENTION), "flash4": flash4,
         "flex": flex, "cudnn_packed": cudnn_packed}
NEEDS = {"flash4": "flash_attn.cute", "flex": "torch.nn.attention.flex_attention"}
