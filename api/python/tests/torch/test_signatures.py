"""Functions that PyTorch has take its arguments, in its order and with its defaults; others those of the description."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import flex_attention as flex

import tunesmith
import tunesmith.torch as tt
from tunesmith import signature
from tunesmith.torch import attention_operators, linear_losses, losses, vocab_parallel
from tunesmith.torch.rms_norm import FORWARD as RMS_NORM
from tunesmith.torch.softmax import FORWARD as SOFTMAX

#: What PyTorch's functions have and ours do not: deprecated, private, or passed on by name.
LEFT_OUT = {"size_average", "reduce", "_stacklevel", "kernel_options", "return_aux"}
#: Defaults that differ: PyTorch deprecates dim=None, None stands for -100, and normalized_shape is the last dimension.
DEFAULTS = {("softmax", "dim"), ("log_softmax", "dim"), ("linear_cross_entropy", "ignore_index")}
DEFAULTS |= {("rms_norm", "normalized_shape")}

SDPA = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]


@pytest.mark.parametrize(
    "name", ["cross_entropy", "softmax", "log_softmax", "rms_norm", "linear_cross_entropy", "flex_attention"]
)
def test_arguments_are_those_of_torch(name: str) -> None:
    theirs: Callable[..., Any] | None = getattr(flex if name == "flex_attention" else functional, name, None)
    if theirs is None:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    wanted = [one for one in inspect.signature(theirs).parameters.values() if one.name not in LEFT_OUT]
    given = inspect.signature(getattr(tt, name)).parameters
    assert [one.name for one in wanted] == [one for one in given if one in {each.name for each in wanted}]
    for one in wanted:
        if (name, one.name) not in DEFAULTS:
            assert given[one.name].default == one.default, one.name
        if one.kind != one.KEYWORD_ONLY and one.name != "dtype":
            assert given[one.name].kind == one.POSITIONAL_OR_KEYWORD, one.name


def test_arguments_of_scaled_dot_product_attention() -> None:
    """PyTorch's is a builtin without a signature; its documentation starts with one."""
    assert list(inspect.signature(tt.scaled_dot_product_attention).parameters) == SDPA
    text = functional.scaled_dot_product_attention.__doc__ or ""
    assert [one.split("=")[0].strip() for one in text[text.index("(") + 1 : text.index(")")].split(",")] == SDPA


def test_the_same_call_gives_the_same() -> None:
    x, target, weight = torch.randn(3, 8), torch.tensor([1, 7, -100]), torch.rand(8)
    for options in (
        {"weight": weight, "ignore_index": -100, "reduction": "sum", "label_smoothing": 0.1},
        {"reduction": "none"},
    ):
        found = [function(x, target, **options) for function in (tt.cross_entropy, functional.cross_entropy)]
        torch.testing.assert_close(*found)
    found = [function(x, dim=0, dtype=torch.float32) for function in (tt.softmax, functional.softmax)]
    torch.testing.assert_close(*found)
    found = [function(x, [8], weight, 1e-5) for function in (tt.rms_norm, functional.rms_norm)]
    torch.testing.assert_close(*found)


#: Options of operators that arguments of other names give.
GIVEN_BY = {
    **{"window_left": "window", "window_right": "window", "out_dtype": "dtype", "targets": "target", "aux": "score_mod"},
    **{"seq_q": "max_seq_q", "seq_kv": "max_seq_kv", "dhidden": "input", "dweight": "linear_weight", "dbias": "linear_bias"},
    "lse_low": "input",  # for its gradient
}
FUNCTIONS = {
    "softmax": (SOFTMAX["softmax"], [tt.softmax]),
    "log_softmax": (SOFTMAX["log_softmax"], [tt.log_softmax]),
    "cross_entropy": (losses.FORWARD, [tt.cross_entropy]),
    "linear_cross_entropy": (linear_losses.FORWARD, [tt.linear_cross_entropy]),
    "vocab_parallel_cross_entropy": (vocab_parallel.BACKWARD, [tt.vocab_parallel_cross_entropy]),
    "rms_norm": (RMS_NORM, [tt.rms_norm]),
    "attention": (attention_operators.FORWARD, [tt.attention, tt.attention_varlen, tt.paged_attention]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_of_the_description_is_an_argument(name: str) -> None:
    """A new field of a description is an argument, or in LEFT_OUT."""
    operator, functions = FUNCTIONS[name]
    parameters = {one for function in functions for one in inspect.signature(function).parameters}
    assert {GIVEN_BY.get(option, option) for option in operator.options} <= parameters


def test_what_is_left_out_exists() -> None:
    known = {field.name for op in tunesmith._core.operation_names() for field in tunesmith.operation(op).fields}
    known |= {array.name for op in tunesmith._core.operation_names() for array in tunesmith.operation(op).arrays}
    assert known >= signature.LEFT_OUT
