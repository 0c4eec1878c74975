"""Results and gradients on CUDA tensors against PyTorch in float64; attention has its own file. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch
from gpu_support import EPS, close, needs_gpu
from sample_table import Sample

import tunesmith.torch as tt

pytestmark = needs_gpu


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("cols", [24, 4096])
def test_softmax(dtype: torch.dtype, cols: int) -> None:
    x = torch.randn(33, cols, device="cuda", dtype=dtype)
    close(tt.softmax(x), torch.softmax(x.double(), -1), 1)
    close(tt.softmax(x, 0), torch.softmax(x.double(), 0), 1)


def test_losses() -> None:
    logits = torch.randn(33, 1024, device="cuda", requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    target = torch.randint(1024, (33,), device="cuda")
    loss, reference = tt.cross_entropy(logits, target), torch.nn.functional.cross_entropy(exact, target)
    close(loss.detach(), reference.detach(), 8)
    loss.backward()
    reference.backward()
    close(logits.grad, exact.grad, 1)


def test_linear_cross_entropy() -> None:
    hidden = torch.randn(64, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(1000, 128, device="cuda", dtype=torch.bfloat16).div_(8).requires_grad_()
    target = torch.randint(1000, (64,), device="cuda")
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    loss = tt.linear_cross_entropy(hidden, weight, target)
    reference = torch.nn.functional.cross_entropy(exact[0] @ exact[1].T, target)
    loss.backward()
    reference.backward()
    # Logits are rounded to bf16 once: about 8 * 2^-8, which moves the loss and each probability by as much.
    torch.testing.assert_close(loss.detach().double(), reference.detach(), rtol=0, atol=8 * 2.0**-8)
    for ours, theirs in zip((hidden, weight), exact, strict=True):
        error = (ours.grad.double() - theirs.grad).abs().max()
        assert error <= 8 * 2.0**-8 * theirs.grad.abs().max()


def test_row_programs() -> None:
    program = """
in x : float[row, col]
in w : f32[col]
mean ms = x * x
y = x * rsqrt(ms + 1e-6) * w
max largest = abs(y)
q = max(largest, 1e-12) / 448
out z : e4m3[row, col] = y / q
out scale : f32[row] = q
"""
    x = torch.randn(33, 4096, device="cuda", dtype=torch.bfloat16)
    w = torch.rand(4096, device="cuda") + 0.5
    z, scale = tt.row_program(program, x, w)
    exact = x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w.double()
    # The sum of 4096 squares in partial sums of at most 64, and a few roundings.
    torch.testing.assert_close(scale.double(), exact.abs().amax(-1) / 448, rtol=128 * 2.0**-24, atol=0)
    # Half a unit of a type with three bits after the leading one, and its smallest number.
    torch.testing.assert_close(z.double() * scale[:, None], exact, rtol=2.0**-4, atol=float(scale.max()) * 2.0**-10)


def test_a_model_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    import tunesmith.torch.transformers as integration

    def model(implementation: str, dtype: torch.dtype):
        config = transformers.LlamaConfig(
            vocab_size=512,
            hidden_size=256,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            attn_implementation=implementation,
        )
        torch.manual_seed(5)
        return transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16).to(dtype)

    ours, theirs, exact = model("tunesmith", torch.bfloat16), model("eager", torch.bfloat16), model("eager", torch.float64)
    integration.use_loss(ours)
    tokens = torch.randint(512, (2, 200), device="cuda")
    losses = [one(tokens, labels=tokens).loss for one in (ours, theirs, exact)]
    for loss in losses:
        loss.backward()
    errors = [abs(loss.double() - losses[2]).item() for loss in losses]
    # What transformers' own implementation loses to bf16, with a factor of two because errors are random.
    assert errors[0] <= 2 * errors[1] + 2.0**-8
    for parameter, other, reference in zip(ours.parameters(), theirs.parameters(), exact.parameters(), strict=True):
        error, usual = ((one.grad.double() - reference.grad).norm() for one in (parameter, other))
        assert error <= 2 * usual + 2.0**-8 * reference.grad.norm()


def test_samples(sample: Sample) -> None:
    inputs = sample.inputs("cuda")
    sample.check(sample.function(*inputs), inputs)


def test_samples_compiled_by_inductor(sample: Sample) -> None:
    torch.compiler.reset()
    inputs = sample.inputs("cuda")
    sample.check(torch.compile(sample.function, fullgraph=True)(*inputs), inputs)


def test_compiled_by_inductor() -> None:
    x = torch.randn(64, 1024, device="cuda")
    compiled = torch.compile(lambda x: tt.softmax(x * 2) + 1, fullgraph=True)
    close(compiled(x), torch.softmax(x.double() * 2, -1) + 1, 2)
