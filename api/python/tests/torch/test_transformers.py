"""A small model of transformers with Tunesmith's attention and loss against its own implementations."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

import tunesmith.torch.transformers as integration  # noqa: E402

# Logits of order 1 after two layers in float32: sums of at most 64 terms in each of some 20 operations.
CLOSE = {"rtol": 0.0, "atol": 2.0**-24 * 64 * 20}


def model(implementation: str, **options: Any) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=implementation,
        **options,
    )
    torch.manual_seed(5)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(64, (2, 9))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of attention was Tunesmith's."""
    calls: list[bool] = []
    original = integration.why_not

    def why_not(*arguments: Any, **others: Any) -> str | None:
        reason = original(*arguments, **others)
        calls.append(reason is None)
        return reason

    monkeypatch.setattr(integration, "why_not", why_not)
    return calls


def test_logits_loss_and_gradients(tokens: torch.Tensor, served: list[bool]) -> None:
    ours, theirs = model("tunesmith"), model("eager")
    integration.use_loss(ours)
    labels = tokens.clone()
    labels[0, :3] = -100
    results = [one(tokens, labels=labels) for one in (ours, theirs)]
    torch.testing.assert_close(results[0].logits, results[1].logits, **CLOSE)
    torch.testing.assert_close(results[0].loss, results[1].loss, **CLOSE)
    for result in results:
        result.loss.backward()
    for (name, parameter), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
    assert served == [True] * 2, "one call for each layer"
    assert type(theirs).loss_function is type(ours).loss_function, "the loss is one model's, not the class's"


def test_decoding_with_a_cache(tokens: torch.Tensor, served: list[bool]) -> None:
    generated = [one.generate(tokens, max_new_tokens=5, do_sample=False) for one in (model("tunesmith"), model("eager"))]
    assert torch.equal(*generated)
    assert all(served)


def test_padding_goes_to_sdpa(tokens: torch.Tensor, served: list[bool]) -> None:
    mask = torch.ones_like(tokens)
    mask[1, :4] = 0
    logits = [one(tokens, attention_mask=mask).logits[mask.bool()] for one in (model("tunesmith"), model("sdpa"))]
    torch.testing.assert_close(*logits, **CLOSE)
    assert served == [False] * 2


def test_losses_of_other_models_are_left_alone() -> None:
    other = model("tunesmith")
    other.loss_type = "ForMaskedLM"
    with pytest.raises(ValueError, match="loss_type is 'ForMaskedLM'"):
        integration.use_loss(other)
