"""attention of packed sequences."""

from __future__ import annotations

import math
from typing import Any

import torch

from .attention_fields import (
    check_transforms,
    fields_of_gradients,
    gradients_of,
    score_fields,
    score_options,
    split_list,
    spread,
    wanted_gradients,
)
from .launching import (
    DTYPES,
    Launcher,
    Prepared,
    autocast_dtype,
    by_options,
    call,
    check_shape,
    is_transformed,
    launch,
    launcher,
    no_context,
    no_second_derivative,
    register_fake,
    transformable,
)

__all__ = ["attention_varlen"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_STARTS = "Tensor cu_seqlens_q, Tensor cu_seqlens_kv, Tensor? alibi_slopes, Tensor? sinks"
_OPTIONS = "int max_seq_q, int max_seq_kv, str causal, int window_left, int window_right, float? scale, float softcap"
_LIBRARY.define(f"attention_varlen(Tensor q, Tensor k, Tensor v, {_STARTS}, {_OPTIONS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"attention_varlen_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_STARTS}, {_OPTIONS}, "
    "str daux, bool deterministic) -> (Tensor, Tensor, Tensor, Tensor[])"
)


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
    for name, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_kv", cu_seqlens_kv)):
        if starts.dim() != 1 or not starts.shape[0]:
            raise ValueError(f"{name} has the shape {tuple(starts.shape)}; expected one start more than there are sequences")
    for name, most in (("max_seq_q", max_seq_q), ("max_seq_kv", max_seq_kv)):
        if most < 0:
            raise ValueError(f"{name} is {most}; allowed: 0 or more")
    if q.dim() != 3:
        raise ValueError(f"q has {q.dim()} dimensions; expected 3: total_q, heads, head_dim")
    dtype = autocast_dtype(q)
    if dtype is not None:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    options = (max_seq_q, max_seq_kv, *score_options(causal, window, scale, softcap))
    if is_transformed():
        check_transforms("attention_varlen", alibi_slopes, sinks)
    run = _transformed if is_transformed() else torch.ops.tunesmith.attention_varlen
    result = run(q, k, v, cu_seqlens_q, cu_seqlens_kv, alibi_slopes, sinks, *options)
    return tuple(result) if return_lse else result[0]


