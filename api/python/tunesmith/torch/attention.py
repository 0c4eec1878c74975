"""attention, with its operators and gradients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ..mods import Mod, Traced, trace
from .launching import (
    DTYPES,
    Gradient,
    Launcher,
    Prepared,
    autocast_dtype,
    call,
    check_shape,
    eager_launcher,
    is_compiling,
    is_eager,
    is_transformed,
    launch,
    launcher,
    lines_of,
    needs_grad,
    no_context,
    no_second_derivative,
    one_line,
    register_fake,
    transformable,
)

__all__ = ["attention"]

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_ARRAYS = "Tensor? alibi_slopes, Tensor? sinks, Tensor? rng_state, Tensor[] mod_arrays"
_OPTIONS = (
    "str layout, str causal, int window_left, int window_right, float scale, float softcap, float dropout, "
    "str score_mod, str mask_mod, str aux"
)
_LIBRARY.define(f"attention(Tensor q, Tensor k, Tensor v, {_ARRAYS}, {_OPTIONS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_ARRAYS}, {_OPTIONS}, "
    "str daux, bool deterministic) -> (Tensor, Tensor, Tensor, Tensor[])"
)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool | str = False,
    window: tuple[int | None, int | None] = (None, None),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    rng_state: torch.Tensor | None = None,
    score_mod: Mod | str | None = None,
    mask_mod: Mod | str | None = None,
    layout: str = "bshd",
    return_lse: bool = False,
) -> Any:
    """softmax(scale * q k^T) v for each head.

    q: (batch, seq_q, heads, head_dim), k and v: (batch, seq_kv, kv_heads, head_dim), or with heads before seq if layout is
    "bhsd"; kv_heads divides heads. causal: True aligns the last query with the last key, as "bottom-right"; "top-left" the
    first ones. window: visible keys before and after a query's position. alibi_slopes, sinks: float32, one for each head.
    dropout: probability with which a weight is dropped; the others are divided by 1 - dropout. rng_state: its seed and
    offset, int64 (2) on the device; default: drawn from torch's generator, so torch.manual_seed() and CUDA graphs work as
    they do for torch's dropout. Equal numbers give an equal mask, whichever kernel runs.
    score_mod(score, b, h, q, k) and mask_mod(b, h, q, k): Python functions of numbers, traced to CUDA (tunesmith.mods), or
    CUDA source. return_lse: also return the log-sum-exp of the scores, float32 (batch, heads, seq_q), without a gradient.

    Differentiable with respect to q, k, v and the tensors that score_mod reads. Under autocast, q, k and v are cast as
    torch's attention casts them.
    """
    if score_mod is None and mask_mod is None and not dropout and not is_compiling():
        result = _eager(return_lse, layout, causal, window, scale, softcap)(q, k, v, alibi_slopes, sinks, None)
        if result is not NotImplemented:
            return result
    dtype = autocast_dtype(q)
    if dtype is not None:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    score, mask = trace(score_mod, "score_mod"), trace(mask_mod, "mask_mod")
    options = _options(layout, causal, window, scale, softcap, dropout, score, mask)
    if not dropout:
        rng_state = None
    elif rng_state is None:
        rng_state = torch.randint(2**62, (2,), device=q.device)
    arrays = [*score.arrays, *mask.arrays]
    if is_transformed() and not arrays:
        result = _transformed(q, k, v, alibi_slopes, sinks, rng_state, arrays, *options)
    elif is_eager(q, k, v, *arrays) and needs_grad(q, k, v, *arrays):
        result = _Attention.apply(q, k, v, alibi_slopes, sinks, rng_state, *options, *arrays)
    else:
        result = torch.ops.tunesmith.attention(q, k, v, alibi_slopes, sinks, rng_state, arrays, *options)
    return tuple(result) if return_lse else result[0]


def _options(
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
    dropout: float,
    score: Traced,
    mask: Traced,
) -> tuple[Any, ...]:
    """Return the options of the operators."""
    return (
        layout,
        *score_options(causal, window, scale, softcap),
        float(dropout),
        one_line(score.source),
        one_line(mask.source),
        _aux(score, mask),
    )


def score_options(
    causal: bool | str, window: tuple[int | None, int | None], scale: float | None, softcap: float
) -> tuple[str, int, int, float, float]:
    """Return causal, window_left, window_right, scale and softcap as operators take them: -1 and 0 for what is absent."""
    if isinstance(causal, bool):
        causal = "bottom-right" if causal else "none"
    left, right = (-1 if side is None else side for side in window)
    return causal, left, right, 0.0 if scale is None else float(scale), float(softcap)


def score_fields(causal: str, window_left: int, window_right: int, scale: float, softcap: float) -> dict[str, Any]:
    """Return the fields of what score_options() returned."""
    given = {"window_left": (window_left, -1), "window_right": (window_right, -1), "scale": (scale, 0.0)}
    present = {name: value for name, (value, absent) in given.items() if value != absent}
    return {"causal": causal, "softcap": softcap, **present}


def gradients_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, tuple[Sequence[int], torch.dtype]]:
    """Return the outputs of attention_backward."""
    return {"dq": (q.shape, q.dtype), "dk": (k.shape, k.dtype), "dv": (v.shape, v.dtype)}


def _aux(score: Traced, mask: Traced) -> str:
    """Declare the arrays that the traced functions read."""
    return ";".join([*score.declarations, *mask.declarations])


def _tensor_fields(name: str, tensor: torch.Tensor, layout: str) -> dict[str, int] | None:
    """Return the strides of q, k, v, o or a gradient; None if no kernel reads them."""
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        return None
    batch, outer, inner, _ = tensor.stride()
    seq, head = (outer, inner) if layout == "bshd" else (inner, outer)
    return {f"{name}_batch_stride": batch, f"{name}_seq_stride": seq, f"{name}_head_stride": head}


def _fields(tensors: dict[str, torch.Tensor], options: Sequence[Any]) -> dict[str, Any] | None:
    layout, *of_scores, dropout, score_mod, mask_mod, aux = options
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    if any(tensor.dim() != 4 for tensor in (q, k, v)):
        raise ValueError(f"q has {q.dim()} dimensions; expected 4, in the order of layout '{layout}'")
    seq, heads = (1, 2) if layout == "bshd" else (2, 1)
    check_shape("k", k, q.shape[0], *k.shape[1:3], q.shape[3])
    check_shape("v", v, *k.shape[:3], v.shape[3])
    for name in ("o", "dout"):
        if name in tensors:
            check_shape(name, tensors[name], *q.shape[:3], v.shape[3])
    fields: dict[str, Any] = {
        "batch": q.shape[0],
        "heads": q.shape[heads],
        "kv_heads": k.shape[heads],
        "seq_q": q.shape[seq],
        "seq_kv": k.shape[seq],
        "head_dim": q.shape[3],
        "head_dim_v": v.shape[3],
        "dtype": DTYPES[q.dtype],
        "layout": layout,
        **score_fields(*of_scores),
    }
    if dropout:
        fields.update(dropout=dropout, rng_state=True)
    texts = {"score_mod": lines_of(score_mod), "mask_mod": lines_of(mask_mod), "aux": aux}
    fields.update({name: text for name, text in texts.items() if text})
    for name, tensor in tensors.items():
        strides = _tensor_fields(name, tensor, layout)
        if strides is None:
            return None
        fields.update(strides)
    return fields


def _names(aux: str) -> list[str]:
    return [declaration.split(":")[0] for declaration in _split(aux)]


def _split(names: str) -> list[str]:
    return names.split(";") if names else []


def _output_shapes(q: torch.Tensor, v: torch.Tensor, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    seq, heads = (1, 2) if layout == "bshd" else (2, 1)
    return (*q.shape[:3], v.shape[3]), (q.shape[0], q.shape[heads], q.shape[seq])


def _prepare(*options: Any) -> Any:
    def prepare(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        alibi_slopes: torch.Tensor | None,
        sinks: torch.Tensor | None,
        rng_state: torch.Tensor | None,
        *mod_arrays: torch.Tensor,
    ) -> Prepared | None:
        fields = _fields({"q": q, "k": k, "v": v}, options)
        if fields is None or not all(
            tensor is None or tensor.is_contiguous() for tensor in (alibi_slopes, sinks, rng_state, *mod_arrays)
        ):
            return None
        fields.update(alibi=alibi_slopes is not None, sinks=sinks is not None)
        tensors = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks, "rng_state": rng_state}
        tensors.update(zip(_names(options[-1]), mod_arrays, strict=True))
        o, lse = _output_shapes(q, v, options[0])
        return launch("attention", fields, tensors, {"o": (o, q.dtype), "lse": (lse, torch.float32)})

    return prepare


@functools.lru_cache(maxsize=512)
def _forward(*options: Any) -> Launcher:
    return launcher("attention", _prepare(*options))


@functools.lru_cache(maxsize=512)
def _eager(
    return_lse: bool,
    layout: str,
    causal: bool | str,
    window: tuple[int | None, int | None],
    scale: float | None,
    softcap: float,
) -> Launcher:
    none = Traced("")
    options = _options(layout, causal, window, scale, softcap, 0.0, none, none)

    def gradient(*tensors: Any) -> Any:
        *forward, dout = tensors
        deterministic = torch.are_deterministic_algorithms_enabled()
        return torch.ops.tunesmith.attention_backward(dout, *forward, None, [], *options, "", deterministic)[:3]

    recording = Gradient(3, 1, (0, 1, 2, 6, 7, 3, 4), gradient)
    returned = 2 if return_lse else 1
    return eager_launcher("attention", _prepare(*options), not_in_autocast=True, returned=returned, gradient=recording)


@functools.lru_cache(maxsize=512)
def _backward(daux: str, deterministic: bool, *options: Any) -> Launcher:
    def prepare(
        dout: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        lse: torch.Tensor,
        alibi_slopes: torch.Tensor | None,
        sinks: torch.Tensor | None,
        rng_state: torch.Tensor | None,
        *mod_arrays: torch.Tensor,
    ) -> Prepared | None:
        fields = _fields({"q": q, "k": k, "v": v, "o": o, "dout": dout}, options)
        if fields is None:
            return None
        fields.update(alibi=alibi_slopes is not None, sinks=sinks is not None, deterministic=deterministic)
        if daux:
            fields["daux"] = daux
        tensors = {
            "dout": dout,
            "q": q,
            "k": k,
            "v": v,
            "o": o,
            "lse": lse,
            "alibi_slopes": alibi_slopes,
            "sinks": sinks,
            "rng_state": rng_state,
        }
        arrays = dict(zip(_names(options[-1]), mod_arrays, strict=True))
        outputs = gradients_of(q, k, v)
        outputs.update({f"daux_{name}": ((arrays[name].numel(),), torch.float32) for name in _split(daux)})
        return launch("attention_backward", fields, {**tensors, **arrays}, outputs)

    return launcher("attention_backward", prepare)


def run_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi_slopes: torch.Tensor | None,
    sinks: torch.Tensor | None,
    rng_state: torch.Tensor | None,
    mod_arrays: Sequence[torch.Tensor],
    *options: Any,
) -> Any:
    return call(_forward(*options), q, k, v, alibi_slopes, sinks, rng_state, *mod_arrays)


def run_attention_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    alibi_slopes: torch.Tensor | None,
    sinks: torch.Tensor | None,
    rng_state: torch.Tensor | None,
    mod_arrays: Sequence[torch.Tensor],
    *options: Any,
) -> Any:
    *others, daux, deterministic = options
    run = _backward(daux, deterministic, *others)
    dq, dk, dv, *of_arrays = call(run, dout.to(q.dtype), q, k, v, o, lse, alibi_slopes, sinks, rng_state, *mod_arrays)
    return dq, dk, dv, of_arrays


def _fake(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    o, lse = _output_shapes(q, v, others[4])
    return q.new_empty(o), q.new_empty(lse, dtype=torch.float32)


def _fake_backward(dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    arrays, aux, daux = others[5], others[-3], others[-2]
    lengths = {name: array.numel() for name, array in zip(_names(aux), arrays, strict=True)}
    of_arrays = [q.new_empty((lengths[name],), dtype=torch.float32) for name in _split(daux)]
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), of_arrays


class _Attention(torch.autograd.Function):
    """The eager path with autograd: the launcher without the dispatcher."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        alibi_slopes: Any,
        sinks: Any,
        rng_state: Any,
        *others: Any,
    ) -> Any:
        options, arrays = others[:10], others[10:]
        o, lse = call(_forward(*options), q, k, v, alibi_slopes, sinks, rng_state, *arrays)
        ctx.save_for_backward(q, k, v, o, lse, alibi_slopes, sinks, rng_state, *arrays)
        ctx.options, ctx.count = options, 6 + len(others)
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
        dq, dk, dv, of_arrays = _gradients(ctx, dout)
        return dq, dk, dv, *[None] * (ctx.count - 3 - len(of_arrays)), *of_arrays


