"""attention with gradients: autograd of the operator, of eager calls and under torch.func."""

from __future__ import annotations

from typing import Any

import torch

from .attention_fields import names_of, spread, wanted_gradients
from .attention_operators import forward_launcher
from .launching import call, is_transformed, no_context, no_second_derivative, transformable


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
        o, lse = call(forward_launcher(*options), q, k, v, alibi_slopes, sinks, rng_state, *arrays)
        ctx.save_for_backward(q, k, v, o, lse, alibi_slopes, sinks, rng_state, *arrays)
        ctx.options, ctx.count = options, 6 + len(others)
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
        *gradients, of_arrays = _gradients(ctx, dout)
        return *gradients, *[None] * (ctx.count - 5 - len(of_arrays)), *of_arrays


#: Runs an eager call whose gradients are recorded.
recorded = _Attention.apply


def _gradients(ctx: Any, dout: torch.Tensor) -> tuple[Any, ...]:
    """Return the gradients of q, k, v, alibi_slopes and sinks, and a list of those of the arrays of both mods."""
    q, k, v, o, lse, alibi_slopes, sinks, rng_state, *arrays = ctx.saved_tensors
    deterministic = torch.are_deterministic_algorithms_enabled()
    named = {"alibi_slopes": alibi_slopes, "sinks": sinks, **dict(zip(names_of(ctx.options[-1]), arrays, strict=True))}
    transformed = is_transformed()
    daux = "" if transformed else wanted_gradients(named)
    backward = _transformed_backward if transformed else torch.ops.tunesmith.attention_backward
    dq, dk, dv, found = backward(
        dout, q, k, v, o, lse, alibi_slopes, sinks, rng_state, arrays, *ctx.options, daux, deterministic
    )
    dslopes, dsinks, *of_arrays = spread(named, daux, found)
    return dq, dk, dv, dslopes, dsinks, of_arrays


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, alibi_slopes, sinks, rng_state, arrays, *options = inputs
    ctx.save_for_backward(q, k, v, *output, alibi_slopes, sinks, rng_state, *arrays)
    ctx.options = tuple(options)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, dout: torch.Tensor, _: Any) -> Any:
    *gradients, of_arrays = _gradients(ctx, dout)
    return *gradients, None, of_arrays, *[None] * len(ctx.options)


def _gradient_without_arrays(ctx: Any, *douts: Any) -> Any:
    return tuple(None if isinstance(one, list) else one for one in _gradient(ctx, *douts))


#: Runs a call under torch.func.
transformed = transformable(torch.ops.tunesmith.attention, _setup_context, _gradient_without_arrays, vmap=True)

_no_second_derivative = no_second_derivative("attention")
_transformed_backward = transformable(torch.ops.tunesmith.attention_backward, no_context, _no_second_derivative, vmap=True)

torch.library.register_autograd("tunesmith::attention", _gradient, setup_context=_setup_context)
torch.library.register_autograd("tunesmith::attention_backward", _no_second_derivative, setup_context=no_context)
