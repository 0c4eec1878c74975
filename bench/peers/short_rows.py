"""Compares the lanes and accesses of short rows with the default configuration, and with the default of their bucket of widths.

    python3 bench/peers/short_rows.py --library build/release/api/libtunesmith.so [--cols N...] [--ops NAME...] [--mib 160]

Kernels of one width run interleaved, with L2 flushed before every launch; figures are medians. A line has the fastest lanes
with their time, GB/s, and the times of the default, of the default of the bucket and of the next candidates over it: p8(5) are
8 lanes with 5 accesses to pairs each, e to elements, v to vectors of 16 bytes. Writes short_rows.json. Needs torch.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os

import torch

import timing
import tunesmith
from cells import SHORT, SIZES

# op: (operation, fields, arrays that it reads and writes, most accesses of a lane).
OPS = {
    "softmax": ("softmax", {}, 2, 16),
    "softmax_backward": ("softmax_backward", {}, 3, 16),
    "loss": ("cross_entropy", {"reduction": "none"}, 1, 40),
    "fused": ("cross_entropy", {"gradient": "in_place", "reduction": "mean"}, 2, 24),
}
COLS = [21, 30, 47, 68, 77, 101, 118, 141, 206, 301, 450, 701, 1002]
DEFAULTS = {"default": "exact", "bucket": "capacity"}


def candidates(most, cols, size):
    """Returns {name: configuration} of warps whose lanes have at most `most` accesses, or a third of them to vectors."""
    found = {}
    vector = 16 // size
    for access, elements in (("vectors", vector), ("pairs", 2), ("elements", 1)):
        if access != "vectors" and (cols % vector == 0 or elements == vector):
            continue
        for lanes in (1, 2, 4, 8, 16, 32):
            each = cols / elements / lanes
            if 0.5 < each <= (most / 3 if access == "vectors" else most):
                narrow = "" if access == "vectors" else f",access={access}"
                config = f"variant=warp,threads=128,lanes={lanes}{narrow},load=plain,store=plain"
                found[f"{access[0]}{lanes}({each:.0f})"] = config
    return found


def buffers(plan, rows, cols, dtype):
    """Returns random arrays for a plan."""
    made = []
    for name, size in zip(plan.arrays, plan.sizes, strict=True):
        if name == "targets":
            made.append(torch.randint(0, cols, (rows,), device="cuda", dtype=torch.int64 if size == 8 * rows else torch.int32))
        else:
            made.append(torch.randn(max(size // dtype.itemsize, 16), device="cuda").to(dtype))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--cols", nargs="*", type=int, default=COLS)
    parser.add_argument("--ops", nargs="*", choices=OPS, default=list(OPS))
    parser.add_argument("--dtypes", nargs="*", choices=SIZES, default=["bfloat16", "float32"])
    parser.add_argument("--mib", type=int, default=160, help="read and written")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    engines = {name: tunesmith.Engine(args.library, mode="off", system_caches="", specialize=specialize)
               for name, specialize in DEFAULTS.items()}
    timer, stream, results = timing.Timer(), torch.cuda.current_stream().cuda_stream, []

    def prepare(task):
        op, dtype, cols = task
        name, fields, arrays, most = OPS[op]
        rows = (args.mib << 20) // (arrays * cols * SIZES[dtype])
        fields = dict(fields, rows=rows, cols=cols, dtype=SHORT[dtype])
        plans = {which: engine.plan(name, **fields) for which, engine in engines.items()}
        for label, config in candidates(most, cols, SIZES[dtype]).items():
            with contextlib.suppress(RuntimeError):  # not for this problem
                plans[label] = engines["default"].plan(name, config=config, **fields)
        return task, rows, plans

    tasks = [(op, dtype, cols) for op in args.ops for dtype in args.dtypes for cols in args.cols]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (op, dtype, cols), rows, plans in pool.map(prepare, tasks):
            given = buffers(plans["default"], rows, cols, getattr(torch, dtype))
            works = {label: plan.launcher(*given, stream=stream) for label, plan in plans.items()}
            found = timer.measure(works, args.rounds)
            us = {label: figures["us"] for label, figures in found.items()}
            order = sorted((label for label in us if label not in DEFAULTS), key=us.get)
            best = us[order[0]]
            results.append({"op": op, "dtype": SHORT[dtype], "cols": cols, "rows": rows, "us": us,
                            "configs": {label: plans[label].config for label in DEFAULTS}})
            gb_per_s = rows * cols * SIZES[dtype] * OPS[op][2] / best / 1e3
            print(f"{op:16} {SHORT[dtype]:4} {cols:5} {best:7.1f} us {gb_per_s:5.0f} GB/s",
                  *(f"{label} {us[label] / best:.2f}" for label in [*DEFAULTS, *order[:5]]), flush=True)
            with open("short_rows.json", "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
