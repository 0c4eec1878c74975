"""The operators under torch.library.opcheck and torch.compile, and the guards of the eager path."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest
import torch

import tunesmith.torch as tt
from tunesmith.torch import linear_losses, log_probs, losses, vocab_parallel
from tunesmith.torch.attention_operators import BACKWARD, FORWARD
from tunesmith.torch.softmax import FORWARD as SOFTMAXES

COLS = 24
SOFTMAX = SOFTMAXES["softmax"]
OPS = torch.ops.tunesmith
CE = losses.FORWARD.values(lse_low=True)
LINEAR = {"dhidden": True, "dweight": True, "dbias": True}
SHARD = {"vocab_start": COLS, "vocab_size": 2 * COLS}

PER_HEAD = """__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {
  return score + aux.bias[h];
}
"""


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def starts() -> torch.Tensor:
    """Of sequences of 3 and 6 tokens."""
    return torch.tensor([0, 3, 9], dtype=torch.int32)


def saved() -> tuple[torch.Tensor, ...]:
    """Logits, targets, lse, dloss and lse_low."""
    return torch.randn(5, COLS), torch.arange(5), torch.full((5,), 4.0), torch.ones(()), torch.rand(5) * 2**-22


SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("softmax", "log_softmax"), lambda: (leaf(4, COLS), *SOFTMAX.values())),
    **dict.fromkeys(
        ("softmax_backward", "log_softmax_backward"),
        lambda: (torch.randn(4, COLS), torch.rand(4, COLS), *SOFTMAX.values()),
    ),
    **dict.fromkeys(
        ("softmax_out", "log_softmax_out"), lambda: (torch.randn(4, COLS), 1.0, False, False, torch.empty(4, COLS))
    ),
    "rms_norm": lambda: (leaf(4, COLS), leaf(COLS), 1e-6, 0.0),
    "cross_entropy": lambda: (leaf(5, COLS), torch.arange(5), None, *CE),
    "cross_entropy_backward": lambda: (*saved(), None, torch.randn(5), *losses.BACKWARD.values()),
    "linear_cross_entropy": lambda: (
        *(leaf(5, 16), leaf(40, 16), torch.arange(5), None, leaf(40)),
        *linear_losses.FORWARD.values(**LINEAR),
    ),
    "linear_cross_entropy_backward": lambda: (
        *(torch.randn(5, 16), torch.randn(40, 16), torch.arange(5), None, torch.ones(()), torch.randn(40), torch.ones(5)),
        *linear_losses.BACKWARD.values(**LINEAR),
    ),
    "linear_loss": lambda: log_probs.FORWARD.arguments(
        {"hidden": torch.randn(5, 16), "weight": torch.randn(40, 16), "targets": torch.arange(5)},
        log_probs.FORWARD.values(entropy=True),
    ),
    "linear_loss_backward": lambda: log_probs.BACKWARD.arguments(
        {
            **{"hidden": torch.randn(5, 16), "weight": torch.randn(40, 16), "targets": torch.arange(5)},
            **{"lse": torch.full((5,), 9.0), "dloss": torch.ones(5)},
        },
        log_probs.BACKWARD.values(),
    ),
    "cross_entropy_shard": lambda: (torch.randn(5, COLS), torch.arange(5), *vocab_parallel.SHARD.values(**SHARD)),
    "cross_entropy_combine": lambda: (
        *(torch.rand(2 * 5, 8) + 1, torch.arange(5)),
        *vocab_parallel.COMBINE.values(vocab_size=2 * COLS, lse_low=True),
    ),
    "cross_entropy_shard_backward": lambda: (*saved(), *vocab_parallel.BACKWARD.values(**SHARD)),
    "attention": lambda: FORWARD.arguments(
        {name: leaf(1, 2, 9, 16) for name in "qkv"}, FORWARD.values(layout="bhsd", causal="none")
    ),
    "attention, packed": lambda: FORWARD.arguments(
        {name: leaf(9, 2, 16) for name in "qkv"} | {"cu_seqlens_q": starts(), "cu_seqlens_kv": starts()},
        FORWARD.values(seq_q=6, seq_kv=6),
    ),
    "attention_backward": lambda: BACKWARD.arguments(
        {name: torch.randn(1, 2, 9, 16) for name in ("q", "k", "v", "o", "dout")} | {"lse": torch.full((1, 2, 9), 3.0)},
        BACKWARD.values(layout="bhsd", score_mod=PER_HEAD, aux="bias:f32[2]", daux="bias", deterministic=True),
        [torch.randn(2)],
    ),
    "attention_backward, packed": lambda: BACKWARD.arguments(
        {name: torch.randn(9, 2, 16) for name in ("q", "k", "v", "o", "dout")}
        | {"lse": torch.full((2, 9), 3.0), "cu_seqlens_q": starts(), "cu_seqlens_kv": starts()}
        | {"alibi_slopes": torch.randn(2), "sinks": torch.randn(2)},
        BACKWARD.values(seq_q=6, seq_kv=6, dsinks=True, dslopes=True, deterministic=True),
    ),
    "kv_append": lambda: (
        *(torch.randn(3, 2, 16), torch.randn(3, 2, 16), torch.randn(2, 4, 2, 16), torch.randn(2, 4, 2, 16)),
        *(torch.tensor([5, -1, 0]), torch.randn(3, 4, 16), torch.arange(3), torch.randn(8, 16)),
        *(torch.rand(16), torch.rand(16), None, None, "neox", 1e-6, 0.0, "bshd"),
    ),
    "merge_attention_parts": lambda: (leaf(3, 1, 9, 2, 16), leaf(3, 1, 2, 9), "bshd", "e", "f32"),
    "row_program": lambda: ([leaf(4, COLS)], "in x : float[row, col]\nout y : float[row, col] = 2 * x", ""),
}


def operator_of(sample: str) -> str:
    return sample.split(",")[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name: str) -> None:
    # The gradients of linear_cross_entropy are of the same call, so AOT autograd sees what eager sees.
    torch.library.opcheck(getattr(OPS, operator_of(name)).default, SAMPLES[name]())


def test_every_operator_has_a_sample() -> None:
    defined = {
        name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("tunesmith::")
    }
    assert defined == {operator_of(name) for name in SAMPLES}


def step(x: torch.Tensor, head: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A little of everything."""
    y = tt.rms_norm(x, None, None, 1e-6)
    heads = y.reshape(1, 4, 1, 16)
    y = y + tt.attention(heads, heads, heads, causal=True).reshape(4, 16)
    return tt.linear_cross_entropy(y, head, target) + tt.cross_entropy(tt.log_softmax(y), target)


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compile_has_no_graph_breaks(backend: str) -> None:
    target = torch.arange(4)
    gradients = []
    for function in (step, torch.compile(step, backend=backend, fullgraph=True)):
        torch.manual_seed(3)
        x, head = leaf(4, 16), leaf(40, 16)
        function(x, head, target).backward()
        gradients.append((x.grad, head.grad))
    for eager, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(eager, compiled)


def test_an_empty_batch() -> None:
    assert tt.softmax(torch.empty(0, COLS)).shape == (0, COLS)
    assert tt.cross_entropy(torch.empty(0, COLS), torch.empty(0, dtype=torch.int64), reduction="sum") == 0


def test_no_references_leak() -> None:
    x = torch.randn(4, COLS)
    tt.softmax(x)
    before = sys.getrefcount(x)
    for _ in range(50):
        tt.softmax(x)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_threads() -> None:
    x = torch.randn(4, COLS)
    exact = torch.softmax(x, -1)
    failures: list[float] = []

    def work() -> None:
        for rows in (1, 2, 3, 4):
            error = (tt.softmax(x[:rows]) - exact[:rows]).abs().max().item()
            if error > 1e-6:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_fake_tensor_gets_the_shape_and_no_launch() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert tt.softmax(torch.empty(4, COLS)).shape == (4, COLS)
