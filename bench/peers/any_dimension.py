"""Compares softmax, log_softmax, cross-entropy and LayerNorm (a row program) over a dimension that is not the last with copies
of the same arrays, PyTorch and torch.compile. The loss is the mean with its gradient in the same pass; PyTorch runs forward
and backward.

    python3 bench/peers/any_dimension.py --library build/release/api/libtunesmith.so [--cells SUBSTRING...]
                                         [--peers torch compile] [--effort quick] [--budget 2] [--out FOLDER]

Everything runs in one process on the same arrays and is timed interleaved, with L2 flushed before every launch; figures are
medians. `default` is the configuration without tuning. The copy is Tunesmith's tuned copy of the same bytes; for a gradient
it adds two arrays. Results are compared with PyTorch in float64. Writes any_dimension.json after every cell, and a table.
Needs torch and triton.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "8")

import torch

import family
import machine
import timing
import tunesmith
from cells import SHORT
from family import DEVICE

# rows, cols, inner: an image classifier's features, segmentation, a few long columns, unaligned and short ones.
SHAPES = [(32, 1000, 3136), (8, 21, 262144), (16, 128256, 4), (64, 256, 3025), (4096, 512, 49), (1, 16384, 4096)]
CELLS = [(op, *shape, dtype) for op in ("softmax", "softmax_backward") for shape in SHAPES
         for dtype in ("float32", "bfloat16")]
CELLS += [("log_softmax", *shape, dtype) for shape in SHAPES[:2] for dtype in ("float32", "bfloat16")]
# LayerNorm over the channels of feature maps, as in ConvNeXt.
CELLS += [("layer_norm", *shape, dtype) for shape in [(64, 256, 3136), (256, 768, 196)] for dtype in ("float32", "bfloat16")]
# Segmentation (Cityscapes, VOC, ADE20K), dense features, and long columns.
LOSS_SHAPES = [(8, 19, 524288), (8, 21, 262144), (16, 150, 65536), (32, 1000, 3136), (16, 128256, 4)]
CELLS += [("cross_entropy", *shape, dtype) for shape in LOSS_SHAPES for dtype in ("float32", "bfloat16")]


def title(cell):
    op, rows, cols, inner, dtype = cell
    return f"{op} {SHORT[dtype]} {rows}x{cols}x{inner}"


def backward(y, dy):
    return torch._softmax_backward_data(dy, y, 1, y.dtype)


def layer_norm(x, w, b):
    x32 = x if x.dtype == torch.float64 else x.float()
    variance, mean = torch.var_mean(x32, 1, correction=0, keepdim=True)
    return ((x32 - mean) * torch.rsqrt(variance + 1e-5) * w[:, None] + b[:, None]).to(x.dtype)


# What PyTorch calls for each operation with one output.
FUNCTIONS = {"softmax": lambda x: torch.softmax(x, 1), "log_softmax": lambda x: torch.log_softmax(x, 1),
             "softmax_backward": lambda dy, y: backward(y, dy), "layer_norm": layer_norm}


def loss_gradient(x, targets):
    logits = x.detach().requires_grad_()
    torch.nn.functional.cross_entropy(logits, targets).backward()
    return logits.grad


def largest_error(got, want):
    """Returns the largest absolute error of some rows over the largest value."""
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def measure(engine, defaults, cell, peers, timer, stream):
    op, rows, cols, inner, dtype = cell
    torch.manual_seed(rows + cols + inner)
    x = torch.randn(rows, cols, inner, device=DEVICE).to(getattr(torch, dtype))
    inputs = [x]
    if op == "cross_entropy":
        return measure_loss(engine, defaults, cell, x, peers, timer, stream)
    if op == "softmax_backward":
        inputs = [x, torch.softmax(torch.randn(rows, cols, inner, device=DEVICE), 1).to(x.dtype)]
    full = len(inputs)
    if op == "layer_norm":
        inputs += [torch.randn(cols, device=DEVICE).to(x.dtype) for _ in range(2)]
    output = torch.empty_like(x)
    fields = {"rows": rows, "cols": cols, "inner": inner, "dtype": SHORT[dtype]}
    begin = time.perf_counter()
    plans = {"tunesmith": engine.plan(op, **fields), "default": defaults.plan(op, **fields)}
    works = {name: plan.launcher(*inputs, output, stream=stream) for name, plan in plans.items()}
    copy = engine.plan("copy", elements=x.numel(), dtype=SHORT[dtype], inputs=full)
    works["copy"] = copy.launcher(*inputs[:full], torch.empty_like(x), stream=stream)
    facts = {"config": plans["tunesmith"].config, "default_config": plans["default"].config,
             "tune_s": plans["tunesmith"].tune_s, "prepare_s": time.perf_counter() - begin, "left_out": {}, "errors": {}}
    function = FUNCTIONS[op]
    want = function(*(array[:1].double() for array in inputs[:full]), *(array.double() for array in inputs[full:]))
    for name in plans:
        output.fill_(float("nan"))
        works[name]()
        facts["errors"][name] = largest_error(output[:1], want)
    for name in peers:
        try:
            called = function if name == "torch" else torch.compile(function, dynamic=False)
            work = lambda called=called: called(*inputs)
            facts["errors"][name] = largest_error(work()[:1], want)
            works[name] = work
        except Exception as error:  # of a foreign package
            facts["left_out"][name] = family.one_line(error)
    facts["works"] = timer.measure(works)
    facts["bytes"] = (full + 1) * x.numel() * x.element_size()
    return facts


def measure_loss(engine, defaults, cell, x, peers, timer, stream):
    op, rows, cols, inner, dtype = cell
    targets = torch.randint(cols, (rows, inner), device=DEVICE)
    loss, lse, output = torch.empty((), device=DEVICE), torch.empty(rows, inner, device=DEVICE), torch.empty_like(x)
    fields = {"rows": rows, "cols": cols, "inner": inner, "dtype": SHORT[dtype], "gradient": "separate"}
    begin = time.perf_counter()
    plans = {"tunesmith": engine.plan(op, **fields), "default": defaults.plan(op, **fields)}
    works = {name: plan.launcher(x, targets, loss, lse, output, stream=stream) for name, plan in plans.items()}
    copy = engine.plan("copy", elements=x.numel(), dtype=SHORT[dtype], inputs=1)
    works["copy"] = copy.launcher(x, torch.empty_like(x), stream=stream)
    facts = {"config": plans["tunesmith"].config, "default_config": plans["default"].config,
             "tune_s": plans["tunesmith"].tune_s, "prepare_s": time.perf_counter() - begin, "left_out": {}, "errors": {}}
    want = loss_gradient(x[:1].double(), targets[:1]) / rows
    for name in plans:
        output.fill_(float("nan"))
        works[name]()
        facts["errors"][name] = largest_error(output[:1], want)
    for name in peers:
        try:
            function = torch.nn.functional.cross_entropy
            called = function if name == "torch" else torch.compile(function, dynamic=False)

            def work(called=called):
                logits = x.detach().requires_grad_()
                called(logits, targets).backward()
                return logits.grad

            facts["errors"][name] = largest_error(work()[:1], want)
            works[name] = work
        except Exception as error:  # of a foreign package
            facts["left_out"][name] = family.one_line(error)
    facts["works"] = timer.measure(works)
    facts["bytes"] = 2 * x.numel() * x.element_size()
    return facts


def table(cells):
    names = ["default", "torch", "compile"]
    lines = ["| problem | us | GB/s | share of the copy | " + " | ".join(names) + " |", "|" + "-|" * (len(names) + 4)]
    for name, facts in cells.items():
        us = {work: found["us"] for work, found in facts["works"].items()}
        times = [f"{us[work] / us['tunesmith']:.2f}" if work in us else "" for work in names]
        own = us["tunesmith"]
        lines.append(f"| {name} | {own:.1f} | {facts['bytes'] / own / 1e3:.0f} | {us['copy'] / own:.3f} | "
                     + " | ".join(times) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--cells", nargs="*", default=[""], help="parts of the titles of cells")
    parser.add_argument("--peers", nargs="*", default=["torch", "compile"])
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of tuning for each kernel")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no cell is begun")
    parser.add_argument("--cache", default="", help="cache file, which keeps the trials")
    parser.add_argument("--out", default=".")
    args = parser.parse_args()
    more = {"cache_file": args.cache} if args.cache else {}
    engine = tunesmith.Engine(args.library, mode="tune", effort=args.effort, tune_budget_s=args.budget, system_caches="",
                              **more)
    defaults = tunesmith.Engine(args.library, mode="off", system_caches="", cache_file="")
    timer, stream = timing.Timer(), torch.cuda.current_stream().cuda_stream
    run = {"machine": machine.facts(engine.version), "cells": {}}
    begin = time.perf_counter()
    for cell in CELLS:
        if not any(part in title(cell) for part in args.cells) or time.perf_counter() - begin > args.limit:
            continue
        try:
            found = measure(engine, defaults, cell, args.peers, timer, stream)
            run["cells"][title(cell)] = found
            us = {name: round(work["us"], 1) for name, work in found["works"].items()}
            errors = {name: f"{error:.1e}" for name, error in found["errors"].items()}
            print(f"{title(cell)}: {us} {found['prepare_s']:.1f} s {found['left_out'] or ''} {errors}\n"
                  f"    {found['config']}\n    {found['default_config']}", flush=True)
        except Exception as error:
            print(f"{title(cell)}: {family.one_line(error)}", flush=True)
        with open(os.path.join(args.out, "any_dimension.json"), "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
        torch.cuda.empty_cache()
    print(table(run["cells"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
