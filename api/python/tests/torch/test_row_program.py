"""row_program against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch

import tunesmith.torch as tt

NORM = """
in x : float[row, col]
in w : f32[col]
num eps : f32 = 1e-6
mean ms = x * x
out y : float[row, col] = x * rsqrt(ms + eps) * (1 + w)
out scale : f32[row] = sqrt(ms)
"""
QUANTIZE = """
in x : float[row, col]
max largest = abs(x)
q = max(largest, 1e-12) / 448
out z : e4m3[row, col] = x / q
out scale : f32[row] = q
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_norm(dtype: torch.dtype) -> None:
    x, w = torch.randn(5, 48, dtype=dtype), torch.randn(48)
    y, scale = tt.row_program(NORM, x, w, numbers={"eps": 0.25})
    exact = x.double().square().mean(-1)
    expected = x.double() * (exact + 0.25).rsqrt()[:, None] * (1 + w.double())
    # Sums of 48 squares and a few roundings; then one rounding to y's type.
    torch.testing.assert_close(scale.double(), exact.sqrt(), rtol=64 * 2.0**-24, atol=0)
    torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(dtype).eps / 2 + 64 * 2.0**-24, atol=1e-30)


def test_fp8_outputs() -> None:
    x = torch.randn(3, 64)
    z, scale = tt.row_program(QUANTIZE, x)
    assert z.dtype == torch.float8_e4m3fn
    # Half a unit of a type with three bits after the leading one, and its smallest number.
    torch.testing.assert_close(z.float() * scale[:, None], x, rtol=2.0**-4, atol=float(scale.max()) * 2.0**-10)


def test_inputs_that_are_not_contiguous_or_aligned() -> None:
    x = torch.randn(5, 49)
    w = torch.zeros(48)
    for view in (x[:, 1:], x.flatten()[1:193].view(4, 48)):
        torch.testing.assert_close(tt.row_program(NORM, view, w), tt.row_program(NORM, view.clone(), w))


def test_compile_has_no_graph_breaks() -> None:
    x, w = torch.randn(4, 48), torch.randn(48)
    compiled = torch.compile(lambda x, w: tt.row_program(NORM, x * 2, w)[0] + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, w), tt.row_program(NORM, x * 2, w)[0] + 1)


def test_what_it_rejects() -> None:
    x, w = torch.randn(4, 48), torch.randn(48)
    with pytest.raises(ValueError, match="the inputs x, w; 1 are given"):
        tt.row_program(NORM, x)
    with pytest.raises(ValueError, match="x f32, w f32"):
        tt.row_program(NORM, x, w.half())
    with pytest.raises(ValueError, match="did you mean 'sqrt'"):
        tt.row_program("in x : float[row, col]\nout y : float[row, col] = sqr(x)", x)
    with pytest.raises(NotImplementedError, match="no gradient"):
        tt.row_program(NORM, x.requires_grad_(), w)
