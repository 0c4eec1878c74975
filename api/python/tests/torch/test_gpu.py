"""CUDA tensors: results against PyTorch in float64, streams, graphs and the deterministic flag. Skipped without a GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from sample_table import SAMPLES, Sample
from torch.nn.attention.flex_attention import create_block_mask

import tunesmith
import tunesmith.torch as tt

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

# Half a unit in the last place of the result's dtype, plus what float32 leaves: see test_rows.py.
EPS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}


def close(actual: torch.Tensor, exact: torch.Tensor, roundings: float) -> None:
    tolerance = roundings * EPS[actual.dtype] + 64 * EPS[torch.float32]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


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


def test_the_current_stream_is_used() -> None:
    stream = torch.cuda.Stream()
    x = torch.zeros(64, 1024, device="cuda")
    tt.softmax(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.copy_(torch.arange(1024, device="cuda").float().mul_(0.01).expand(64, 1024))
        y = tt.softmax(x)
    stream.synchronize()
    close(y, torch.softmax(x.double(), -1), 1)


def test_a_graph_after_a_warm_up() -> None:
    x = torch.randn(64, 1024, device="cuda")
    tt.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tt.softmax(x)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    close(y, torch.softmax(x.double(), -1), 1)


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param]


def test_samples(sample: Sample) -> None:
    inputs = sample.inputs("cuda")
    sample.check(sample.function(*inputs), inputs)


def test_samples_on_a_side_stream(sample: Sample) -> None:
    late = sample.inputs("cuda")
    inputs = sample.inputs("cuda")
    for one in inputs:
        one.zero_()
    sample.function(*inputs)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        for one, value in zip(inputs, late, strict=True):
            one.copy_(value)
        found = sample.function(*inputs)
    stream.synchronize()
    sample.check(found, late)


def test_samples_in_a_graph(sample: Sample) -> None:
    late = sample.inputs("cuda")
    inputs = sample.inputs("cuda")
    for one in inputs:
        one.zero_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        sample.function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = sample.function(*inputs)
    for one, value in zip(inputs, late, strict=True):
        one.copy_(value)
    graph.replay()
    torch.cuda.synchronize()
    sample.check(found, late)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_samples_on_a_second_device(sample: Sample) -> None:
    inputs = sample.inputs("cuda:1")
    found = sample.function(*inputs)
    assert found.device == inputs[0].device
    assert torch.cuda.current_device() == 0
    sample.check(found, inputs)


def test_samples_compiled_by_inductor(sample: Sample) -> None:
    torch.compiler.reset()
    inputs = sample.inputs("cuda")
    sample.check(torch.compile(sample.function, fullgraph=True)(*inputs), inputs)


def test_a_capture_without_a_warm_up_says_so() -> None:
    x = torch.randn(7, 1032, device="cuda")
    with pytest.raises(tunesmith.errors.Capturing), torch.cuda.graph(torch.cuda.CUDAGraph()):
        tt.softmax(x)


def test_a_graph_of_forward_and_backward() -> None:
    x = torch.randn(64, 1024, device="cuda", requires_grad=True)
    target = torch.randint(1024, (64,), device="cuda")

    def step() -> torch.Tensor:
        return torch.autograd.grad(tt.cross_entropy(tt.softmax(x, scale=2.0), target), x)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gradient = step()
    with torch.no_grad():
        x.normal_()
    graph.replay()
    exact = x.detach().double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(torch.softmax(2 * exact, -1), target)
    (expected,) = torch.autograd.grad(loss, exact)
    close(gradient, expected, 8)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
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


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_vocab_parallel_on_two_devices() -> None:
    example = Path(__file__).parents[2] / "examples" / "vocab_parallel.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", example]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "2 processes on cuda" in done.stdout


def test_threads_that_share_a_stream(sample: Sample) -> None:
    inputs = sample.inputs("cuda")
    expected = sample.function(*inputs)
    found: list[torch.Tensor] = []

    def work() -> None:
        for _ in range(20):
            found.append(sample.function(*inputs))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(found) == 80
    assert all(torch.equal(one, expected) for one in found)


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


def test_a_tensor_on_another_device_is_rejected() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        tt.cross_entropy(torch.randn(4, 24, device="cuda"), torch.zeros(4, dtype=torch.int64))
    q, k, v = (torch.randn(1, 9, 2, 16, device=device) for device in ("cuda", "cpu", "cuda"))
    with pytest.raises((ValueError, RuntimeError), match="device"):
        tt.attention(q, k, v)
    with pytest.raises((ValueError, RuntimeError), match="device"):
        tt.rms_norm(torch.randn(4, 24, device="cuda"), weight=torch.ones(24))


def test_compiled_by_inductor() -> None:
    x = torch.randn(64, 1024, device="cuda")
    compiled = torch.compile(lambda x: tt.softmax(x * 2) + 1, fullgraph=True)
    close(compiled(x), torch.softmax(x.double() * 2, -1) + 1, 2)
