"""The operators attention and attention_backward: of batches, of packed sequences, and over a paged cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..mods import Mod, trace
from ..signature import names_of
from .operators import Named, Operator
from .texts import one_line
from .transforms import autocast_dtype, is_transformed

#: Bounds of lengths that are in device memory.
_BOUNDS = ("seq_q", "seq_kv")


class _Attention(Operator):
    def structure(self, tensors: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        fields = super().structure(tensors, options)
        scale = tensors.get("k_scale")
        if scale is not None:
            fields["kv_scales"] = _scales(scale, packed=tensors.get("cu_seqlens_kv") is not None)
        return fields

    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        fields = super().fields(tensors, structure)
        if fields is not None:
            if fields.get("kv_dtype") != "e4m3":  # q's, so that an error names the tensor of another one
                fields.pop("kv_dtype", None)
            for bound, total in zip(_BOUNDS, ("total_q", "total_kv"), strict=True):
                # Rows may belong to no sequence; a problem has no more than its sequences can have.
                if total in fields:
                    fields[bound] = max(fields[bound], -(-fields[total] // max(fields["batch"], 1)))
        return fields


def _scales(k_scale: torch.Tensor, packed: bool) -> str:
    """Return which elements of k share a scale. packed: keys have no batch dimension."""
    if k_scale.dim() < 2:
        return "tensor" if k_scale.numel() == 1 else "head"
    return "batch_head" if k_scale.dim() == 2 and not packed else "token_head"


FORWARD = _Attention("attention", also=_BOUNDS, results=("o", "lse"))
BACKWARD = _Attention("attention_backward", without=["dlse"], also=_BOUNDS, results=("dq", "dk", "dv"), rest=True)
#: The gradients of tensors with one number for each head.
_OF_HEADS = {"sinks": "dsinks", "alibi_slopes": "dslopes"}


def run_attention(
    function: str,
    tensors: Named,
    options: dict[str, Any],
    score_mod: Mod | str | None = None,
    mask_mod: Mod | str | None = None,
) -> Any:
    """Return o and lse. function: the name that errors have. tensors, options: by the names of the operation's."""
    score, mask = trace(score_mod, "score_mod"), trace(mask_mod, "mask_mod")
    mods = [*score.arrays, *mask.arrays]
    values = FORWARD.values(
        **options,
        score_mod=one_line(score.source),
        mask_mod=one_line(mask.source),
        aux=";".join([*score.declarations, *mask.declarations]),
    )
    if is_transformed() and not mods:
        for name in _OF_HEADS:
            tensor = tensors.get(name)
            if tensor is not None and torch._C._functorch.is_gradtrackingtensor(tensor):
                raise NotImplementedError(
                    f"tunesmith: {function} has no gradient of {name} under torch.func; use backward()"
                )
    return FORWARD(tensors, values, mods)


def cast(dtype_of: torch.Tensor, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return tensors as autocast casts them."""
    dtype = autocast_dtype(dtype_of)
    return tensors if dtype is None else [tensor.to(dtype) for tensor in tensors]


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    count = len(FORWARD.inputs)
    ctx.save_for_backward(*inputs[:count], *output, *inputs[count])
    ctx.options = inputs[count + 1 :]
    ctx.mark_non_differentiable(output[1])


def backward_options(values: Sequence[Any]) -> dict[str, Any]:
    """Return the forward pass's options that the backward pass has, by name. values: all of the forward pass."""
    return {name: one for name, one in zip(FORWARD.options, values, strict=True) if name in BACKWARD.options}


def _gradient(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
    options = backward_options(ctx.options)
    names = [*FORWARD.inputs, "o", "lse", *names_of(options["aux"])]
    tensors = dict(zip(names, ctx.saved_tensors, strict=True))
    if tensors["kv_lengths"] is not None:
        raise NotImplementedError("tunesmith: attention with kv_lengths has no gradient")
    mods = names[len(FORWARD.inputs) + 2 :]
    transformed = is_transformed()  # torch.func sees no other gradients than those of q, k and v
    others = () if transformed else (*_OF_HEADS, *mods)
    wanted = [name for name in others if tensors[name] is not None and tensors[name].requires_grad]
    values = BACKWARD.values(
        **options,
        **{_OF_HEADS[name]: True for name in wanted if name in _OF_HEADS},
        daux=";".join(name for name in wanted if name in mods),
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    run = BACKWARD.transformed if transformed else BACKWARD.overload
    given = {**tensors, "dout": dout.to(tensors["q"].dtype)}
    dq, dk, dv, found = run(*BACKWARD.arguments(given, values, [tensors[name] for name in mods]))
    gradients = {"q": dq, "k": dk, "v": dv}
    for name, gradient in zip(wanted, found, strict=True):
        gradients[name] = gradient.reshape(tensors[name].shape).to(tensors[name].dtype)
    return *map(gradients.get, FORWARD.inputs), [gradients.get(name) for name in mods], *[None] * len(ctx.options)


FORWARD.differentiable(_setup_context, _gradient)
BACKWARD.not_differentiable("attention")