def _fields(tensors: dict[str, torch.Tensor], starts: tuple[Any, ...], options: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return the fields of both operations; None if no kernel reads the tensors."""
    max_seq_q, max_seq_kv, *of_scores = options
    cu_seqlens_q, cu_seqlens_kv, alibi_slopes, sinks = starts
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    for name, tensor in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_kv", cu_seqlens_kv)):
        if tensor.dtype != torch.int32:
            raise ValueError(f"{name} is {tensor.dtype}; expected torch.int32")
    check_shape("k", k, *k.shape[:2], q.shape[2])
    check_shape("v", v, *k.shape[:2], *v.shape[2:3])
    for name in ("o", "dout"):
        if name in tensors:
            check_shape(name, tensors[name], *q.shape[:2], v.shape[2])
    batch = cu_seqlens_q.shape[0] - 1
    # Rows may belong to no sequence; a problem has no more than its sequences can have.
    most_q, most_kv = (max(most, -(-rows.shape[0] // max(batch, 1))) for most, rows in ((max_seq_q, q), (max_seq_kv, k)))
    fields: dict[str, Any] = {
        "batch": batch,
        "heads": q.shape[1],
        "kv_heads": k.shape[1],
        "seq_q": most_q,
        "seq_kv": most_kv,
        "head_dim": q.shape[2],
        "head_dim_v": v.shape[2],
        "dtype": DTYPES[q.dtype],
        "varlen": True,
        "total_q": q.shape[0],
        "total_kv": k.shape[0],
        "alibi": alibi_slopes is not None,
        "sinks": sinks is not None,
        **score_fields(*of_scores),
    }
    for name, tensor in tensors.items():
        if tensor.stride(2) != 1 and tensor.shape[2] > 1:
            return None
        fields.update({f"{name}_seq_stride": tensor.stride(0), f"{name}_head_stride": tensor.stride(1)})
    return fields


def _named(starts: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("cu_seqlens_q", "cu_seqlens_kv", "alibi_slopes", "sinks"), starts, strict=True))


@by_options
def _forward(*options: Any) -> Launcher:
    def prepare(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *starts: Any) -> Prepared | None:
        tensors = {"q": q, "k": k, "v": v}
        fields = _fields(tensors, starts, options)
        if fields is None:
            return None
        outputs = {
            "o": ((*q.shape[:2], v.shape[2]), q.dtype),
            "lse": ((q.shape[1], q.shape[0]), torch.float32),
        }
        # No kernel writes rows that belong to no sequence.
        filled = {"o": 0.0, "lse": -math.inf}
        return launch("attention", fields, {**tensors, **_named(starts)}, outputs, filled=filled)

    return launcher("attention_varlen", prepare)


@by_options
def _backward(daux: str, deterministic: bool, *options: Any) -> Launcher:
    def prepare(
        dout: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        lse: torch.Tensor,
        *starts: Any,
    ) -> Prepared | None:
        fields = _fields({"q": q, "k": k, "v": v, "o": o, "dout": dout}, starts, options)
        if fields is None:
            return None
        fields.update(deterministic=deterministic, **fields_of_gradients(split_list(daux)))
        tensors = {"dout": dout, "q": q, "k": k, "v": v, "o": o, "lse": lse, **_named(starts)}
        outputs = gradients_of(q, k, v, {name: tensors[name] for name in split_list(daux)})
        return launch("attention_backward", fields, tensors, outputs, filled={"dq": 0.0, "dk": 0.0, "dv": 0.0})

    return launcher("attention_varlen_backward", prepare)


def _kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    return call(_forward(*others[4:]), q, k, v, *others[:4])


def _backward_kernel(dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    o, lse, *starts_and_options = others
    starts, options, (daux, deterministic) = starts_and_options[:4], starts_and_options[4:-2], starts_and_options[-2:]
    run = _backward(daux, deterministic, *options)
    dq, dk, dv, *of_heads = call(run, dout.to(q.dtype), q, k, v, o, lse, *starts)
    return dq, dk, dv, of_heads


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:7])
    ctx.options = inputs[7:]
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
    transformed = is_transformed()
    backward = _transformed_backward if transformed else torch.ops.tunesmith.attention_varlen_backward
    named = dict(zip(("alibi_slopes", "sinks"), ctx.saved_tensors[-2:], strict=True))
    daux = "" if transformed else wanted_gradients(named)
    deterministic = torch.are_deterministic_algorithms_enabled()
    *gradients, found = backward(dout, *ctx.saved_tensors, *ctx.options, daux, deterministic)
    return *gradients, None, None, *spread(named, daux, found), *[None] * len(ctx.options)


_no_second_derivative = no_second_derivative("attention_varlen")
_transformed = transformable(torch.ops.tunesmith.attention_varlen, _setup_context, _gradient, vmap=True)
_transformed_backward = transformable(
    torch.ops.tunesmith.attention_varlen_backward, no_context, _no_second_derivative, vmap=True
)


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("attention_varlen", _kernel, _key)
    _LIBRARY.impl("attention_varlen_backward", _backward_kernel, _key)
register_fake(
    "attention_varlen",
    lambda q, k, v, *_: (
        q.new_empty((*q.shape[:2], v.shape[2])),
        q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32),
    ),
)
register_fake(
    "attention_varlen_backward",
    lambda dout, q, k, v, *others: (
        q.new_empty(q.shape),
        k.new_empty(k.shape),
        v.new_empty(v.shape),
        [q.new_empty((q.shape[1],), dtype=torch.float32) for _ in split_list(others[-2])],
    ),
)
torch.library.register_autograd("tunesmith::attention_varlen", _gradient, setup_context=_setup_context)
torch.library.register_autograd("tunesmith::attention_varlen_backward", _no_second_derivative, setup_context=no_context)
