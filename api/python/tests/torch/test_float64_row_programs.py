"""Row programs on float64 tensors: accuracy of float64, and torch.autograd.gradcheck."""

from __future__ import annotations

import pytest
import torch

import tunesmith.torch as tt

EPS = 2.0**-52
MIXED = """
in x : f64[row, col]
in r : bf16[row, col]
in w : f32[col]
num eps : f64 = 1e-300
h = x + r
mean ms = h * h
out y : f64[row, col] = h * rsqrt(ms + eps) * w
out z : bf16[row, col] = 0.7 * h
out scale : f64[row] = sqrt(ms)
"""
OWN = """
in x : float[row, col]
in w : float[col]
num alpha : f32 = 0.1
lse l = x * w
topk[3] v, i = x
out y : float[row, col] = gelu(x) * alpha + tanh(x - l) + scatter(i, v)
out top : float[row, 3] = v * 0.3
"""


def test_layer_norm() -> None:
    x, w, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 300), (300,), (300,)))
    y = tt.layer_norm(x, w, b, eps=1e-5)
    exact = torch.nn.functional.layer_norm(x, (300,), w, b, 1e-5)
    # Roundings of the mean and the variance, of PyTorch's longer sums, and of the products: below 32 of them.
    torch.testing.assert_close(y, exact, rtol=16 * EPS, atol=16 * EPS)
    with torch.autocast("cpu", torch.bfloat16):
        assert tt.layer_norm(x, w, b, eps=1e-5).dtype == torch.float64


def test_arrays_of_other_types_convert_exactly() -> None:
    x, r, w = torch.randn(7, 90, dtype=torch.float64), torch.randn(7, 90).bfloat16(), torch.randn(90)
    y, z, scale = tt.row_program(MIXED, x, r, w)
    h = x + r
    exact = h.square().mean(-1).sqrt()
    assert [one.dtype for one in (y, z, scale)] == [torch.float64, torch.bfloat16, torch.float64]
    torch.testing.assert_close(scale, exact, rtol=16 * EPS, atol=0)
    torch.testing.assert_close(y, h / exact[:, None] * w, rtol=16 * EPS, atol=0)
    torch.testing.assert_close(z.double(), 0.7 * h, rtol=2.0**-8, atol=0)


def test_numbers_and_constants_have_the_digits_of_float64() -> None:
    x = torch.ones(1, 8, dtype=torch.float64)
    y = tt.row_program("in x : float[row, col]\nnum a : f32 = 0.1\nout y : float[row, col] = x * a * 0.7", x)
    assert torch.equal(y, x * 0.1 * 0.7)
    y = tt.row_program("in x : float[row, col]\nnum a : f32\nout y : float[row, col] = x * a", x, numbers={"a": 1 / 3})
    assert torch.equal(y, x / 3)


@pytest.mark.parametrize("name", ["layer_norm", "softmin", "swiglu", "geglu"])
def test_gradcheck_of_shipped_programs(name: str) -> None:
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    r = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, dtype=torch.float64, requires_grad=True)
    b = torch.randn(6, dtype=torch.float64, requires_grad=True)
    inputs = {"layer_norm": (x, w, b), "swiglu": (x, r), "geglu": (x, r)}.get(name, (x,))
    function = getattr(tt, name)
    numbers = {"eps": 1e-5} if name == "layer_norm" else {}
    assert torch.autograd.gradcheck(lambda *inputs: function(*inputs, **numbers), inputs)
    if name in ("layer_norm", "softmin"):  # the second derivatives of the others have more arrays than a program
        assert torch.autograd.gradgradcheck(lambda *inputs: function(*inputs, **numbers), inputs)


def test_gradcheck_of_a_program() -> None:
    x = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    w = torch.randn(7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: tt.row_program(OWN, x, w), (x, w))
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tt.softmin(x, dim=1), (x,))
