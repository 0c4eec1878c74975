"""cross_entropy against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith.torch as tt

COLS = 24
# Losses of about 4 and gradients below 1: a few roundings of float32 in sums of at most 40 terms.
CLOSE = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"ignore_index": 3},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.2, "reduction": "sum"},
]


def targets() -> torch.Tensor:
    return torch.tensor([3, 0, -100, COLS - 1, 7])


def options_with_weight(options: dict[str, Any], classes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    if "weight" not in options:
        return options, options
    weight = torch.rand(classes) + 0.5
    return {**options, "weight": weight}, {**options, "weight": weight.double()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_cross_entropy_and_its_gradient(options: dict[str, Any]) -> None:
    logits = torch.randn(5, COLS, requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    ours, theirs = options_with_weight(options, COLS)
    target = targets().where(targets() >= 0, torch.tensor(ours.get("ignore_index", -100)))
    loss = tt.cross_entropy(logits, target, **ours)
    reference = torch.nn.functional.cross_entropy(exact, target, **theirs)
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    upstream = torch.randn_like(loss)
    loss.backward(upstream)
    reference.backward(upstream.double())
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)


@pytest.mark.parametrize("used", ["both", "lse alone", "loss alone"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_gradient_flows_through_lse(options: dict[str, Any], used: str) -> None:
    logits = torch.randn(5, COLS, requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    ours, theirs = options_with_weight(options, COLS)
    target = targets().where(targets() >= 0, torch.tensor(ours.get("ignore_index", -100)))
    loss, lse = tt.cross_entropy(logits, target, return_lse=True, **ours)
    reference = torch.nn.functional.cross_entropy(exact, target, **theirs)
    exact_lse = torch.logsumexp(exact, -1)
    torch.testing.assert_close(lse.detach().double(), exact_lse.detach(), **CLOSE)
    factors = torch.randn(5)  # of ignored rows, too
    for part, total, weights in ((loss, lse, factors), (reference, exact_lse, factors.double())):
        terms = [part.sum()] if used != "lse alone" else []
        terms += [(total * weights).sum()] if used != "loss alone" else []
        sum(terms).backward()
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)


def test_logits_of_more_dimensions() -> None:
    logits, target = torch.randn(2, COLS, 3), torch.randint(COLS, (2, 3))
    loss = tt.cross_entropy(logits, target, reduction="none")
    exact = torch.nn.functional.cross_entropy(logits.double(), target, reduction="none")
    torch.testing.assert_close(loss.double(), exact, **CLOSE)
    one = tt.cross_entropy(logits[0, :, 0], target[0, 0])
    torch.testing.assert_close(one.double(), exact[0, 0], **CLOSE)


def test_z_loss_and_softcap() -> None:
    logits, target = torch.randn(5, COLS), targets()
    loss = tt.cross_entropy(logits, target, z_loss=0.01, softcap=2.0)
    capped = 2 * torch.tanh(logits.double() / 2)
    z = (torch.logsumexp(capped, -1)[target >= 0] ** 2).mean()
    torch.testing.assert_close(loss.double(), torch.nn.functional.cross_entropy(capped, target) + 0.01 * z, **CLOSE)


def test_what_cross_entropy_rejects() -> None:
    with pytest.raises(NotImplementedError, match="class probabilities"):
        tt.cross_entropy(torch.randn(5, COLS), torch.randn(5, COLS))
    with pytest.raises(ValueError, match="target has the shape"):
        tt.cross_entropy(torch.randn(5, COLS), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="label_smoothing is 2"):
        tt.cross_entropy(torch.randn(5, COLS), targets(), label_smoothing=2)
