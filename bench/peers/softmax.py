"""Softmax side by side: Tunesmith, PyTorch, torch.compile and two Triton kernels, in one process, on the same arrays.

    python3 bench/peers/softmax.py --library build/release/api/libtunesmith.so [--out FOLDER] [--budget SECONDS]

Every implementation is timed interleaved with the others and with copy_, each launch behind a flushed L2 cache; figures are
medians. Writes softmax.json to the folder and a table to the screen. Needs torch and triton.
"""
import argparse
import json
import os
import statistics
import time

import torch
import triton
import triton.language as tl

import tunesmith


@triton.jit
def whole_row(y, x, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * stride + column, (power / tl.sum(power, 0)).to(y.dtype.element_ty), mask=column < cols)


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in (1024, 2048, 4096, 8192) for w in (4, 8, 16)],
                 key=["cols"])
@triton.jit
def online(y, x, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = float("-inf")
    total = 0.0
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(value - new_largest), 0)
        largest = new_largest
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        tl.store(y + row * stride + column, (tl.exp(value - largest) / total).to(y.dtype.element_ty), mask=column < cols)


def warps(cols):
    return 32 if cols >= 32768 else 16 if cols >= 8192 else 8 if cols >= 2048 else 4


def interleaved_us(works, flush, rounds=21):
    """Median device time of each function, microseconds."""
    samples = {name: [] for name in works}
    for r in range(rounds + 1):
        events = []
        for name, work in works.items():
            flush.zero_()
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            stop.record()
            events.append((name, start, stop))
        torch.cuda.synchronize()
        if r > 0:  # the first round warms up
            for name, start, stop in events:
                samples[name].append(start.elapsed_time(stop) * 1e3)
    return {name: statistics.median(times) for name, times in samples.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--out", default=".")
    parser.add_argument("--budget", type=float, default=300)
    args = parser.parse_args()
    # A cache of its own in memory: what is measured is what this version finds now.
    engine = tunesmith.Engine(args.library, effort="full", mode="tune", cache_file="", tune_budget_s=10.0)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    compiled = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)
    torch._dynamo.config.recompile_limit = 500
    stream = torch.cuda.current_stream().cuda_stream
    started = time.time()
    rows_out = []
    names = ["copy", "tunesmith", "torch", "compile", "triton_whole", "triton_online"]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}: GB/s (share of copy)")
    print("".join(f"{n:>20}" for n in ["problem"] + names) + "   tunesmith's configuration", flush=True)
    for dtype in (torch.float32, torch.bfloat16):
        for rows, cols in [(4096, 2**k) for k in range(8, 18)] + [(4096, 781), (65536, 128), (32768, 1024), (16, 262144)]:
            if time.time() - started > args.budget:
                break
            x = torch.randn(rows, cols, device="cuda").to(dtype)
            y = torch.empty_like(x)
            plan = engine.plan("softmax", rows=rows, cols=cols, dtype=tunesmith.dtype_name(x))
            block = triton.next_power_of_2(cols)
            works = {"copy": lambda: y.copy_(x),
                     "tunesmith": plan.launcher(x, y, stream=stream),
                     "torch": lambda: torch.softmax(x, -1),
                     "compile": lambda: compiled(x),
                     "triton_whole": lambda: whole_row[(rows,)](y, x, cols, cols, block, num_warps=warps(cols)),
                     "triton_online": lambda: online[(rows,)](y, x, cols, cols)}
            if cols > 131072:
                del works["triton_whole"]
            reference = torch.softmax(x[:64].double(), -1)
            for name, work in works.items():
                y.fill_(float("nan"))
                out = work()
                got = (out if isinstance(out, torch.Tensor) else y)[:64].double()
                if name != "copy":
                    error = ((got - reference).norm() / reference.norm()).item()
                    assert error < (1e-5 if dtype == torch.float32 else 1e-2), (name, rows, cols, error)
            us = interleaved_us(works, flush)
            traffic = 2 * x.numel() * x.element_size()
            rows_out.append({"op": "softmax", "dtype": str(dtype)[6:], "rows": rows, "cols": cols, "us": us,
                             "config": plan.config, "origin": plan.origin, "tune_s": plan.tune_s})
            cells = [f"{traffic / us[n] * 1e-3:6.0f} ({us['copy'] / us[n]:.3f})" if n in us else "-" for n in names]
            title = f"{str(dtype)[6:]} {rows}x{cols}"
            print("".join(f"{c:>20}" for c in [title] + cells) + f"   {plan.config} ({plan.tune_s:.2f} s)", flush=True)
            del x, y, works
    with open(os.path.join(args.out, "softmax.json"), "w") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
                   "rows": rows_out}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
