"""Losses of float64 logits: accuracy of float64, and torch.autograd.gradcheck."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith.torch as tt
from tunesmith.torch.losses import FORWARD

EPS = 2.0**-52
# Tolerances of the difference of two results: lse is less than 8, so rounding it is an error of up to 2 EPS in each,
# absolute in a loss and relative in a probability. 8 EPS are twice both; sums over rows and classes may add 64 EPS of their
# result.


def _logits(shape: tuple[int, ...]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


def _targets(shape: tuple[int, ...], classes: int) -> torch.Tensor:
    targets = torch.randint(classes, shape, generator=torch.Generator().manual_seed(7))
    targets.view(-1)[1] = -100
    return targets


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(9, 3), (9, 1000), (9, 33, 4), (3, 7, 5, 4)], ids=str)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_pytorch(reduction: str, shape: tuple[int, ...], label_smoothing: float, weighted: bool) -> None:
    logits, targets = _logits(shape), _targets(shape[:1] + shape[2:], shape[1])
    weight = torch.rand(shape[1], dtype=torch.float64) + 0.5 if weighted else None
    loss = tt.cross_entropy(logits, targets, weight, reduction=reduction, label_smoothing=label_smoothing)
    same = logits.detach().clone().requires_grad_()
    exact = torch.nn.functional.cross_entropy(same, targets, weight, reduction=reduction, label_smoothing=label_smoothing)
    assert loss.dtype == torch.float64
    torch.testing.assert_close(loss, exact, rtol=64 * EPS, atol=8 * EPS)
    upstream = torch.rand_like(loss)
    (gradient,), (other,) = torch.autograd.grad(loss, logits, upstream), torch.autograd.grad(exact, same, upstream)
    torch.testing.assert_close(gradient, other, rtol=64 * EPS, atol=8 * EPS)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 3)], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        {},
        {"label_smoothing": 0.2},
        {"z_loss": 0.1},
        {"softcap": 3.0, "scale": 0.7},
        {"ignore_index": 2},
        {"return_lse": True},
    ],
    ids=str,
)
def test_gradcheck(reduction: str, shape: tuple[int, ...], call: dict[str, Any]) -> None:
    targets = _targets(shape[:1] + shape[2:], shape[1])
    if "ignore_index" in call:
        targets.clamp_(min=0)
    assert torch.autograd.gradcheck(lambda x: tt.cross_entropy(x, targets, reduction=reduction, **call), (_logits(shape),))


@pytest.mark.parametrize("layout", ["transposed", "channels_last", "expanded"])
def test_gradcheck_of_layouts(layout: str) -> None:
    if layout == "transposed":
        logits, make = _logits((5, 6)), lambda x: x.t()
    elif layout == "channels_last":
        logits, make = _logits((2, 3, 4, 5)), lambda x: x.movedim(-1, 1)
    else:
        logits, make = _logits((1, 5)), lambda x: x.expand(6, 5)
    shape = make(logits).shape
    targets = _targets(shape[:1] + shape[2:], shape[1])
    assert torch.autograd.gradcheck(lambda x: tt.cross_entropy(make(x), targets), (logits,))


def test_gradcheck_with_weights_of_any_dtype() -> None:
    targets, weight = _targets((6,), 5), torch.rand(5) + 0.5
    for given in (weight, weight.double()):
        assert torch.autograd.gradcheck(lambda x, w=given: tt.cross_entropy(x, targets, w), (_logits((6, 5)),))


def test_the_loss_of_a_confident_row_is_not_zero() -> None:
    """Nothing is computed in float32, or by subtracting a probability from 1."""
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        logits[0, 0] = 60
    loss, lse = tt.cross_entropy(logits, torch.tensor([0]), return_lse=True)
    loss.backward()
    rest = torch.tensor(-60.0, dtype=torch.float64).exp()
    torch.testing.assert_close(loss.detach(), rest, rtol=8 * EPS, atol=0)
    torch.testing.assert_close(logits.grad[0, 1], rest, rtol=512 * EPS, atol=0)  # from lse, which is 60 rounded
    assert lse.dtype == torch.float64


def test_transforms_and_meta_tensors() -> None:
    logits, targets = _logits((6, 5)), _targets((6,), 5)
    (exact,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, targets), logits)
    torch.testing.assert_close(
        torch.func.grad(tt.cross_entropy)(logits.detach(), targets), exact, rtol=64 * EPS, atol=8 * EPS
    )
    rows = torch.vmap(lambda x, t: tt.cross_entropy(x, t, reduction="none"))(logits.detach()[:, None], targets[:, None])
    each = torch.nn.functional.cross_entropy(logits.detach(), targets, reduction="none")
    torch.testing.assert_close(rows, each[:, None], rtol=64 * EPS, atol=8 * EPS)
    meta = torch.ops.tunesmith.cross_entropy(
        logits.detach().to("meta"), targets.to("meta"), None, *FORWARD.values(reduction="none", lse_low=True)
    )
    assert [one.dtype for one in meta] == [torch.float64] * 3


def test_without_classes_or_rows() -> None:
    for shape in ((0, 5), (3, 0)):
        logits, targets = torch.empty(shape, dtype=torch.float64), torch.full(shape[:1], -100)
        loss, lse = tt.cross_entropy(logits, targets, reduction="sum", return_lse=True)
        assert (loss.dtype, lse.dtype) == (torch.float64, torch.float64)
        assert loss == 0


def test_what_has_no_float64_says_so() -> None:
    logits, targets = torch.randn(4, 5, dtype=torch.float64), torch.tensor([1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"logits are torch\.float64; expected torch\.float32"):
        tt.cross_entropy(logits, torch.softmax(logits, -1))
    with pytest.raises(ValueError, match="float64"):
        tt.linear_cross_entropy(logits, torch.randn(5, 5, dtype=torch.float64), targets)
