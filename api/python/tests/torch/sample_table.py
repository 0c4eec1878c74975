"""One table of calls: shapes, strides, dtypes, empty tensors and ignored rows, each with its float64 reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import tunesmith.torch as tt

EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


@dataclasses.dataclass(frozen=True)
class Sample:
    """A call. The first inputs are floating-point; `reference` takes the inputs in float64."""

    function: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    make: Callable[[torch.Generator], list[torch.Tensor]]
    #: Allowed error in rounding units of the result's dtype, times the magnitude of the result.
    roundings: float
    magnitude: float = 1.0
    #: What autocast does: "f32" results, inputs "cast" to its dtype, or "none".
    autocast: str = "none"

    def inputs(self, device: str = "cpu") -> list[torch.Tensor]:
        """Return the same inputs on each call, with the strides that the table gives."""
        made = self.make(torch.Generator().manual_seed(5))
        return [_on(tensor, device) for tensor in made]

    def exact(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        return self.reference(*(one.cpu().double() if one.is_floating_point() else one.cpu() for one in inputs))

    def check(self, found: torch.Tensor, inputs: list[torch.Tensor], cast_to: torch.dtype | None = None) -> None:
        """Compare with float64. cast_to: the dtype to which autocast cast the inputs."""
        if cast_to is not None:
            inputs = [one.to(cast_to) if one.is_floating_point() else one for one in inputs]
        exact = self.exact(inputs)
        assert found.shape == exact.shape
        # Sums of at most 64 terms in float32 come on top.
        eps = max(EPS[found.dtype], 0.0 if cast_to is None else EPS[cast_to])
        tolerance = self.magnitude * (self.roundings * eps + 64 * EPS[F32])
        torch.testing.assert_close(found.detach().cpu().double(), exact, rtol=0, atol=tolerance)


def _on(tensor: torch.Tensor, device: str) -> torch.Tensor:
    if device == "cpu":
        return tensor
    storage = torch.empty(tensor.untyped_storage().size() // tensor.element_size(), dtype=tensor.dtype, device=device)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).copy_(tensor)


def _rows(dtype: torch.dtype, *shape: int) -> Callable[[torch.Generator], list[torch.Tensor]]:
    return lambda generator: [torch.randn(shape, generator=generator).to(dtype)]


def _strided(dtype: torch.dtype) -> Callable[[torch.Generator], list[torch.Tensor]]:
    """Rows with a stride that is no multiple of a vector, from an odd address."""
    return lambda generator: [torch.randn((7, 41), generator=generator).to(dtype)[1::2, 3:40]]


def _classes(dtype: torch.dtype, rows: int, ignored: int) -> Callable[[torch.Generator], list[torch.Tensor]]:
    def make(generator: torch.Generator) -> list[torch.Tensor]:
        targets = torch.randint(37, (rows,), generator=generator)
        targets[:ignored] = -100
        return [torch.randn((rows, 37), generator=generator).to(dtype), targets]

    return make


def _linear(dtype: torch.dtype) -> Callable[[torch.Generator], list[torch.Tensor]]:
    def make(generator: torch.Generator) -> list[torch.Tensor]:
        hidden = torch.randn((6, 16), generator=generator).to(dtype)
        weight = (torch.randn((40, 16), generator=generator) / 4).to(dtype)
        return [hidden, weight, torch.tensor([3, -100, 0, 39, 7, 7])]

    return make


def _heads(dtype: torch.dtype, seq: int, transposed: bool = False) -> Callable[[torch.Generator], list[torch.Tensor]]:
    def make(generator: torch.Generator) -> list[torch.Tensor]:
        shape = (2, 2, seq, 16) if transposed else (2, seq, 2, 16)
        made = [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]
        return [one.transpose(1, 2) for one in made] if transposed else made

    return make


def _exact_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads = (one.transpose(1, 2) for one in (q, k, v))
    return functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)


def _attention(make: Any) -> Sample:
    # Weights and the result are rounded; both are of the magnitude of the values.
    return Sample(lambda q, k, v: tt.attention(q, k, v, causal=True), _exact_attention, make, 4, 4.0, "cast")


def _starts(device: torch.device) -> torch.Tensor:
    """Return the starts of sequences of 3 and 6 tokens, without a copy from the host, which a graph could not capture."""
    index = torch.arange(3, device=device, dtype=torch.int32)
    return 3 * index * (index + 1) // 2


def _varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    starts = _starts(q.device)
    return tt.attention_varlen(q, k, v, starts, starts, 6, 6, causal=True)


def _exact_varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    parts = [_exact_attention(q[None, of], k[None, of], v[None, of])[0] for of in (slice(0, 3), slice(3, 9))]
    return torch.cat(parts)


def _tokens(dtype: torch.dtype) -> Callable[[torch.Generator], list[torch.Tensor]]:
    return lambda generator: [torch.randn((9, 2, 16), generator=generator).to(dtype) for _ in range(3)]


def _probabilities(dtype: torch.dtype) -> Callable[[torch.Generator], list[torch.Tensor]]:
    def make(generator: torch.Generator) -> list[torch.Tensor]:
        logits, target = (torch.randn((5, 37), generator=generator) for _ in range(2))
        return [logits.to(dtype), target.softmax(-1)]

    return make


def _softmax(make: Any, dim: int = -1) -> Sample:
    return Sample(lambda x: tt.softmax(x, dim), lambda x: torch.softmax(x, dim), make, 1, 1.0, "f32")


def _cross_entropy(make: Any, **options: Any) -> Sample:
    return Sample(
        lambda x, t: tt.cross_entropy(x, t, **options),
        lambda x, t: functional.cross_entropy(x, t, **options),
        make,
        8,
        8.0,
        "f32",
    )


def _norm(make: Any) -> Sample:
    return Sample(
        lambda x: tt.rms_norm(x, None, None, 1e-5),
        lambda x: functional.rms_norm(x, x.shape[-1:], None, 1e-5),
        make,
        2,
        4.0,
        "f32",
    )


def _layer_norm(make: Any) -> Sample:
    def function(x: torch.Tensor) -> torch.Tensor:
        return tt.layer_norm(x, x.new_ones(x.shape[-1]), x.new_zeros(x.shape[-1]))

    return Sample(function, lambda x: functional.layer_norm(x, x.shape[-1:]), make, 2, 4.0, "f32")


SAMPLES = {
    "softmax": _softmax(_rows(F32, 3, 37)),
    "softmax of one row": _softmax(_rows(F16, 37)),
    "softmax of bf16": _softmax(_rows(BF16, 2, 3, 24)),
    "softmax of strided rows": _softmax(_strided(F32)),
    "softmax of strided bf16": _softmax(_strided(BF16)),
    "softmax over the first dimension": _softmax(_rows(F32, 3, 37), 0),
    "softmax of no rows": _softmax(_rows(F32, 0, 37)),
    "log_softmax": Sample(tt.log_softmax, lambda x: torch.log_softmax(x, -1), _rows(F32, 3, 37), 2, 8.0, "f32"),
    "cross_entropy": _cross_entropy(_classes(F32, 5, 0)),
    "cross_entropy of bf16 with ignored rows": _cross_entropy(_classes(BF16, 5, 2)),
    "cross_entropy of each row": _cross_entropy(_classes(F16, 5, 2), reduction="none"),
    "cross_entropy, smoothed": _cross_entropy(_classes(F32, 5, 1), label_smoothing=0.1, reduction="sum"),
    "cross_entropy, all ignored": _cross_entropy(_classes(F32, 3, 3), reduction="sum"),
    "cross_entropy of no rows": _cross_entropy(_classes(F32, 0, 0), reduction="sum"),
    "cross_entropy of class probabilities": _cross_entropy(_probabilities(F32), label_smoothing=0.1),
    "cross_entropy of class probabilities and bf16": _cross_entropy(_probabilities(BF16), reduction="none"),
    "linear_cross_entropy": Sample(
        tt.linear_cross_entropy, lambda h, w, t: functional.cross_entropy(h @ w.T, t), _linear(F32), 8, 8.0, "cast"
    ),
    "rms_norm": _norm(_rows(F32, 3, 37)),
    "rms_norm of strided bf16": _norm(_strided(BF16)),
    "rms_norm of no rows": _norm(_rows(F32, 0, 37)),
    "layer_norm": _layer_norm(_rows(F32, 3, 37)),
    "layer_norm of strided f16": _layer_norm(_strided(F16)),
    "layer_norm of no rows": _layer_norm(_rows(F32, 0, 37)),
    "attention": _attention(_heads(F32, 9)),
    "attention of transposed bf16": _attention(_heads(BF16, 9, transposed=True)),
    "attention of one query": _attention(_heads(F16, 1)),
    "scaled_dot_product_attention": Sample(
        lambda q, k, v: tt.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        _heads(BF16, 9),
        4,
        4.0,
        "cast",
    ),
    "attention_varlen": Sample(_varlen, _exact_varlen, _tokens(F32), 4, 4.0, "cast"),
    "attention_varlen of bf16": Sample(_varlen, _exact_varlen, _tokens(BF16), 4, 4.0, "cast"),
}
