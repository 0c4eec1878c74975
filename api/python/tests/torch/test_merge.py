"""merge_attention_parts: attention over parts of the keys is attention over all keys, with gradients."""

from __future__ import annotations

import math

import pytest
import torch

import tunesmith.torch as tt


def _reference(o: torch.Tensor, lse: torch.Tensor, unit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o and lse of rows, (parts, rows, head_dim) and (parts, rows), by operations of PyTorch."""
    total = torch.logsumexp(lse * unit, 0) / unit
    weights = ((lse - total) * unit).exp()
    return (weights.unsqueeze(-1) * o).sum(0), total


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_parts_of_the_keys(layout: str) -> None:
    torch.manual_seed(1)
    shape = (2, 3, 4, 16) if layout == "bshd" else (2, 4, 3, 16)
    keys = (2, 30, 2, 16) if layout == "bshd" else (2, 2, 30, 16)
    q, k, v = torch.randn(shape), torch.randn(keys), torch.randn(keys)
    dimension = 1 if layout == "bshd" else 2
    whole = tt.attention(q, k, v, layout=layout, return_lse=True)
    parts = [
        tt.attention(q, one.contiguous(), other.contiguous(), layout=layout, return_lse=True)
        for one, other in zip(k.split(11, dimension), v.split(11, dimension), strict=True)
    ]
    found = tt.merge_attention_parts(
        torch.stack([o for o, _ in parts]), torch.stack([lse for _, lse in parts]), layout=layout
    )
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lse_base", ["e", "two"])
def test_rows_their_gradients_and_compile(lse_base: str) -> None:
    torch.manual_seed(2)
    unit = 1.0 if lse_base == "e" else math.log(2)
    o = torch.randn(5, 7, 24, requires_grad=True)
    lse = torch.randn(5, 7, requires_grad=True)
    weight, of_lse = torch.randn(7, 24), torch.randn(7)

    def gradients(function: object) -> tuple[torch.Tensor, ...]:
        found = function(o, lse)  # type: ignore[operator]
        loss = (found[0] * weight).sum() + (found[1] * of_lse).sum()
        return (*found, *torch.autograd.grad(loss, (o, lse)))

    expected = gradients(lambda o, lse: _reference(o, lse, unit))
    torch.testing.assert_close(gradients(lambda o, lse: tt.merge_attention_parts(o, lse, lse_base=lse_base)), expected)
    compiled = torch.compile(
        lambda o, lse: tt.merge_attention_parts(o, lse, lse_base=lse_base), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(gradients(compiled), expected)


def test_parts_without_keys_and_gaps() -> None:
    o = torch.full((3, 2, 4, 8), torch.nan)
    lse = torch.full((3, 4, 2), -torch.inf)
    o[1], lse[1] = 2, 0.5
    lse[1, 0, 1] = -torch.inf  # head 0 of query 1 has no keys at all
    wide = torch.stack([o, o], 1)[:, 0]
    wide.requires_grad_()
    found, total = tt.merge_attention_parts(wide, lse.requires_grad_(), out_dtype=torch.bfloat16)
    assert found.dtype == torch.bfloat16
    expected = torch.full((2, 4, 8), 2.0)
    expected[1, 0] = 0
    torch.testing.assert_close(found.float(), expected)
    assert total[0, 1] == -torch.inf
    assert total.sum() == -torch.inf
    found.float().sum().backward()
    assert wide.grad is not None
    assert not wide.grad.isnan().any()
    assert lse.grad is not None
    assert not lse.grad.isnan().any()


def test_errors() -> None:
    o = torch.zeros(2, 3, 8)
    with pytest.raises(ValueError, match=r"lse_parts is \(2, 4\); expected \(2, 3\)"):
        tt.merge_attention_parts(o, torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"lse_parts is torch.float64; expected torch.float32"):
        tt.merge_attention_parts(o, torch.zeros(2, 3, dtype=torch.float64))