def _gradients(ctx: Any, dout: torch.Tensor) -> tuple[Any, ...]:
    """Return dq, dk, dv, and the gradient or None of each array of score_mod and mask_mod."""
    q, k, v, o, lse, alibi_slopes, sinks, rng_state, *arrays = ctx.saved_tensors
    deterministic = torch.are_deterministic_algorithms_enabled()
    wanted = {name for name, array in zip(_names(ctx.options[-1]), arrays, strict=True) if array.requires_grad}
    daux = ";".join(name for name in _names(ctx.options[-1]) if name in wanted)
    backward = _transformed_backward if is_transformed() else torch.ops.tunesmith.attention_backward
    dq, dk, dv, found = backward(
        dout, q, k, v, o, lse, alibi_slopes, sinks, rng_state, arrays, *ctx.options, daux, deterministic
    )
    left = iter(found)
    of_arrays = [
        next(left).reshape(array.shape).to(array.dtype) if name in wanted else None
        for name, array in zip(_names(ctx.options[-1]), arrays, strict=True)
    ]
    return dq, dk, dv, of_arrays


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, alibi_slopes, sinks, rng_state, arrays, *options = inputs
    ctx.save_for_backward(q, k, v, *output, alibi_slopes, sinks, rng_state, *arrays)
    ctx.options = tuple(options)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
    dq, dk, dv, of_arrays = _gradients(ctx, dout)
    return dq, dk, dv, None, None, None, of_arrays, *[None] * len(ctx.options)


def _gradient_without_arrays(ctx: Any, *douts: Any) -> Any:
    return tuple(None if isinstance(one, list) else one for one in _gradient(ctx, *douts))


_transformed = transformable(torch.ops.tunesmith.attention, _setup_context, _gradient_without_arrays, vmap=True)


_no_second_derivative = no_second_derivative("attention")
_transformed_backward = transformable(torch.ops.tunesmith.attention_backward, no_context, _no_second_derivative, vmap=True)

for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("attention", run_attention, _key)
    _LIBRARY.impl("attention_backward", run_attention_backward, _key)
register_fake("attention", _fake)
register_fake("attention_backward", _fake_backward)
torch.library.register_autograd("tunesmith::attention", _gradient, setup_context=_setup_context)
torch.library.register_autograd("tunesmith::attention_backward", _no_second_derivative, setup_context=no_context)
