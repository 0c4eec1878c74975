"""Attention on CUDA tensors against PyTorch in float64, and its deterministic gradients. Skipped without a GPU."""

from __future__ import annotations

import torch
from gpu_support import needs_gpu
from torch.nn.attention.flex_attention import create_block_mask

import tunesmith.torch as tt

pytestmark = needs_gpu


def test_attention_and_its_gradients() -> None:
    tensors = [torch.randn(2, 4, 200, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    o = tt.scaled_dot_product_attention(*tensors, is_causal=True)
    reference = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    reference.backward(upstream.double())
    # P and dS are rounded to bf16 before the second product.
    torch.testing.assert_close(o.detach().double(), reference.detach(), rtol=0, atol=4 * 4 * 2.0**-8)
    for ours, theirs in zip(tensors, exact, strict=True):
        assert (ours.grad.double() - theirs.grad).abs().max() <= 4 * 2.0**-8 * theirs.grad.abs().max()


def test_varlen_attention_and_its_gradients() -> None:
    lengths, heads, kv_heads, head_dim = (130, 1, 77), 4, 2, 64
    q = torch.randn(sum(lengths), heads, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (
        torch.randn(sum(lengths), kv_heads, head_dim, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in "kv"
    )
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    o = tt.attention_varlen(q, k, v, starts, starts, max(lengths), max(lengths), causal=True)
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    parts = []
    for one in zip(*(tensor.split(lengths) for tensor in exact), strict=True):
        of_heads = (tensor.transpose(0, 1)[None] for tensor in one)
        parts.append(torch.nn.functional.scaled_dot_product_attention(*of_heads, is_causal=True, enable_gqa=True)[0])
    reference = torch.cat(parts, 1).transpose(0, 1)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    reference.backward(upstream.double())
    torch.testing.assert_close(o.detach().double(), reference.detach(), rtol=0, atol=4 * 4 * 2.0**-8)
    for ours, theirs in zip((q, k, v), exact, strict=True):
        assert (ours.grad.double() - theirs.grad).abs().max() <= 4 * 2.0**-8 * theirs.grad.abs().max()


def test_flex_attention() -> None:
    tensors = [torch.randn(2, 2, 160, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    slopes = torch.tensor([0.5, 0.25], device="cuda")

    def alibi(score, b, h, q, kv):
        return score - slopes[h] * (q - kv)

    def causal(b, h, q, kv):
        return q >= kv

    block_mask = create_block_mask(causal, None, None, 160, 160, BLOCK_SIZE=128)
    assert tt.why_not_flex_attention(*tensors, alibi, block_mask) is None
    o = tt.flex_attention(*tensors, alibi, block_mask)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    position = torch.arange(160, device="cuda")
    distance = position[:, None] - position
    scores = exact[0] @ exact[1].mT / 8 - slopes.double()[:, None, None] * distance
    reference = torch.softmax(scores.masked_fill(distance < 0, -torch.inf), -1) @ exact[2]
    upstream = torch.randn_like(o)
    o.backward(upstream)
    reference.backward(upstream.double())
    torch.testing.assert_close(o.detach().double(), reference.detach(), rtol=0, atol=4 * 4 * 2.0**-8)
    for ours, theirs in zip(tensors, exact, strict=True):
        assert (ours.grad.double() - theirs.grad).abs().max() <= 4 * 2.0**-8 * theirs.grad.abs().max()


def test_dropout() -> None:
    dropout, seq = 0.25, 128
    q, k, v = (torch.randn(2, 4, seq, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    state = torch.tensor([3, 5], device="cuda")
    eye = torch.eye(seq, device="cuda", dtype=torch.bfloat16).expand(2, 4, seq, seq)
    kept = tt.attention(q.detach(), k.detach(), eye, layout="bhsd", dropout=dropout, rng_state=state) != 0
    pairs = kept.numel()  # a binomial distribution: six standard deviations, and weights that bf16 rounds to zero
    assert abs(int((~kept).sum()) - dropout * pairs) < 6 * (pairs * dropout * (1 - dropout)) ** 0.5 + 2.0**-8 * pairs
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    reference = (torch.softmax(exact[0] @ exact[1].mT / 8, -1) * kept / (1 - dropout)) @ exact[2]
    o = tt.attention(q, k, v, layout="bhsd", dropout=dropout, rng_state=state)
    upstream = torch.randn_like(o)
    o.backward(upstream)
    reference.backward(upstream.double())
    torch.testing.assert_close(o.detach().double(), reference.detach(), rtol=0, atol=4 * 4 * 2.0**-8)
    for ours, theirs in zip((q, k, v), exact, strict=True):
        assert (ours.grad.double() - theirs.grad).abs().max() <= 4 * 2.0**-8 * theirs.grad.abs().max()
    torch.manual_seed(11)
    first, second = (tt.scaled_dot_product_attention(q, k, v, dropout_p=dropout) for _ in range(2))
    torch.manual_seed(11)
    assert torch.equal(first, tt.scaled_dot_product_attention(q, k, v, dropout_p=dropout))
    assert not torch.equal(first, second)


def test_traced_functions() -> None:
    q, k, v = (torch.randn(1, 2, 130, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25], device="cuda")
    o = tt.attention(
        q,
        k,
        v,
        layout="bhsd",
        score_mod=lambda s, b, h, i, j: s - slopes[h] * abs(i - j),
        mask_mod=lambda b, h, i, j: i >= j,
    )
    position = torch.arange(130, device="cuda")
    distance = position[:, None] - position
    scores = q.double() @ k.double().transpose(-1, -2) / 8 - slopes.double()[:, None, None] * distance.abs()
    exact = torch.softmax(scores.masked_fill(distance < 0, -torch.inf), -1) @ v.double()
    torch.testing.assert_close(o.double(), exact, rtol=0, atol=4 * 4 * 2.0**-8)


def test_deterministic_gradients() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        results = []
        tensors = [torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        for _ in range(3):
            o = tt.scaled_dot_product_attention(*tensors)
            results.append(torch.autograd.grad(o.sum(), tensors))
    finally:
        torch.use_deterministic_algorithms(False)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
