"""The loops of tunesmith_changing_shapes with PyTorch, torch.compile, Triton and FlashAttention-4: host time of each call, with
the device idle before it, in a new process without their caches. Run it in the same session as tunesmith_changing_shapes.

    python3 bench/peers/changing_shapes.py [decode|widths]...
"""
import os
import random
import statistics
import sys
import tempfile
import time

# Compilations of earlier processes would hide what a new one waits for.
CACHES = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHES.name

import torch  # noqa: E402
import triton  # noqa: E402
from torch.nn import functional  # noqa: E402

from suites import triton_rows  # noqa: E402


def measure(name, calls):
    """Times an iterable of functions: the host waits for the device before each, and not after the call."""
    us = []
    start = time.perf_counter()
    try:
        for call in calls:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            us.append((time.perf_counter() - begin) * 1e6)
        torch.cuda.synchronize()
    except Exception as error:  # a peer that fails is reported
        print(f"  {name}: failed after {len(us)} calls: {type(error).__name__}: {str(error).splitlines()[0][:160]}", flush=True)
        return
    total, slow = time.perf_counter() - start, sum(one > 1e5 for one in us)
    print(f"  {name}: median call {statistics.median(us):.1f} us, total of calls {sum(us) / 1e6:.2f} s, with the waits "
          f"{total:.2f} s; {slow} calls over 100 ms", flush=True)


def decode(batch):
    """One query of 32 heads against 8 K/V heads of 128 elements. Every 32nd length of the C++ program's loop, and every 256th
    for cuDNN, which makes a plan for each new length in some 40 ms."""
    most, heads, kv_heads, head_dim = 8192, 32, 8, 128
    q = torch.randn(batch, heads, 1, head_dim, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, most, kv_heads, head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    print(f"decode, batch {batch}, KV 1 to {most}")

    def attention(q, k, v):
        return functional.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2), enable_gqa=True)

    def loop(function, q=q, step=32):
        return ((lambda n=n: function(q, k[:, :n], v[:, :n])) for n in range(1, most + 1, step))

    measure("every 256th length, scaled_dot_product_attention", loop(attention, step=256))
    torch._dynamo.reset()
    compiled = torch.compile(attention, dynamic=True)
    measure("every 256th length, the same with torch.compile(dynamic=True)", loop(compiled, step=256))
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError as error:
        print(f"  FlashAttention-4 is not installed here ({error})")
        return
    measure("every 32nd length, FlashAttention-4", loop(flash_attn_func, q.transpose(1, 2).contiguous()))


def triton_softmax(x):
    """Softmax of one tile per row, compiled for each power of two."""
    rows, cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(cols)
    triton_rows.forward_whole[(rows,)](y, x, x.stride(0), cols, LOG=False, BLOCK=block, num_warps=min(max(block // 512, 1), 16))
    return y


def widths():
    """The widths of the C++ program differ: its random numbers are of another generator."""
    rows, most, count = 256, 131072, 1000
    numbers = random.Random(1)
    cols = [int(2 ** numbers.uniform(0, 17)) for _ in range(count)]
    x = torch.randn(rows * most, device="cuda", dtype=torch.bfloat16)
    targets = torch.zeros(rows, device="cuda", dtype=torch.int64)
    print(f"{count} random widths from 1 to {most}, {rows} rows, bf16")

    def loop(function):
        return ((lambda n=n: function(x[:rows * n].view(rows, n))) for n in cols)

    def softmax(x):
        return functional.softmax(x, -1)

    def loss(x):
        return functional.cross_entropy(x.float(), targets)

    for name, function in (("softmax", softmax), ("cross_entropy", loss)):
        measure(f"{name}, torch", loop(function))
        torch._dynamo.reset()
        measure(f"{name}, torch.compile(dynamic=True)", loop(torch.compile(function, dynamic=True)))
    measure("softmax, Triton with next_power_of_2", loop(triton_softmax))


def main():
    wanted = sys.argv[1:] or ["decode", "widths"]
    unknown = set(wanted) - {"decode", "widths"}
    if unknown:
        sys.exit(f"unknown loop {sorted(unknown)[0]!r}; allowed: decode, widths")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    if "decode" in wanted:
        decode(1)
        decode(64)
    if "widths" in wanted:
        widths()


main()
