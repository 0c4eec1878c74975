"""The operators attention and attention_backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .attention_fields import fields_of, fields_of_gradients, gradients_of, names_of, output_shapes, split_list
from .launching import Launcher, Prepared, by_options, call, launch, launcher, register_fake

_LIBRARY = torch.library.Library("tunesmith", "FRAGMENT")
_ARRAYS = "Tensor? alibi_slopes, Tensor? sinks, Tensor? rng_state, Tensor[] mod_arrays"
_OPTIONS = (
    "str layout, str causal, int window_left, int window_right, float? scale, float softcap, float dropout, "
    "str score_mod, str mask_mod, str aux"
)
_LIBRARY.define(f"attention(Tensor q, Tensor k, Tensor v, {_ARRAYS}, {_OPTIONS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_ARRAYS}, {_OPTIONS}, "
    "str daux, bool deterministic) -> (Tensor, Tensor, Tensor, Tensor[])"
)


def prepare_attention(*options: Any) -> Any:
    """Return the function that prepares calls with these options."""

    def prepare(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        alibi_slopes: torch.Tensor | None,
        sinks: torch.Tensor | None,
        rng_state: torch.Tensor | None,
        *mod_arrays: torch.Tensor,
    ) -> Prepared | None:
        fields = fields_of({"q": q, "k": k, "v": v}, options)
        if fields is None:
            return None
        fields.update(alibi=alibi_slopes is not None, sinks=sinks is not None)
        tensors = {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks, "rng_state": rng_state}
        tensors.update(zip(names_of(options[-1]), mod_arrays, strict=True))
        o, lse = output_shapes(q, v, options[0])
        return launch("attention", fields, tensors, {"o": (o, q.dtype), "lse": (lse, torch.float32)})

    return prepare


@by_options
def forward_launcher(*options: Any) -> Launcher:
    """Return the launcher of calls with these options."""
    return launcher("attention", prepare_attention(*options))


@by_options
def _backward_launcher(daux: str, deterministic: bool, *options: Any) -> Launcher:
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
        fields = fields_of({"q": q, "k": k, "v": v, "o": o, "dout": dout}, options)
        if fields is None:
            return None
        fields.update(alibi=alibi_slopes is not None, sinks=sinks is not None, deterministic=deterministic)
        fields.update(fields_of_gradients(split_list(daux)))
        tensors: dict[str, Any] = {
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
        tensors.update(zip(names_of(options[-1]), mod_arrays, strict=True))
        outputs = gradients_of(q, k, v, {name: tensors[name] for name in split_list(daux)})
        return launch("attention_backward", fields, tensors, outputs)

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
    """Run the operator attention."""
    return call(forward_launcher(*options), q, k, v, alibi_slopes, sinks, rng_state, *mod_arrays)


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
    """Run the operator attention_backward. daux: the tensors other than q, k and v that want a gradient, by name."""
    *others, daux, deterministic = options
    run = _backward_launcher(daux, deterministic, *others)
    dq, dk, dv, *of_arrays = call(run, dout.to(q.dtype), q, k, v, o, lse, alibi_slopes, sinks, rng_state, *mod_arrays)
    return dq, dk, dv, of_arrays


def _fake(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    o, lse = output_shapes(q, v, others[4])
    return q.new_empty(o), q.new_empty(lse, dtype=torch.float32)


def _fake_backward(dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: Any) -> Any:
    (slopes, sinks), arrays, aux, daux = others[2:4], others[5], others[-3], others[-2]
    named = {"alibi_slopes": slopes, "sinks": sinks, **dict(zip(names_of(aux), arrays, strict=True))}
    of_arrays = [q.new_empty((named[name].numel(),), dtype=torch.float32) for name in split_list(daux)]
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), of_arrays


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("attention", run_attention, _key)
    _LIBRARY.impl("attention_backward", run_attention_backward, _key)
register_fake("attention", _fake)
register_fake("attention_backward", _fake_backward)
