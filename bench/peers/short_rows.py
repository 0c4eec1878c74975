"""Compares the lanes and accesses of short rows with the default configuration, the default of their bucket of widths, and a
copy of the same arrays.

    python3 bench/peers/short_rows.py --library build/release/api/libtunesmith.so [--cols N...] [--ops NAME...] [--mib 160]

Kernels of one width run interleaved, with L2 flushed before every launch; figures are medians. A line has the fastest lanes
with their time and GB/s, the shares of the copy that the default, the default of the bucket and the fastest lanes reach, and
the times of the next candidates over the fastest: p8(5) are 8 lanes with 5 accesses to pairs each, e to elements, v to vectors
of 16 bytes, and s8(5)x4 to rows that are staged in shared memory, 4 rows for the same lanes. Tunesmith's copy is tuned for the
first width of each operation and dtype. Writes short_rows.json. Needs torch.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import time

import torch

import timing
import tunesmith
from cells import SHORT, SIZES

# op: (operation, fields, arrays that it reads and writes, fields of the copy of as many, most accesses of a lane).
OPS = {
    "softmax": ("softmax", {}, 2, {"inputs": 1}, 16),
    "softmax_backward": ("softmax_backward", {}, 3, {"inputs": 2}, 16),
    "loss": ("cross_entropy", {"reduction": "none"}, 1, {"inputs": 1, "write": 0}, 40),
    "fused": ("cross_entropy", {"gradient": "in_place", "reduction": "none"}, 2, {"inputs": 1, "in_place": 1}, 24),
    "separate": ("cross_entropy", {"gradient": "separate", "reduction": "none"}, 2, {"inputs": 1}, 24),
    "rms_norm": ("rms_norm", {"weight": 1}, 2, {"inputs": 1}, 16),
    "swiglu": ("swiglu", {}, 3, {"inputs": 2}, 16),
    "layer_norm": ("layer_norm", {}, 2, {"inputs": 1}, 16),
}
COLS = [21, 30, 47, 68, 77, 101, 118, 141, 206, 301, 450, 701, 1002]
DEFAULTS = {"default": "exact", "bucket": "capacity"}
MAX_STAGED = 36  # accesses of a lane to a row in shared memory
CHUNKS = (4 << 10, 8 << 10, 16 << 10)  # bytes of a block's rows


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


def staged_candidates(cols, size, all_threads):
    """Returns {name: configuration} of warps whose rows are staged in shared memory."""
    found = {}
    for threads in all_threads:
        for lanes in (1, 2, 4, 8, 16, 32):
            each = cols / (1 if cols % 2 else 2) / lanes
            at_once = threads // lanes * cols * size
            if not 3 < each <= MAX_STAGED or (threads < 128 and 2 * at_once < CHUNKS[0]):
                continue
            for rounds in sorted({1 << max(0, round(math.log2(chunk / at_once))) for chunk in CHUNKS}):
                found[f"s{threads}:{lanes}({each:.0f})x{rounds}"] = (
                    f"variant=warp,threads={threads},lanes={lanes},access=staged,rounds={rounds},load=plain,store=plain")
    return found


def buffers(plan, rows, cols, dtype):
    """Returns random arrays for a plan."""
    made = []
    for name, size in zip(plan.arrays, plan.sizes, strict=True):
        if name == "targets":
            made.append(torch.randint(0, cols, (rows,), device="cuda", dtype=torch.int64 if size == 8 * rows else torch.int32))
        elif name == "dlogits" and plan.fields.get("gradient") == "in_place":
            made.append(made[0])
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
    parser.add_argument("--staged", nargs="*", type=int, default=[64], metavar="THREADS", help="threads of staged rows")
    parser.add_argument("--few", action="store_true", help="no candidates but those that are staged")
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no further width starts")
    parser.add_argument("--output", default="short_rows.json")
    args = parser.parse_args()
    engines = {name: tunesmith.Engine(args.library, mode="off", system_caches="", specialize=specialize)
               for name, specialize in DEFAULTS.items()}
    timer, stream, results, copies = timing.Timer(), torch.cuda.current_stream().cuda_stream, [], {}
    begin = time.monotonic()

    def prepare(task):
        op, dtype, cols = task
        name, fields, arrays, _, most = OPS[op]
        rows = (args.mib << 20) // (arrays * cols * SIZES[dtype])
        fields = dict(fields, rows=rows, cols=cols, dtype=SHORT[dtype])
        plans = {which: engine.plan(name, **fields) for which, engine in engines.items()}
        found = {} if args.few else candidates(most, cols, SIZES[dtype])
        found.update(staged_candidates(cols, SIZES[dtype], args.staged))
        for label, config in found.items():
            with contextlib.suppress(RuntimeError):  # not for this problem
                plans[label] = engines["default"].plan(name, config=config, **fields)
        return task, rows, plans

    def copy_of(fields, given, elements, dtype):
        """Returns a launcher of the tuned copy of as many arrays."""
        reads, writes = fields["inputs"], fields.get("write", 1)
        key = (tuple(fields.items()), dtype)
        if key not in copies:
            copies[key] = engines["default"].plan("copy", mode=tunesmith.MODES["tune"], elements=elements, dtype=SHORT[dtype],
                                                  **fields).config
        plan = engines["default"].plan("copy", config=copies[key], elements=elements, dtype=SHORT[dtype], **fields)
        inputs = given[:1] if reads == 1 else [given[0], torch.randn_like(given[0])]
        if "in_place" in fields:
            output = given[0]
        elif writes:
            output = torch.empty_like(given[0])
        else:
            output = torch.empty(plan.sizes[-1] // 4, device="cuda")
        return plan.launcher(*inputs, output, stream=stream)

    tasks = [(op, dtype, cols) for op in args.ops for dtype in args.dtypes for cols in args.cols]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (op, dtype, cols), rows, plans in pool.map(prepare, tasks):
            if time.monotonic() - begin > args.until:
                pool.shutdown(cancel_futures=True)
                break
            given = buffers(plans["default"], rows, cols, getattr(torch, dtype))
            works = {label: plan.launcher(*given, stream=stream) for label, plan in plans.items()}
            works["copy"] = copy_of(OPS[op][3], given, rows * cols, dtype)
            found = timer.measure(works, args.rounds)
            us = {label: figures["us"] for label, figures in found.items()}
            order = sorted((label for label in us if label not in (*DEFAULTS, "copy")), key=us.get)
            best = us[order[0]]
            results.append({"op": op, "dtype": SHORT[dtype], "cols": cols, "rows": rows, "us": us,
                            "configs": {label: plans[label].config for label in DEFAULTS}})
            gb_per_s = rows * cols * SIZES[dtype] * OPS[op][2] / best / 1e3
            print(f"{op:16} {SHORT[dtype]:4} {cols:5} {best:7.1f} us {gb_per_s:5.0f} GB/s  copy:",
                  *(f"{label} {us['copy'] / us[label]:.3f}" for label in [*DEFAULTS, order[0]]), " next:",
                  *(f"{label} {us[label] / best:.2f}" for label in order[1:6]), flush=True)
            with open(args.output, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
