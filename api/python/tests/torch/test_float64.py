"""Operations on float64 tensors: accuracy of float64, and torch.autograd.gradcheck."""

from __future__ import annotations

import pytest
import torch

import tunesmith.torch as tt

EPS = 2.0**-52
# Tolerances of the difference of two results. softmax: rounding x - max > -8 changes exp by 2 EPS of it, and there are a
# few more roundings of EPS / 2: 8 EPS. rms_norm has up to 8 roundings (templates/rms_norm/reference.cpp), and PyTorch's
# longer sum more: 16 EPS. Terms of gradients cancel: 64 EPS, or 256 EPS for rms_norm, and as much absolutely.


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("cols", [1, 2, 7, 33, 1000])
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"causal": True}], ids=str)
def test_softmax_and_its_gradients(function: str, cols: int, options: dict[str, float]) -> None:
    x = torch.randn(cols if "causal" in options and cols < 40 else 5, cols, dtype=torch.float64, requires_grad=True)
    if "causal" in options and x.shape[0] != cols:
        pytest.skip("causal is for square matrices")
    y = getattr(tt, function)(x, **options)
    hidden = torch.ones(x.shape).triu(1).bool() if "causal" in options else torch.zeros(x.shape).bool()
    reference = x.detach().clone().requires_grad_()
    masked = (reference * options.get("scale", 1)).masked_fill(hidden, -torch.inf)
    exact = getattr(torch, function)(masked, -1)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, exact, rtol=8 * EPS, atol=0)
    weights = torch.randn_like(y).masked_fill(hidden, 0)
    (y.masked_fill(hidden, 0) * weights).sum().backward()
    (exact.masked_fill(hidden, 0) * weights).sum().backward()
    torch.testing.assert_close(x.grad, reference.grad, rtol=64 * EPS, atol=64 * EPS)


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize(
    "call", [{}, {"dim": 0}, {"scale": 1.7}, {"dim": 1, "scale": 0.5}, {"dtype": torch.float64}, {"safe": True}], ids=str
)
def test_gradcheck(function: str, call: dict[str, float]) -> None:
    x = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: getattr(tt, function)(x, **call), (x,))
    assert torch.autograd.gradgradcheck(lambda x: getattr(tt, function)(x, **call), (x,))


def test_the_kernel_is_of_float64() -> None:
    """Nothing falls back to PyTorch or to float32: neighbouring inputs of float64 have different results."""
    x = torch.zeros(1, 64, dtype=torch.float64)
    nudged = x.clone()
    nudged[0, 0] = 1e-12
    assert (tt.softmax(nudged) - tt.softmax(x))[0, 0] > 1e-14


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_dtype_converts_first_as_in_pytorch(function: str) -> None:
    x = torch.randn(3, 50, requires_grad=True)
    y = getattr(tt, function)(x, dtype=torch.float64)
    torch.testing.assert_close(y, getattr(torch, function)(x.double(), -1), rtol=8 * EPS, atol=0)
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    narrow = getattr(tt, function)(x.detach().double(), dtype=torch.float32)
    torch.testing.assert_close(narrow, getattr(torch, function)(x.detach(), -1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert getattr(tt, function)(x.detach().double()).dtype == torch.float64


def test_into_an_array_and_in_place() -> None:
    x = torch.randn(7, 40, dtype=torch.float64)
    exact = torch.softmax(x, -1)
    out = torch.empty_like(x)
    assert tt.softmax(x, out=out) is out
    torch.testing.assert_close(out, exact, rtol=8 * EPS, atol=0)
    tt.softmax(x, out=x)
    torch.testing.assert_close(x, exact, rtol=8 * EPS, atol=0)


@pytest.mark.parametrize("cols", [1, 7, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_and_its_gradients(cols: int, weighted: bool) -> None:
    x = torch.randn(5, cols, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(cols, dtype=torch.float64, requires_grad=True) if weighted else None
    y = tt.rms_norm(x, weight=weight, eps=1e-5)
    exact = torch.nn.functional.rms_norm(x, (cols,), weight, 1e-5)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, exact, rtol=16 * EPS, atol=0)
    inputs = [x] if weight is None else [x, weight]
    upstream = torch.randn_like(y)
    for ours, theirs in zip(
        torch.autograd.grad(y, inputs, upstream), torch.autograd.grad(exact, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=256 * EPS, atol=256 * EPS)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_gradcheck_of_rms_norm(offset: float) -> None:
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    function = lambda x, weight: tt.rms_norm(x, weight=weight, eps=1e-3, weight_offset=offset)  # noqa: E731
    assert torch.autograd.gradcheck(function, (x, weight), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (x, weight))
    assert torch.autograd.gradcheck(lambda x: tt.rms_norm(x, eps=1e-3), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: tt.rms_norm(x, eps=1e-3), (x,))


def test_rms_norm_has_the_special_rows_of_pytorch() -> None:
    """1 / rms is 0 where the sum of squares overflows float64, as in PyTorch; float32's range does not matter."""
    x = torch.randn(6, 65, dtype=torch.float64)
    x[0, 3], x[1], x[2, 5], x[3, 7], x[4] = 1e200, x[1] * 1e60, torch.inf, torch.nan, 0.0
    y = tt.rms_norm(x, eps=1e-300)
    torch.testing.assert_close(
        y, torch.nn.functional.rms_norm(x, (65,), None, 1e-300), rtol=16 * EPS, atol=0, equal_nan=True
    )
    assert (y[0] == 0).all() and y[1].abs().max() > 1


def test_rms_norm_with_other_weights_and_in_autocast() -> None:
    x, weight = torch.randn(4, 40, dtype=torch.float64), torch.randn(40)
    exact = torch.nn.functional.rms_norm(x, (40,), weight.double(), 1e-5)
    torch.testing.assert_close(tt.rms_norm(x, None, weight, 1e-5), exact, rtol=16 * EPS, atol=0)
    with pytest.raises(ValueError, match=r"weight_dtype is f16; allowed: f64 \(that of x\), f32"):
        tt.rms_norm(x, None, weight.half())
    with torch.autocast("cpu", dtype=torch.bfloat16):  # float64 stays, as in PyTorch's autocast on CUDA
        torch.testing.assert_close(tt.rms_norm(x, None, weight, 1e-5), exact, rtol=16 * EPS, atol=0)
        torch.testing.assert_close(tt.rms_norm(x, None, weight.double(), 1e-5), exact, rtol=16 * EPS, atol=0)
        narrow = weight.bfloat16()
        by_narrow = torch.nn.functional.rms_norm(x, (40,), narrow.double(), 1e-5)
        torch.testing.assert_close(tt.rms_norm(x, None, narrow, 1e-5), by_narrow, rtol=16 * EPS, atol=0)
        assert tt.rms_norm(x.float(), None, weight.double()).dtype == torch.float32
