"""Host time of tunesmith.torch, over a raw launch of the same kernel in the same run.

    python -m tunesmith.torch.native && python bench/python/host_overhead.py [--json FILE]
    python bench/python/host_overhead.py --device cpu

Problems are small, so that the device is faster than the host. A figure is the median over 200 rounds of the mean of 50
calls; the device is idle before each round. "raw" is Plan.host_time_us: the launch from C++, without Python. "portable" is
the launcher that needs no compiler. On a CPU, launches do nothing, so that "ours" is what a call costs over a launch, except
that CPU memory is allocated faster than CUDA memory; PyTorch's functions compute on a CPU, so they are not shown.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

import tunesmith
import tunesmith.torch as tt
from tunesmith.torch import native, operators

ROUNDS, CALLS = 200, 50
TARGETS_US = {
    "softmax out": 0.7,
    "softmax": 2,
    "cross_entropy": 3.5,
    "attention": 3.5,
    "softmax grad": 6,
    "cross_entropy grad": 6,
    "attention grad": 6,
}
# The packages' functions have the names of their modules.
FUNCTIONS = [sys.modules[f"tunesmith.torch.{name}"] for name in ("softmax", "losses", "attention")]


def synchronize() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def host_us(function: Callable[[], Any]) -> float:
    """Return the host time of a call."""
    for _ in range(20):
        function()
    means = []
    for _ in range(ROUNDS):
        synchronize()
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
        synchronize()
        means.append(plan.host_time_us(*arrays, repeats=CALLS))
    return statistics.median(means)


class LaunchTarget(ctypes.Structure):
    """LaunchTarget of native/launch_target.h."""

    _fields_ = (("plan", ctypes.c_void_p), ("launch", ctypes.c_void_p))


# A launch that does nothing: abs() of the C library, whose argument is the plan, a null pointer. It returns 0: success.
IDLE = LaunchTarget(None, ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p))


def make_launches_idle() -> None:
    """Let plans do nothing."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    plan = SimpleNamespace(launch_target=make(ctypes.addressof(IDLE), b"tunesmith.launch_target", None))
    launch = operators.launch
    operators.launch = lambda *a, **k: dataclasses.replace(launch(*a, **k), plan=plan)


def use_portable_launcher() -> None:
    """Let calls after this one use the launcher that needs no compiler."""
    native.load = lambda: None
    for module in FUNCTIONS:
        for name in ("_eager", "_eager_into"):
            if hasattr(module, name):
                getattr(module, name).cache_clear()
        if hasattr(module, "_plain"):
            module._plain.update({name: module._eager(name, 1.0, False, False, None) for name in module._plain})


def calls(device: str) -> dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], float]]]:
    """Return, for each row of the table, Tunesmith's call, PyTorch's, and a function that measures the raw launch."""
    x = torch.randn(64, 1024, device=device)
    y = torch.empty_like(x)
    leaf = x.clone().requires_grad_()
    target = torch.randint(1024, (64,), device=device)
    loss, lse = torch.empty((1,), device=device), torch.empty(64, device=device)
    q, k, v = (torch.randn(1, 128, 8, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    o, attention_lse = torch.empty_like(q), torch.empty(1, 8, 128, device=device)
    first = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    first_leaves = [tensor.transpose(1, 2).detach().requires_grad_() for tensor in (q, k, v)]

    def raw_softmax() -> float:
        return raw_us("softmax", [x, y], rows=64, cols=1024)

    def raw_loss() -> float:
        return raw_us("cross_entropy", [x, target, loss, lse], rows=64, cols=1024)

    def raw_attention() -> float:
        return raw_us("attention", [q, k, v, o, attention_lse], batch=1, seq_q=128, heads=8, head_dim=64)

    sdpa = functional.scaled_dot_product_attention
    return {
        "softmax out": (lambda: tt.softmax(x, out=y), lambda: torch.softmax(x, -1, out=y), raw_softmax),
        "softmax": (lambda: tt.softmax(x), lambda: functional.softmax(x, -1), raw_softmax),
        "cross_entropy": (lambda: tt.cross_entropy(x, target), lambda: functional.cross_entropy(x, target), raw_loss),
        "attention": (lambda: tt.attention(q, k, v), lambda: sdpa(*first), raw_attention),
        "softmax grad": (lambda: tt.softmax(leaf), lambda: functional.softmax(leaf, -1), raw_softmax),
        "cross_entropy grad": (
            lambda: tt.cross_entropy(leaf, target),
            lambda: functional.cross_entropy(leaf, target),
            raw_loss,
        ),
        "attention grad": (lambda: tt.attention(*leaves), lambda: sdpa(*first_leaves), raw_attention),
    }


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


def measure_cuda() -> dict[str, dict[str, float]]:
    """Return, for each call, the host times of both launchers, the raw launch and PyTorch's function."""
    results = {}
    for name, (ours, theirs, raw) in calls("cuda").items():
        results[name] = {"ours": host_us(ours), "raw": raw(), "torch": host_us(theirs)}
    use_portable_launcher()
    for name, (ours, _, _) in calls("cuda").items():
        results[name]["portable"] = host_us(ours)
    return results


def measure_cpu() -> dict[str, dict[str, float]]:
    """Return the host time of calls whose launches do nothing."""
    torch.set_num_threads(1)
    tt.use_engine(tunesmith.Engine("host", mode="off"))
    make_launches_idle()
    return {name: {"ours": host_us(ours), "raw": 0.0} for name, (ours, _, _) in calls("cpu").items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", help="also write the figures to a file")
    options = parser.parse_args()
    if native.load() is None:
        sys.exit("host_overhead.py: the native launcher is missing; run python -m tunesmith.torch.native")
    on_gpu = options.device == "cuda"
    results = measure_cuda() if on_gpu else measure_cpu()
    starts = {"import_ms": import_ms()}
    if on_gpu:
        starts["first_kernel_ms"] = first_kernel_ms()
    machine = torch.cuda.get_device_name() if on_gpu else "CPU, launches that do nothing"
    print(f"{machine}, torch {torch.__version__}, tunesmith {tunesmith.version}; us of host time")
    print(f"{'call':20}{'ours':>8}{'raw':>8}{'over raw':>10}{'target':>8}{'torch':>8}{'portable':>10}")
    for name, row in results.items():
        over = row["ours"] - row["raw"]
        others = f"{row['torch']:8.2f}{row['portable']:10.2f}" if on_gpu else ""
        print(f"{name:20}{row['ours']:8.2f}{row['raw']:8.2f}{over:10.2f}{TARGETS_US[name]:8.1f}{others}")
    print(", ".join(f"{name} {value:.0f}" for name, value in starts.items()))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine, "torch": torch.__version__, "calls": results, **starts}, file, indent=1)


if __name__ == "__main__":
    main()
