"""Every sample of the table on the CPU: eager, recorded, compiled, under vmap, autocast and inference mode."""

from __future__ import annotations

import pytest
import torch
from sample_table import Sample

BATCH = 2


def test_eager(sample: Sample) -> None:
    inputs = sample.inputs()
    sample.check(sample.function(*inputs), inputs)


def test_recorded_and_its_gradients(sample: Sample) -> None:
    inputs = sample.inputs()
    leaves = [one.detach().requires_grad_() for one in inputs if one.is_floating_point()]
    result = sample.function(*leaves, *inputs[len(leaves) :])
    sample.check(result, inputs)
    exact = [one.detach().double().requires_grad_() for one in leaves]
    reference = sample.reference(*exact, *inputs[len(leaves) :])
    upstream = torch.randn(reference.shape)
    found = torch.autograd.grad(result, leaves, upstream.to(result.dtype))
    expected = torch.autograd.grad(reference, exact, upstream.to(result.dtype).double())
    for ours, theirs, leaf in zip(found, expected, leaves, strict=True):
        assert ours.dtype == leaf.dtype
        # Rounded results and upstream gradients enter; sums over columns of both are of the order of the largest term.
        unit = torch.finfo(leaf.dtype).eps + 64 * 2.0**-24
        scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=8 * scale * sample.magnitude * unit)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(sample: Sample, backend: str) -> None:
    torch.compiler.reset()
    inputs = sample.inputs()
    found = torch.compile(sample.function, backend=backend, fullgraph=True)(*inputs)
    sample.check(found, inputs)
    assert found.stride() == sample.function(*inputs).stride()


def test_vmap(sample: Sample) -> None:
    inputs = sample.inputs()
    batch = [torch.stack([one, one.flip(0)]) for one in inputs]
    found = torch.vmap(sample.function)(*batch)
    for i in range(BATCH):
        sample.check(found[i], [one[i] for one in batch])


def test_autocast(sample: Sample) -> None:
    inputs = sample.inputs()
    with torch.autocast("cpu", torch.bfloat16):
        found = sample.function(*inputs)
    if sample.autocast == "f32":
        assert found.dtype == torch.float32
        sample.check(found, inputs)
    elif sample.autocast == "cast":
        sample.check(found, inputs, torch.bfloat16)
    else:
        assert found.dtype == inputs[0].dtype
        sample.check(found, inputs)


def test_inference_mode(sample: Sample) -> None:
    with torch.inference_mode():
        inputs = sample.inputs()
        found = sample.function(*inputs)
        assert found.is_inference()
        sample.check(found, inputs)
