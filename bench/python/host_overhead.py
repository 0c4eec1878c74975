"""Host time of tunesmith.torch on a GPU, over a raw launch of the same kernel in the same run.

    python bench/python/host_overhead.py [--json FILE]

Problems are small, so that the device is faster than the host. A figure is the median over 200 rounds of the mean of 50
calls; the device is idle before each round. "raw" is Plan.host_time_us: the launch from C++, without Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import tunesmith
import tunesmith.torch as tt

ROUNDS, CALLS = 200, 50
TARGETS_US = {"softmax out": 0.7, "softmax": 2, "cross_entropy": 3.5, "attention": 3.5, "softmax grad": 6}


def host_us(function: Callable[[], Any]) -> float:
    """Return the host time of a call."""
    for _ in range(20):
        function()
    means = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            function()
        means.append((time.perf_counter_ns() - start) / CALLS / 1e3)
    return statistics.median(means)


def raw_us(op: str, arrays: list[torch.Tensor | None], **fields: Any) -> float:
    """Return the host time of a launch from C++."""
    plan = tt.engine_of(torch.device("cuda", 0)).prepare(op, **fields)
    means = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        means.append(plan.host_time_us(*arrays, repeats=CALLS))
    return statistics.median(means)


def import_ms() -> float:
    """Return the median time of `import tunesmith` in new processes."""
    code = "import time; start = time.perf_counter(); import tunesmith; print((time.perf_counter() - start) * 1e3)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def first_kernel_ms() -> float:
    """Return the time of the first softmax of a new process whose CUDA context is up and whose cache is warm."""
    code = (
        "import time, torch, tunesmith.torch as tt; x = torch.randn(64, 1024, device='cuda'); torch.cuda.synchronize();"
        "start = time.perf_counter(); tt.softmax(x); torch.cuda.synchronize(); print((time.perf_counter() - start) * 1e3)"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    return statistics.median(times[1:])


def measure() -> dict[str, dict[str, float]]:
    """Return, for each call, its host time, that of the raw launch, and that of torch's function."""
    x = torch.randn(64, 1024, device="cuda")
    y = torch.empty_like(x)
    leaf = x.clone().requires_grad_()
    target = torch.randint(1024, (64,), device="cuda")
    loss, lse = torch.empty((1,), device="cuda"), torch.empty(64, device="cuda")
    q, k, v = (torch.randn(1, 128, 8, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, attention_lse = torch.empty_like(q), torch.empty(1, 8, 128, device="cuda")
    heads_first = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    raw_softmax = raw_us("softmax", [x, y], rows=64, cols=1024)
    raw_loss = raw_us("cross_entropy", [x, target, loss, lse], rows=64, cols=1024)
    raw_attention = raw_us("attention", [q, k, v, o, attention_lse], batch=1, seq_q=128, heads=8, head_dim=64)
    return {
        "softmax out": {
            "ours": host_us(lambda: tt.softmax(x, out=y)),
            "raw": raw_softmax,
            "torch": host_us(lambda: torch.softmax(x, -1, out=y)),
        },
        "softmax": {
            "ours": host_us(lambda: tt.softmax(x)),
            "raw": raw_softmax,
            "torch": host_us(lambda: functional.softmax(x, -1)),
        },
        "cross_entropy": {
            "ours": host_us(lambda: tt.cross_entropy(x, target)),
            "raw": raw_loss,
            "torch": host_us(lambda: functional.cross_entropy(x, target)),
        },
        "attention": {
            "ours": host_us(lambda: tt.attention(q, k, v)),
            "raw": raw_attention,
            "torch": host_us(lambda: functional.scaled_dot_product_attention(*heads_first)),
        },
        "softmax grad": {
            "ours": host_us(lambda: tt.softmax(leaf)),
            "raw": raw_softmax,
            "torch": host_us(lambda: functional.softmax(leaf, -1)),
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="also write the figures to a file")
    options = parser.parse_args()
    results = measure()
    starts = {"import_ms": import_ms(), "first_kernel_ms": first_kernel_ms()}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tunesmith {tunesmith.version}; us of host time")
    print(f"{'call':16}{'ours':>8}{'raw':>8}{'over raw':>10}{'target':>8}{'torch':>8}")
    for name, row in results.items():
        over = row["ours"] - row["raw"]
        print(f"{name:16}{row['ours']:8.2f}{row['raw']:8.2f}{over:10.2f}{TARGETS_US[name]:8.1f}{row['torch']:8.2f}")
    print(f"import {starts['import_ms']:.0f} ms; first kernel from a warm cache {starts['first_kernel_ms']:.0f} ms")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"calls": results, **starts}, file, indent=1)


if __name__ == "__main__":
    main()
