"""A second GPU, and tensors on different devices. Skipped without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gpu_support import close, needs_gpu, needs_two_gpus
from sample_table import Sample

import tunesmith.torch as tt

pytestmark = needs_gpu


@needs_two_gpus
def test_samples_on_a_second_device(sample: Sample) -> None:
    inputs = sample.inputs("cuda:1")
    found = sample.function(*inputs)
    assert found.device == inputs[0].device
    assert torch.cuda.current_device() == 0
    sample.check(found, inputs)


@needs_two_gpus
def test_a_second_device() -> None:
    assert torch.cuda.current_device() == 0
    x = torch.randn(33, 256, device="cuda:1", requires_grad=True)
    exact = x.detach().double().requires_grad_()
    y, reference = tt.softmax(x), torch.softmax(exact, -1)
    assert y.device == x.device
    close(y.detach(), reference.detach(), 1)
    upstream = torch.randn_like(x)
    close(torch.autograd.grad(y, x, upstream)[0], torch.autograd.grad(reference, exact, upstream.double())[0], 8)
    q, k, v = (torch.randn(1, 64, 2, 64, device="cuda:1", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    o = tt.attention(q, k, v, causal=True)
    o.sum().backward()
    assert o.device == q.device == q.grad.device
    first = (tensor.detach().double().transpose(1, 2) for tensor in (q, k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(*first, is_causal=True).transpose(1, 2)
    # Weights and values are rounded to bf16; outputs are means of values of order 4.
    torch.testing.assert_close(o.detach().double(), expected, rtol=0, atol=4 * 4 * 2.0**-8)
    assert torch.cuda.current_device() == 0


@needs_two_gpus
def test_vocab_parallel_on_two_devices() -> None:
    example = Path(__file__).parents[2] / "examples" / "vocab_parallel.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", example]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "2 processes on cuda" in done.stdout


def test_a_tensor_on_another_device_is_rejected() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        tt.cross_entropy(torch.randn(4, 24, device="cuda"), torch.zeros(4, dtype=torch.int64))
    q, k, v = (torch.randn(1, 9, 2, 16, device=device) for device in ("cuda", "cpu", "cuda"))
    with pytest.raises((ValueError, RuntimeError), match="device"):
        tt.attention(q, k, v)
    with pytest.raises((ValueError, RuntimeError), match="device"):
        tt.rms_norm(torch.randn(4, 24, device="cuda"), weight=torch.ones(24))
