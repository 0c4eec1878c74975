"""Streams, CUDA graphs and threads that share a stream. Skipped without a GPU."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch
from gpu_support import close, needs_gpu
from sample_table import Sample
from test_paged import expected_of, small

import tunesmith
import tunesmith.torch as tt

pytestmark = needs_gpu


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


def test_a_graph_of_paged_attention_reads_lengths_and_tables_anew() -> None:
    q, cache = small(dtype=torch.bfloat16)
    on_gpu = [one.cuda() for one in (q, cache.k, cache.v, cache.table, cache.lengths)]
    tt.paged_attention(*on_gpu)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = tt.paged_attention(*on_gpu)
    for lengths, order in (((9, 0, 15), (0, 1, 2)), ((0, 0, 0), (0, 1, 2)), ((7, 0, 9), (2, 1, 0))):
        later = dataclasses.replace(cache, table=cache.table[list(order)], lengths=torch.tensor(lengths, dtype=torch.int32))
        on_gpu[3].copy_(later.table)
        on_gpu[4].copy_(later.lengths)
        graph.replay()
        close(o.cpu(), expected_of(q, later), 24)


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
