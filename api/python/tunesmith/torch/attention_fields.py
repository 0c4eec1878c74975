"""The fields and shapes of attention and its gradients, from the tensors and options of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .launching import DTYPES, check_shape, lines_of

#: The gradients of tensors with one number for each head.
OF_HEADS = {"alibi_slopes": "dslopes", "sinks": "dsinks"}


def score_options(
    causal: bool | str, window: tuple[int | None, int | None], scale: float | None, softcap: float
) -> tuple[str, int, int, float | None, float]:
    """Return causal, window_left, window_right, scale and softcap as operators take them: -1 for an absent side."""
    if isinstance(causal, bool):
        causal = "bottom-right" if causal else "none"
    left, right = (-1 if side is None else side for side in window)
    return causal, left, right, None if scale is None else float(scale), float(softcap)


def score_fields(causal: str, window_left: int, window_right: int, scale: float | None, softcap: float) -> dict[str, Any]:
    """Return the fields of what score_options() returned."""
    given = {"window_left": (window_left, -1), "window_right": (window_right, -1), "scale": (scale, None)}
    present = {name: value for name, (value, absent) in given.items() if value != absent}
    return {"causal": causal, "softcap": softcap, **present}


def gradients_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, others: dict[str, torch.Tensor]
) -> dict[str, tuple[Sequence[int], torch.dtype]]:
    """Return the outputs of attention_backward; others: the other tensors that want a gradient, by name."""
    outputs: dict[str, tuple[Sequence[int], torch.dtype]] = {
        "dq": (q.shape, q.dtype),
        "dk": (k.shape, k.dtype),
        "dv": (v.shape, v.dtype),
    }
    outputs.update(
        {OF_HEADS.get(name, f"daux_{name}"): ((tensor.numel(),), torch.float32) for name, tensor in others.items()}
    )
    return outputs


def fields_of_gradients(others: Iterable[str]) -> dict[str, Any]:
    """Return the fields of attention_backward that enable gradients of other tensors than q, k and v."""
    fields: dict[str, Any] = {OF_HEADS[name]: True for name in others if name in OF_HEADS}
    of_mods = [name for name in others if name not in OF_HEADS]
    if of_mods:
        fields["daux"] = ";".join(of_mods)
    return fields


def wanted_gradients(named: dict[str, torch.Tensor | None]) -> str:
    """Return the names of the tensors that want a gradient, as operators take them."""
    return ";".join(name for name, tensor in named.items() if tensor is not None and tensor.requires_grad)


def spread(named: dict[str, torch.Tensor | None], wanted: str, found: Iterable[torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the gradient of each tensor, None for those that want none."""
    gradients = dict(zip(split_list(wanted), found, strict=True))
    return [
        gradients[name].reshape(tensor.shape).to(tensor.dtype) if name in gradients and tensor is not None else None
        for name, tensor in named.items()
    ]


def check_transforms(operation: str, alibi_slopes: torch.Tensor | None, sinks: torch.Tensor | None) -> None:
    """Raise NotImplementedError if torch.func wants the gradient of a tensor with one number for each head."""
    for name, tensor in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
        if tensor is not None and torch._C._functorch.is_gradtrackingtensor(tensor):
            raise NotImplementedError(f"tunesmith: {operation} has no gradient of {name} under torch.func; use backward()")


def _tensor_fields(name: str, tensor: torch.Tensor, layout: str) -> dict[str, int] | None:
    """Return the strides of q, k, v, o or a gradient; None if no kernel reads them."""
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        return None
    batch, outer, inner, _ = tensor.stride()
    seq, head = (outer, inner) if layout == "bshd" else (inner, outer)
    return {f"{name}_batch_stride": batch, f"{name}_seq_stride": seq, f"{name}_head_stride": head}


def fields_of(tensors: dict[str, torch.Tensor], options: Sequence[Any]) -> dict[str, Any] | None:
    """Return the fields of q, k, v and, for gradients, o and dout; None if no kernel reads their strides."""
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


def names_of(aux: str) -> list[str]:
    """Return the names of the declared arrays."""
    return [declaration.split(":")[0] for declaration in split_list(aux)]


def split_list(joined: str) -> list[str]:
    """Split declarations or names at semicolons."""
    return joined.split(";") if joined else []


def output_shapes(q: torch.Tensor, v: torch.Tensor, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of o and lse."""
    seq, heads = (1, 2) if layout == "bshd" else (2, 1)
    return (*q.shape[:3], v.shape[3]), (q.shape[0], q.shape[heads], q.shape[seq])
