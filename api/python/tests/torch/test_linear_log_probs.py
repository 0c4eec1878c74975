"""linear_log_probs against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith.torch as tt

TOKENS, HIDDEN, VOCABULARY = 9, 16, 43


def leaves(dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    ours = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((3, 3, HIDDEN), (VOCABULARY, HIDDEN))]
    return ours, [tensor.detach().double().requires_grad_() for tensor in ours]


def targets() -> torch.Tensor:
    return torch.tensor([[3, 0, -100], [VOCABULARY - 1, 7, 7], [1, 2, 42]])


def reference(exact: list[torch.Tensor], temperature: float, softcap: float) -> tuple[torch.Tensor, torch.Tensor]:
    logits = exact[0] @ exact[1].T / temperature
    if softcap > 0:
        logits = softcap * torch.tanh(logits / softcap)
    log_probs = logits.log_softmax(-1)
    chosen = log_probs.gather(-1, targets().clamp(min=0)[..., None])[..., 0]
    return torch.where(targets() < 0, 0.0, chosen), -(log_probs.exp() * log_probs).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"temperature": 1.5, "softcap": 3.0}])
@pytest.mark.parametrize("memory_bytes", [1 << 30, 4 * 48 * 2])
def test_values_and_gradients(dtype: torch.dtype, options: dict[str, Any], memory_bytes: int) -> None:
    ours, exact = leaves(dtype)
    log_probs, entropy = tt.linear_log_probs(*ours, targets(), return_entropy=True, memory_bytes=memory_bytes, **options)
    expected, expected_entropy = reference(exact, options.get("temperature", 1.0), options.get("softcap", 0.0))
    torch.testing.assert_close(log_probs.detach().double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy.detach().double(), expected_entropy.detach(), rtol=1e-5, atol=1e-5)
    factors = torch.linspace(-1, 2, TOKENS).reshape(3, 3)
    (log_probs * factors + 0.3 * entropy).sum().backward()
    (expected * factors + 0.3 * expected_entropy).sum().backward()
    # Sums of TOKENS or VOCABULARY products of up to 10; dweight in bfloat16 is rounded once a chunk.
    close = {"rtol": 2e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 0.15}
    for tensor, theirs in zip(ours, exact, strict=True):
        torch.testing.assert_close(tensor.grad.double(), theirs.grad, **close)


def test_one_of_the_results_and_of_the_gradients() -> None:
    for chosen in (0, 1):
        ours, exact = leaves(torch.float32)
        ours[1 - chosen].requires_grad_(False)
        tt.linear_log_probs(*ours, targets()).sum().backward()
        reference(exact, 1.0, 0.0)[0].sum().backward()
        torch.testing.assert_close(ours[chosen].grad.double(), exact[chosen].grad, rtol=2e-5, atol=1e-4)
        assert ours[1 - chosen].grad is None
    ours, exact = leaves(torch.float32)
    _, entropy = tt.linear_log_probs(*ours, targets(), return_entropy=True)
    entropy.sum().backward()
    reference(exact, 1.0, 0.0)[1].sum().backward()
    for tensor, theirs in zip(ours, exact, strict=True):
        torch.testing.assert_close(tensor.grad.double(), theirs.grad, rtol=2e-5, atol=1e-4)


def test_errors_name_the_argument() -> None:
    hidden, weight, target = torch.randn(4, 8), torch.randn(5, 8), torch.tensor([0, 1, 2, 3])
    for words, call in {
        "linear_weight": lambda: tt.linear_log_probs(hidden, torch.randn(5, 7), target),
        "target": lambda: tt.linear_log_probs(hidden, weight, target[:3]),
        "temperature": lambda: tt.linear_log_probs(hidden, weight, target, temperature=0.0),
        "dtype of hidden": lambda: tt.linear_log_probs(hidden.half(), weight.half(), target),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()
    wrong = torch.tensor([0, 1, 9, 3])
    assert tt.linear_log_probs(hidden, weight, wrong).isnan().tolist() == (wrong == 9).tolist()
