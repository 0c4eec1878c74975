"""The implementation of PyTorch's FlashAttention backend: its functions on CPU tensors, and on a GPU through torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.attention

import tunesmith.torch as tt
from tunesmith.torch import sdpa_backend

pytestmark = pytest.mark.skipif(
    not hasattr(torch.nn.attention, "register_flash_attention_impl"), reason="this PyTorch has no registry"
)

# As in test_attention.py.
CLOSE = {"rtol": 0.0, "atol": 16 * 16 * 2.0**-24}
GRADIENT = {"rtol": 0.0, "atol": 17 * 16 * 16 * 2.0**-24}


def tensors(inside: bool) -> list[torch.Tensor]:
    """(batch, heads, seq, head_dim), with heads or positions next to each other in memory."""
    if inside:
        return [torch.randn(2, 17, 3, 16).transpose(1, 2) for _ in range(4)]
    return [torch.randn(2, 3, 17, 16) for _ in range(4)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_outputs_gradients_and_strides(inside: bool, is_causal: bool) -> None:
    q, k, v, upstream = tensors(inside)
    exact = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    reference = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=is_causal, scale=0.3)
    reference.backward(upstream.double())
    o, lse, cu_q, cu_k, max_q, max_k, rng_state, unused, _ = sdpa_backend.forward(q, k, v, 0.0, is_causal, scale=0.3)
    torch.testing.assert_close(o.double(), reference.detach(), **CLOSE)
    assert (o.stride(), lse.shape, max_q, max_k) == (q.stride(), (2, 3, 17), 17, 17)
    gradients = sdpa_backend.backward(
        upstream, q, k, v, o, lse, cu_q, cu_k, max_q, max_k, 0.0, is_causal, rng_state, unused, scale=0.3
    )
    for ours, theirs, given in zip(gradients, exact, (q, k, v), strict=True):
        torch.testing.assert_close(ours.double(), theirs.grad, **GRADIENT)
        assert ours.stride() == given.stride()


def test_dropout_is_the_same_in_both_passes() -> None:
    q, k, v, upstream = tensors(False)
    torch.manual_seed(3)
    o, lse, *_, rng_state, unused, _ = sdpa_backend.forward(q, k, v, 0.5)
    state = rng_state.view(torch.int64)
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    expected = tt.attention(*leaves, dropout=0.5, rng_state=state, layout="bhsd")
    assert torch.equal(o, expected)
    expected.backward(upstream)
    gradients = sdpa_backend.backward(upstream, q, k, v, o, lse, None, None, 17, 17, 0.5, False, rng_state, unused)
    for ours, leaf in zip(gradients, leaves, strict=True):
        assert torch.equal(ours, leaf.grad)


def test_torch_lists_it_and_does_not_use_it_before() -> None:
    assert "tunesmith" in torch.nn.attention.list_flash_attention_impls()
    assert torch.nn.attention.current_flash_attention_impl() != "tunesmith"
    with pytest.raises(NotImplementedError, match="return_debug_mask"):
        sdpa_backend.forward(*tensors(False)[:3], 0.0, False, True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("inside", [False, True])
def test_torchs_own_function_calls_it(inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    original = sdpa_backend.run_attention

    def counted(*arguments: object) -> object:
        calls.append(True)
        return original(*arguments)

    monkeypatch.setattr(sdpa_backend, "run_attention", counted)
    shape = (2, 200, 4, 64) if inside else (2, 4, 200, 64)
    made = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    q, k, v, upstream = (tensor.transpose(1, 2) if inside else tensor for tensor in made)
    leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    reference = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True)
    reference.backward(upstream.double())
    torch.nn.attention.activate_flash_attention_impl("tunesmith")
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
            o.backward(upstream)
    finally:
        torch.nn.attention.restore_flash_attention_impl()
    assert calls == [True]
    torch.testing.assert_close(o.detach().double(), reference.detach(), rtol=0, atol=4 * 4 * 2.0**-8)
    for ours, theirs in zip(leaves, exact, strict=True):
        assert (ours.grad.double() - theirs.grad).abs().max() <= 4 * 2.0**-8 * theirs.grad.abs().max()
