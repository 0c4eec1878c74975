"""vocab_parallel_cross_entropy in two processes against PyTorch's loss of the whole logits in float64."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import Any

import pytest
import torch
import torch.distributed as dist

ROWS, COLS, WORLD = 7, 24, 2
# Losses of about 4 and gradients below 1: a few roundings of float32 in sums of at most 48 terms.
CLOSE = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"ignore_index": 3},
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def work(rank: int, port: int, results: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    import tunesmith
    import tunesmith.torch as tt

    torch.set_num_threads(1)
    tt.use_engine(tunesmith.Engine("host", mode="replay", system_caches=[]))
    losses = []
    for options in OPTIONS:
        torch.manual_seed(7)  # equal logits in both processes; each takes its classes
        whole = torch.randn(ROWS, WORLD * COLS)
        target = torch.randint(WORLD * COLS, (ROWS,))
        target[2] = options.get("ignore_index", -100)
        exact = whole.double().requires_grad_()
        reference = torch.nn.functional.cross_entropy(exact, target, **options)
        upstream = torch.randn_like(reference)
        reference.backward(upstream)
        logits = whole[:, rank * COLS : (rank + 1) * COLS].clone().requires_grad_()
        loss = tt.vocab_parallel_cross_entropy(logits, target, **options)
        loss.backward(upstream.float())
        torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
        torch.testing.assert_close(logits.grad.double(), exact.grad[:, rank * COLS : (rank + 1) * COLS], **CLOSE)
        losses.append(loss.detach().flatten().tolist())
        # Logits of float64: partials and losses, too.
        wide = whole.double()[:, rank * COLS : (rank + 1) * COLS].clone().requires_grad_()
        loss = tt.vocab_parallel_cross_entropy(wide, target, **options)
        loss.backward(upstream)
        torch.testing.assert_close(loss.detach(), reference.detach(), rtol=2.0**-46, atol=2.0**-46)
        torch.testing.assert_close(wide.grad, exact.grad[:, rank * COLS : (rank + 1) * COLS], rtol=2.0**-46, atol=2.0**-46)
        losses.append(loss.detach().flatten().tolist())
    with pytest.raises(ValueError, match="target has the shape"):
        tt.vocab_parallel_cross_entropy(torch.randn(ROWS, COLS), torch.zeros(ROWS + 1, dtype=torch.int64))
    results.put(losses)
    dist.destroy_process_group()


def test_two_processes() -> None:
    spawn = multiprocessing.get_context("spawn")
    results, port = spawn.Queue(), free_port()
    processes = [spawn.Process(target=work, args=(rank, port, results)) for rank in range(WORLD)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * WORLD
    assert results.get() == results.get(), "every process returns the same bits"
