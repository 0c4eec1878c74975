"""Traced functions: what they compute is what PyTorch computes, and a trace is reused only while it is right."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, noop_mask, or_masks

import tunesmith.torch as tt
from tunesmith import mods

SEQ = 6
BYTES = torch.tensor([0, 1, 2, 127, 200, 255], dtype=torch.uint8)
NUMBERS = torch.tensor([-3, -1, 0, 1, 2, 7])
EIGHTH = numpy.float64(0.125)
TWO = numpy.int64(2)

#: Scores that are added, of positions alone.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "difference of bytes": lambda q, k: BYTES[q] - BYTES[k],
    "bytes and literals": lambda q, k: BYTES[q] - 3 + (BYTES[k] * 2) // 3 - (BYTES[k] % 7),
    "negated bytes": lambda q, k: -BYTES[q] + (~BYTES[k] & 15),
    "squared bytes": lambda q, k: BYTES[q] ** 2,
    "bytes and integers": lambda q, k: BYTES[q] - NUMBERS[k],
    "bytes and positions": lambda q, k: BYTES[q] - k,
    "compared bytes": lambda q, k: torch.where(BYTES[q] - BYTES[k] > 100, 1.0, 0.0),
    "chosen bytes": lambda q, k: torch.where(q > k, BYTES[q], 1) - 2,
    "added truth values": lambda q, k: (q > k) + (q >= k),
    "multiplied truth values": lambda q, k: (q > k) * (k > 1),
    "logical functions of integers": lambda q, k: torch.logical_and(NUMBERS[q], 2 * k) ^ torch.logical_not(k),
    "scalars of NumPy": lambda q, k: (q - k) * EIGHTH + TWO * numpy.float32(0.5),
    "powers": lambda q, k: (q - k) ** 3,
    "negative indices": lambda q, k: NUMBERS[q - k],
    "the least of NaN": lambda q, k: torch.where(torch.minimum((q - k) * float("nan"), q) < 100, 1, 0),
    "floor division": lambda q, k: NUMBERS[q] // 2 + NUMBERS[k] % -3,
    "a large float": lambda q, k: torch.where((q - k) * 1.0 < 1e300, 1, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_those_of_torch(name: str) -> None:
    function = FUNCTIONS[name]
    q, k, v = torch.zeros(1, 1, SEQ, 8), torch.zeros(1, 1, SEQ, 8), torch.eye(SEQ, 8)[None, None]
    o = tt.attention(q, k, v, layout="bhsd", score_mod=lambda score, b, h, i, j: score + function(i, j) / 64)
    at = torch.arange(SEQ, dtype=torch.int32)
    values = [[torch.as_tensor(function(at[i], at[j])).double() for j in range(SEQ)] for i in range(SEQ)]
    expected = torch.softmax(torch.tensor(values, dtype=torch.float64) / 64, -1)
    # Weights of exponentials of float32 scores below 1000.
    torch.testing.assert_close(o[0, 0, :, :SEQ].double(), expected, rtol=0, atol=1000 * 2.0**-24)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda score, b, h, q, k: (q > k) - (k > q), "two truth values"),
        (lambda score, b, h, q, k: score + 2**70, "more than 64 bits"),
    ],
)
def test_what_torch_rejects_is_rejected(function: Any, reason: str) -> None:
    with pytest.raises(mods.TraceError, match=reason):
        mods.trace(function, "score_mod")


SETTINGS = types.ModuleType("settings")
SETTINGS.reach = 3


class Options:
    reach = 3


def of_module(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q - k < SETTINGS.reach


def of_class(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q - k < Options.reach


def of_inner_function(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (lambda x: x < Options.reach)(q - k)


def of_attribute_by_text(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q - k < getattr(Options, "reach")  # noqa: B009


@pytest.mark.parametrize(
    ("function", "holder"),
    [(of_module, SETTINGS), (of_class, Options), (of_inner_function, Options), (of_attribute_by_text, Options)],
)
def test_an_attribute_that_changes_is_seen(function: Any, holder: Any) -> None:
    holder.reach = 3
    first = mods.trace(function, "mask_mod")
    assert "< (3)" in first.source
    holder.reach = 4
    assert "< (4)" in mods.trace(function, "mask_mod").source


def test_a_value_of_a_tensor_that_changes_is_seen() -> None:
    reach = torch.tensor(3)

    def near(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q - k < reach.item()

    assert "< (3)" in mods.trace(near, "mask_mod").source
    reach.fill_(4)
    assert "< (4)" in mods.trace(near, "mask_mod").source


def test_the_dtype_of_a_parameter_that_changes_is_seen() -> None:
    layer = torch.nn.Linear(2, 3)

    bias = layer.bias
    q = torch.randn(1, 3, SEQ, 8)

    def biased(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + bias[h] * (i - j)

    tt.attention(q, q, q, layout="bhsd", score_mod=biased)
    layer.bfloat16()
    bias = layer.bias
    o = tt.attention(q, q, q, layout="bhsd", score_mod=biased)
    wide = bias.detach().float()
    expected = tt.attention(q, q, q, layout="bhsd", score_mod=lambda s, b, h, i, j: s + wide[h] * (i - j))
    torch.testing.assert_close(o, expected, rtol=0, atol=0)


def test_masks_that_torch_combines() -> None:
    def near(b: Any, h: Any, q: Any, k: Any) -> Any:
        return abs(q - k) < 3

    def first(b: Any, h: Any, q: Any, k: Any) -> Any:
        return k == 0

    def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q >= k

    q = torch.randn(1, 2, SEQ, 8)
    o = tt.attention(q, q, q, layout="bhsd", mask_mod=and_masks(or_masks(near, first), causal))
    expected = tt.attention(q, q, q, layout="bhsd", mask_mod=lambda b, h, i, j: ((abs(i - j) < 3) | (j == 0)) & (i >= j))
    torch.testing.assert_close(o, expected, rtol=0, atol=0)
    assert "return static_cast<bool>(true)" in mods.trace(noop_mask, "mask_mod").source


def test_plain_functions_are_traced_once() -> None:
    slopes = torch.randn(3)

    def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.where(q >= k, score - slopes[h] * abs(q - k).float(), score * 0.5) + slopes.shape[0]

    assert mods.trace(alibi, "score_mod") is mods.trace(alibi, "score_mod")
