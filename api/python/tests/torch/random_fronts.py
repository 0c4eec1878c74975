"""Random calls of functions that have torch's arguments, and of row programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from random_draws import Call, Draw


def _heads(draw: Draw) -> tuple[dict[str, torch.Tensor], int]:
    """Return q, k and v of shape (batch, heads, seq, head_dim), and the number of queries for each key head."""
    batch, kv_heads, group = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2])
    dim, dim_v, dtype = draw.choice([8, 16, 12]), draw.choice([8, 16]), draw.dtype()
    seq_q, seq_kv = draw.choice([1, 5, 17]), draw.choice([5, 17])
    return {
        "q": draw.floats("q", batch, kv_heads * group, seq_q, dim, dtype=dtype),
        "k": draw.floats("k", batch, kv_heads, seq_kv, dim, dtype=dtype),
        "v": draw.floats("v", batch, kv_heads, seq_kv, dim_v, dtype=dtype),
    }, group


def _exact(q: Any, k: Any, v: Any, group: int, scale: float | None, change: Callable[[Any], Any]) -> torch.Tensor:
    k, v = (one.repeat_interleave(group, 1) for one in (k, v))
    scores = change(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale))
    return torch.softmax(scores, -1).nan_to_num() @ v


def sdpa(draw: Draw) -> Call:
    import tunesmith.torch as tt

    tensors, group = _heads(draw)
    seq_q, seq_kv = tensors["q"].shape[2], tensors["k"].shape[2]
    options: dict[str, Any] = {"scale": draw.choice([None, 0.5]), "enable_gqa": group > 1}
    inputs = ["q", "k", "v"]
    if draw.maybe():
        options["is_causal"] = True
    elif draw.maybe(0.2):  # which torch computes
        tensors["mask"] = draw.floats("mask", seq_q, seq_kv, dtype=tensors["q"].dtype)
        inputs.append("mask")

    def function(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return tt.scaled_dot_product_attention(q, k, v, mask, **options)

    def reference(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        hidden = torch.ones(seq_q, seq_kv, dtype=torch.bool).triu(1) & options.get("is_causal", False)

        def change(scores: Any) -> Any:
            return (scores if mask is None else scores + mask).masked_fill(hidden, -torch.inf)

        return _exact(q, k, v, group, options["scale"], change)

    return Call(f"scaled_dot_product_attention({options})", function, reference, tensors, inputs, "cast", inputs, 64)


def flex_attention(draw: Draw) -> Call:
    from torch.nn.attention.flex_attention import create_block_mask

    import tunesmith.torch as tt

    tensors, group = _heads(draw)
    while tensors["q"].shape[-1] == 12:  # torch's eager mode has no gradients on the CPU
        tensors, group = _heads(draw)
    batch, heads, seq_q, _ = tensors["q"].shape
    seq_kv = tensors["k"].shape[2]
    scale, inputs = draw.choice([None, 0.5]), ["q", "k", "v"]
    if draw.maybe(0.7):
        tensors["bias"] = draw.floats("bias", heads, seq_q + seq_kv, dtype=draw.dtype())
        inputs.append("bias")
    if draw.maybe(0.5):
        tensors["document"] = draw.integers("document", 3, seq_kv, batch, dtype=draw.choice([torch.int64, torch.uint8]))

    def function(bias: Any = None, document: Any = None) -> Callable[..., Any]:
        def mask_mod(b: Any, h: Any, q: Any, k: Any) -> Any:
            return (document[k, b] != 0) | (k == 0)

        def score_mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
            return score + bias[h, q - k + seq_kv - 1]

        mask = None
        if document is not None:
            mask = create_block_mask(mask_mod, batch, None, seq_q, seq_kv, device="cpu", BLOCK_SIZE=16)
        mod = None if bias is None else score_mod
        return lambda q, k, v: tt.flex_attention(q, k, v, mod, mask, scale, group > 1)

    def reference(q: Any, k: Any, v: Any, bias: Any = None, document: Any = None) -> Any:
        i, j = torch.arange(seq_q)[:, None], torch.arange(seq_kv)

        def change(scores: Any) -> Any:
            scores = scores if bias is None else scores + bias[:, i - j + seq_kv - 1]
            if document is None:
                return scores
            return scores.masked_fill(~((document.mT[:, None, None, :] != 0) | (j == 0)), -torch.inf)

        return _exact(q, k, v, group, scale, change)

    captured = ("bias", "document")
    text = f"flex_attention({scale=}, {group=})"
    return Call(text, function, reference, tensors, inputs, "cast", ["q", "k", "v"], 64, captured, compiles=False)


PROGRAM = """
in x : float[row, col]
in w : float[col]
in g : f32[row]
num eps : f32
mean ms = x * x
out y : float[row, col] = x * rsqrt(ms + eps) * w + g
out s : f32[row] = ms
"""


def row_program(draw: Draw) -> Call:
    import tunesmith.torch as tt

    rows, cols, inner, dtype = draw.choice([1, 5]), draw.choice([1, 7, 32]), draw.choice([(), (), (3,)]), draw.dtype()
    tensors = {
        "x": draw.floats("x", rows, cols, *inner, dtype=dtype),
        "w": draw.floats("w", cols, dtype=dtype),
        "g": draw.floats("g", rows, *inner),
    }

    def function(x: Any, w: Any, g: Any) -> Any:
        return tt.row_program(PROGRAM, x, w, g, numbers={"eps": 0.5})

    def reference(x: Any, w: Any, g: Any) -> Any:
        squares = x.square().mean(1)
        wide = w[:, None] if inner else w
        return x * torch.rsqrt(squares + 0.5)[:, None] * wide + g[:, None], squares

    return Call("row_program()", function, reference, tensors, list(tensors), "none", roundings=32)
