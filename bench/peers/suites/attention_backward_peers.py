"""Implementations that attention backward is compared with, each built for one cell (family.Family.peers).

The forward pass runs once, outside of what is timed, except in the grid `pair`. PyTorch's kernels get q, k, v and dout as
views of Tunesmith's (batch, sequence, heads, head_dim) memory or copied to (batch, heads, sequence, head_dim), whichever is
faster.
"""
import importlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from suites import attention_peers
from family import DEVICE


def leaves(*arrays):
    return [array.detach().requires_grad_() for array in arrays]


def gradients(o, inputs, dout):
    return dict(zip(("dq", "dk", "dv"), torch.autograd.grad(o, inputs, dout, retain_graph=True)))


def launcher(cell, forward, inputs, dout, turned=False):
    """Returns a function that computes the gradients of `forward(*inputs)`, in `pair` after the forward pass.

    `turned`: sequence and heads are swapped in the gradients."""
    def back(found):
        return {name: array.transpose(1, 2) for name, array in found.items()} if turned else found

    if cell.grid == "pair":
        def both():
            with torch.enable_grad():
                return back(gradients(forward(*inputs), inputs, dout))
        return both
    with torch.enable_grad():
        o = forward(*inputs)
    return lambda: back(gradients(o, inputs, dout))


def sdpa(backend):
    """Returns the builder of a peer that is one of PyTorch's kernels. PyTorch's causal mask is top-left."""
    def build(cell, arrays, timer):
        if cell.case or (cell.causal == "bottom-right" and not cell.square):
            return None
        grouped = cell.heads != cell.kv_heads

        def forward(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=cell.causal != "none", enable_gqa=grouped)

        views = (arrays.q, arrays.k, arrays.v, arrays.dout)
        if not arrays.timed:
            return launcher(cell, forward, leaves(*views[:3]), views[3])
        works = {}
        for name, given in {"bshd": views, "bhsd": tuple(view.contiguous() for view in views)}.items():
            works[name] = launcher(cell, forward, leaves(*given[:3]), given[3])
        return works[timer.fastest(works)]
    return build


def flash4(cell, arrays, timer):
    """Builds FlashAttention-4. Its causal mask is bottom-right. Where nothing is timed, it has few kinds, because it compiles
    each for seconds."""
    if cell.case not in ("", "softcap", "deterministic") or cell.causal == "top-left":
        return None
    if not arrays.timed and cell.dtype != "bfloat16":
        return None
    function = importlib.import_module("flash_attn.cute").flash_attn_func
    options = {"causal": cell.causal != "none"}
    if cell.case == "softcap":
        from suites import attention_backward_grids
        options["softcap"] = attention_backward_grids.SOFTCAP
    if cell.case == "deterministic":
        options["deterministic"] = True

    def forward(q, k, v):
        result = function(q, k, v, **options)
        return result[0] if isinstance(result, tuple) else result

    q, k, v, dout = (array.transpose(1, 2) for array in (arrays.q, arrays.k, arrays.v, arrays.dout))
    return launcher(cell, forward, leaves(q, k, v), dout, turned=True)


def scores(cell, arrays):
    """Returns flex_attention's score_mod of a cell, or None."""
    def relative(score, entry, head, query, key):
        return score + arrays.bias[head, key - query + cell.seq_q - 1]

    return relative if cell.kind == "relative" else attention_peers.scores(cell, arrays.slopes)


def flex(cell, arrays, timer):
    """Builds flex_attention through torch.compile."""
    if cell.grid not in ("options", "quick") or cell.case == "deterministic":
        return None
    import torch._functorch.config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch._functorch.config.donated_buffer = False  # the backward pass runs more than once on the same graph
    torch._dynamo.reset()
    mask, score = attention_peers.masks(cell), scores(cell, arrays)
    blocks = create_block_mask(mask, None, None, cell.seq_q, cell.seq_kv, device=DEVICE) if mask else None
    compiled, grouped = torch.compile(flex_attention, dynamic=False), cell.heads != cell.kv_heads

    def forward(q, k, v):
        return compiled(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=grouped)

    q, k, v, dout = (array.contiguous() for array in (arrays.q, arrays.k, arrays.v, arrays.dout))
    return launcher(cell, forward, leaves(q, k, v), dout)


PEERS = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "flash2": sdpa(SDPBackend.FLASH_ATTENTION), "flash4": flash4, "flex": flex}
NEEDS = {"flash4": "flash_attn.cute", "flex": "torch.nn.attention.flex_attention"}
