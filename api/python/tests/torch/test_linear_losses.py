"""linear_cross_entropy against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith
import tunesmith.torch as tt
from tunesmith.torch import linear_losses

TOKENS, HIDDEN, VOCABULARY = 5, 16, 40
# Losses of about 4 and gradients below 1: a few roundings of float32 in sums of at most 40 terms.
CLOSE = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24}


def targets() -> torch.Tensor:
    return torch.tensor([3, 0, -100, VOCABULARY - 1, 7])


def leaves(dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """hidden, linear_weight and linear_bias, and the same in float64."""
    shapes = [(TOKENS, HIDDEN), (VOCABULARY, HIDDEN), (VOCABULARY,)]
    ours = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    return ours, [tensor.detach().double().requires_grad_() for tensor in ours]


def reference(exact: list[torch.Tensor], **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.nn.functional.linear(*exact)
    return torch.nn.functional.cross_entropy(logits, targets(), **options), torch.logsumexp(logits, -1)


def expect_same_gradients(ours: list[torch.Tensor], exact: list[torch.Tensor], factor: float = 4) -> None:
    for tensor, theirs in zip(ours, exact, strict=True):
        assert tensor.grad is not None and tensor.grad.dtype == tensor.dtype
        torch.testing.assert_close(
            tensor.grad.double(), theirs.grad, rtol=factor * CLOSE["rtol"], atol=factor * CLOSE["atol"]
        )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("return_lse", [False, True])
def test_loss_and_gradients(reduction: str, return_lse: bool) -> None:
    ours, exact = leaves()
    options = {"reduction": reduction, "label_smoothing": 0.1}
    result = tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=ours[2], return_lse=return_lse, **options)
    loss, lse = result if return_lse else (result, None)
    expected, expected_lse = reference(exact, **options)
    torch.testing.assert_close(loss.detach().double(), expected.detach(), **CLOSE)
    total, expected_total = (2 * loss).sum(), (2 * expected).sum()
    if return_lse:
        torch.testing.assert_close(lse.detach().double(), expected_lse.detach(), **CLOSE)
        total, expected_total = total + (lse * lse).sum(), expected_total + (expected_lse * expected_lse).sum()
    total.backward()
    expected_total.backward()
    expect_same_gradients(ours, exact, 32 if return_lse else 4)  # d(lse^2) is up to 10


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_logits(reduction: str, dtype: torch.dtype) -> None:
    ours, exact = leaves(dtype)
    options: dict[str, Any] = {"reduction": reduction}
    loss = tt.linear_cross_entropy(ours[0], ours[1], targets(), fused=True, **options)
    logits = exact[0] @ exact[1].T
    expected = torch.nn.functional.cross_entropy(logits, targets(), **options)
    torch.testing.assert_close(loss.detach().double(), expected.detach(), rtol=1e-5, atol=1e-5)  # no logits are rounded
    (2 * loss).sum().backward()
    (2 * expected).sum().backward()
    # In bfloat16, sums of products of rounded factors, with terms of up to 4.
    expect_same_gradients(ours[:2], exact[:2], 4 if dtype == torch.float32 else 2**12)
    again, exact = leaves(dtype)
    loss, lse = tt.linear_cross_entropy(again[0], again[1], targets(), fused=True, return_lse=True, **options)
    logits = exact[0] @ exact[1].T
    (loss.sum() + (lse * 0.5).sum()).backward()
    expected = torch.nn.functional.cross_entropy(logits, targets(), **options)
    (expected.sum() + (logits.logsumexp(-1) * 0.5).sum()).backward()
    expect_same_gradients(again[:2], exact[:2], 4 if dtype == torch.float32 else 2**12)
    with pytest.raises(tunesmith.Error, match="fused is 1; allowed: only with dtype bf16 or f32 and without f32_logits"):
        tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=ours[2], fused=True)


def test_gradients_of_chosen_inputs() -> None:
    for chosen in ([0], [1], [2], [0, 2], [1, 2]):
        for return_lse in (False, True):
            ours, exact = leaves()
            for at in range(3):
                ours[at].requires_grad_(at in chosen)
            result = tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=ours[2], return_lse=return_lse)
            (result[0] if return_lse else result).backward()
            reference(exact)[0].backward()
            assert [tensor.grad is not None for tensor in ours] == [at in chosen for at in range(3)]
            expect_same_gradients([ours[at] for at in chosen], [exact[at] for at in chosen])


def test_gradient_of_lse_alone_and_a_retained_graph() -> None:
    ours, exact = leaves()
    loss, lse = tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=ours[2], return_lse=True)
    expected = reference(exact)
    lse.sum().backward(retain_graph=True)
    expected[1].sum().backward(retain_graph=True)
    expect_same_gradients(ours, exact)
    loss.backward()
    expected[0].backward()
    expect_same_gradients(ours, exact)


def test_without_bias_and_with_any_shape() -> None:
    hidden = torch.randn(2, 3, HIDDEN, requires_grad=True)
    weight = torch.randn(VOCABULARY, HIDDEN)
    target = torch.arange(6).reshape(2, 3)
    loss, lse = tt.linear_cross_entropy(hidden, weight, target, reduction="none", return_lse=True)
    exact = hidden.detach().double() @ weight.double().T
    expected = torch.nn.functional.cross_entropy(exact.movedim(-1, 1), target, reduction="none")
    assert loss.shape == lse.shape == target.shape
    torch.testing.assert_close(loss.detach().double(), expected, **CLOSE)
    torch.testing.assert_close(lse.detach().double(), torch.logsumexp(exact, -1), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_f32_logits_give_an_exact_lse(dtype: torch.dtype) -> None:
    ours, exact = leaves(dtype)
    arguments = (ours[0], ours[1], targets())
    _, lse = tt.linear_cross_entropy(*arguments, linear_bias=ours[2], return_lse=True, f32_logits=True)
    _, rounded = tt.linear_cross_entropy(*arguments, linear_bias=ours[2], return_lse=True)
    _, expected = reference(exact)
    torch.testing.assert_close(lse.detach().double(), expected.detach(), **CLOSE)
    assert (rounded.double() - expected).abs().max() > 16 * CLOSE["atol"], "16-bit logits are rounded"
    lse.sum().backward()
    expected.sum().backward()
    # The gradient of the logits is rounded to 16 bits, then multiplied with up to 40 values below 4; so is the result.
    expect_same_gradients(ours, exact, 2.0**-8 * 2.0**18 if dtype == torch.bfloat16 else 2.0**-11 * 2.0**18)


def test_matrices_without_alignment() -> None:
    ours, exact = [], []
    for shape in [(TOKENS, 13), (VOCABULARY, 13), (VOCABULARY,)]:
        memory = torch.randn(1 + torch.Size(shape).numel())
        ours.append(memory[1:].reshape(shape).detach().requires_grad_())
        exact.append(memory[1:].reshape(shape).double().detach().requires_grad_())
    assert all(tensor.data_ptr() % 16 for tensor in ours)
    loss = tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=ours[2])
    expected = reference(exact)[0]
    torch.testing.assert_close(loss.detach().double(), expected.detach(), **CLOSE)
    loss.backward()
    expected.backward()
    expect_same_gradients(ours, exact)


@pytest.mark.skipif(not hasattr(torch.nn.functional, "linear_cross_entropy"), reason="torch has none")
def test_takes_the_arguments_of_torch() -> None:
    ours, _ = leaves()
    target = targets().clamp(min=0)
    for arguments in (
        {"linear_bias": ours[2]},
        {"reduction": "none", "ignore_index": 7, "options": None},
        {"weight": torch.rand(VOCABULARY), "ignore_index": None, "label_smoothing": 0.1},
    ):
        expected = torch.nn.functional.linear_cross_entropy(ours[0], ours[1], target, **arguments)
        torch.testing.assert_close(tt.linear_cross_entropy(ours[0], ours[1], target, **arguments), expected)
    one = tt.linear_cross_entropy(ours[0][0], ours[1], target[0])
    torch.testing.assert_close(one, torch.nn.functional.linear_cross_entropy(ours[0][0], ours[1], target[0]))


def test_errors() -> None:
    ours, _ = leaves()
    with pytest.raises(ValueError, match="reduction"):
        tt.linear_cross_entropy(ours[0], ours[1], targets(), reduction="max")
    with pytest.raises(ValueError, match="target has the shape"):
        tt.linear_cross_entropy(ours[0], ours[1], targets()[:3])
    with pytest.raises(ValueError, match="linear_bias has the shape"):
        tt.linear_cross_entropy(ours[0], ours[1], targets(), linear_bias=torch.zeros(3))
    with pytest.raises(NotImplementedError, match="class probabilities"):
        tt.linear_cross_entropy(ours[0], ours[1], torch.rand(TOKENS, VOCABULARY))
    with pytest.raises(NotImplementedError, match="3 dimensions"):
        tt.linear_cross_entropy(ours[0], ours[1][None], targets())
    loss = tt.linear_cross_entropy(ours[0], ours[1], targets(), reduction="none").sum()
    (gradient,) = torch.autograd.grad(loss, ours[0], create_graph=True)
    with pytest.raises((NotImplementedError, RuntimeError)):
        gradient.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_scale_of_a_loss(dtype: torch.dtype) -> None:
    # GradScaler starts with 65536, which float16 does not hold.
    hidden, weight = (torch.randn(shape).to(dtype).requires_grad_() for shape in ((6, 16), (40, 16)))
    target = torch.tensor([3, -100, 0, 39, 7, 7])
    (tt.linear_cross_entropy(hidden, weight, target) * 65536).backward()
    exact = [one.detach().double().requires_grad_() for one in (hidden, weight)]
    (torch.nn.functional.cross_entropy(exact[0] @ exact[1].mT, target) * 65536).backward()
    for ours, theirs in zip((hidden, weight), exact, strict=True):
        assert ours.grad is not None and ours.grad.dtype == dtype
        # Logits and their gradients are rounded to the dtype, and so are sums of 40 and 6 of them, and their multiples.
        scale = theirs.grad.abs().max().item()
        assert scale < 60000
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=0, atol=16 * torch.finfo(dtype).eps * scale)


def test_gradients_are_scaled_in_place_and_its_graph_is_not_retained() -> None:
    hidden, weight = torch.randn(6, 16, requires_grad=True), torch.randn(40, 16, requires_grad=True)
    loss = tt.linear_cross_entropy(hidden, weight, torch.tensor([3, 1, 0, 39, 7, 7]))
    loss.backward(torch.tensor(2.0), retain_graph=True)
    with pytest.raises(RuntimeError, match="its graph cannot be retained"):
        loss.backward()


def test_the_kernel_scales_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    scale, results = linear_losses._scale, []
    monkeypatch.setattr(linear_losses, "_scale", lambda *tensors: results.append(scale(*tensors)))
    hidden, weight = torch.randn(6, 16, requires_grad=True), torch.randn(40, 16, requires_grad=True)
    target = torch.tensor([3, 1, 0, 39, 7, 7])
    (3 * tt.linear_cross_entropy(hidden, weight, target)).backward()
    assert results == [None, None], "not NotImplemented, which leaves the product to PyTorch"
    tripled = hidden.grad
    hidden.grad = None
    tt.linear_cross_entropy(hidden, weight, target).backward()
    assert tripled is not None and hidden.grad is not None
    torch.testing.assert_close(tripled, 3 * hidden.grad, rtol=0, atol=0)
