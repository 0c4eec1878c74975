"""Measures the error of Tunesmith, PyTorch and torch.compile against float64 in units of the last place (ULP), and the
relative error of cross-entropy, Triton included (loss_accuracy.py).

python3 bench/peers/accuracy.py --library build/release/api/libtunesmith.so [--out FOLDER] [--mode off|tune] [--no-compile]

Inputs: normal (standard normal), uniform (|x| <= 100), offset (standard normal plus 1e4), rounded to the dtype first, so
that only the arithmetic has errors. An ULP is a unit of the output's dtype at the size of the exact result, at least the
spacing of subnormal numbers. Where a difference of large terms cancels, it is the ULP of the larger one: max(|dx|, |exp(y)
sum(dy)|) for log_softmax_backward, max(|dx|, |y| sum(|dy y|)) for softmax_backward. Writes a table, accuracy.json and
loss_accuracy.json.
"""
import argparse
import itertools
import os
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch

import grids
import kernels
import loss_accuracy
import machine
import problems
import results
import tables
import tunesmith
from family import DEVICE, one_line

# bits of the significand including the implicit one, exponent of the smallest normal number
FORMATS = {"float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}
INPUTS = ("normal", "uniform", "offset")
CROSS_ENTROPY = "cross_entropy"


def ulp(size, dtype):
    """Returns the spacing of `dtype` at |size| in float64."""
    digits, least = FORMATS[dtype]
    _, exponent = torch.frexp(size.abs())
    floor = torch.where(size == 0, least, torch.clamp(exponent - 1, min=least))
    return torch.ldexp(torch.ones_like(size), floor - (digits - 1))


def ulp_error(got, want, scale, dtype):
    """Returns (largest, mean) error of a result; inf if infinities or NaN differ. `scale`: the size whose ULP counts."""
    finite = torch.isfinite(want)
    if not bool(torch.where(finite, torch.isfinite(got), got == want).all()):
        return float("inf"), float("inf")
    error = torch.where(finite, (got - want).abs() / ulp(scale, dtype), torch.zeros_like(want))
    return error.max().item(), error.mean().item()


def inputs_of(kind, rows, cols):
    if kind == "uniform":
        return torch.rand(rows, cols, device=DEVICE) * 200 - 100
    x = torch.randn(rows, cols, device=DEVICE)
    return x + 1e4 if kind == "offset" else x


def problem(op, dtype, kind, rows, cols):
    """Returns (inputs of Tunesmith, eager function, exact result, its scale)."""
    torch.manual_seed(cols)
    x = inputs_of(kind, rows, cols).to(dtype)
    log = op.startswith("log")
    plain = getattr(problems, op)
    if op in grids.FORWARD:
        want = plain(x.double())
        return (x,), lambda: plain(x), want, want
    y = torch.log_softmax(x, -1) if log else torch.softmax(x, -1)
    dy = torch.randn(rows, cols, device=DEVICE).to(dtype)
    grad, out = dy.double(), y.double()
    want = problems.exact_backward(op, grad, out)
    terms = torch.exp(out) * grad.sum(-1, keepdim=True) if log else out * (grad * out).abs().sum(-1, keepdim=True)
    eager = torch.ops.aten._log_softmax_backward_data if log else torch.ops.aten._softmax_backward_data
    return (dy, y), lambda: eager(dy, y, -1, dtype), want, torch.maximum(want.abs(), terms.abs())


def launcher(engine, op, arrays, cell):
    """Returns a function that runs Tunesmith's kernel and writes its configuration to the cell."""
    output, stream = torch.empty_like(arrays[0]), torch.cuda.current_stream().cuda_stream

    def run():
        plan = engine.plan(op, rows=cell["rows"], cols=cell["cols"], dtype=tunesmith.dtype_name(output))
        cell["config"] = plan.config
        output.fill_(float("nan"))
        plan.launcher(*arrays, output, stream=stream)()
        torch.cuda.synchronize()
        return output

    return run


def measured(engine, op, dtype, rows, cols, names):
    """Yields the record of each kind of inputs. Failures are left out and named."""
    torch._dynamo.reset()
    compiled = torch.compile(getattr(problems, op), dynamic=False) if "compile" in names else None
    for kind in INPUTS:
        arrays, eager, want, scale = problem(op, getattr(torch, dtype), kind, rows, cols)
        cell = {"op": op, "dtype": dtype, "rows": rows, "cols": cols, "inputs": kind, "ulp": {}, "left_out": {}}
        works = {"tunesmith": launcher(engine, op, arrays, cell), "torch": eager, "compile": lambda: compiled(*arrays)}
        for name in names:
            try:
                cell["ulp"][name] = ulp_error(works[name]().double(), want, scale, dtype)
            except Exception as error:
                cell["left_out"][name] = one_line(error)
                say(f"{op} {dtype} {rows}x{cols} {kind}: {name} left out: {cell['left_out'][name]}")
        yield cell


def row(cell, names):
    """Returns one line of the table."""
    values = [cell["ulp"].get(name) for name in names]
    texts = [f"{value[0]:.2f} ({value[1]:.3f})" if value else "-" for value in values]
    title = f"{cell['op']} {cell['dtype']} {cell['rows']}x{cell['cols']} {cell['inputs']}"
    return title.ljust(52) + "".join(text.rjust(20) for text in texts)


def say(line):
    print(line, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--mode", choices=tunesmith.MODES, default="off")
    parser.add_argument("--cache", default="", help="file with tuned configurations; default: none")
    parser.add_argument("--shapes", nargs="+", default=["1024x1000", "32x50257"], help="ROWSxCOLS")
    parser.add_argument("--ops", nargs="+", choices=(*grids.OPS, CROSS_ENTROPY), default=(*grids.OPS, CROSS_ENTROPY))
    parser.add_argument("--dtypes", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--no-compile", action="store_true",
                        help="leave out torch.compile, which takes a second or two per op, dtype and shape")
    parser.add_argument("--out", default=".")
    return parser.parse_args()


def main():
    args, started = arguments(), time.time()
    engine = tunesmith.Engine(args.library, effort="quick", mode=args.mode, cache_file=args.cache, tune_budget_s=5.0)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000
    facts = {**machine.facts(engine.version), "mode": args.mode}
    row_ops, shapes = [op for op in args.ops if op != CROSS_ENTROPY], [tuple(map(int, s.split("x"))) for s in args.shapes]
    names = ["tunesmith", "torch"] + ([] if args.no_compile else ["compile"])
    say(f"{facts['gpu']}, torch {facts['torch']}: largest (mean) error in ULP")
    say("".ljust(52) + "".join(name.rjust(20) for name in names))
    cells, losses = [], []
    with torch.no_grad():
        for op, dtype, (rows, cols) in itertools.product(row_ops, args.dtypes, shapes):
            for cell in measured(engine, op, dtype, rows, cols, names):
                cells.append(cell)
                say(row(cell, names))
    if CROSS_ENTROPY in args.ops:
        losses = loss_accuracy.measure(engine, torch.cuda.current_stream().cuda_stream, shapes, not args.no_compile, say)
    os.makedirs(args.out, exist_ok=True)
    for name, ops, records, table in (("accuracy", row_ops, {"cells": cells}, tables.row_accuracy(cells)),
                                      ("loss_accuracy", [CROSS_ENTROPY], {"losses": losses}, tables.loss_accuracy(losses))):
        if ops and any(records.values()):
            path = os.path.join(args.out, name + ".json")
            results.write(path, {**facts, "kernels": kernels.recorded(args.library, ops), **records})
            say("\n" + "\n".join(table) + f"\n{path}: {time.time() - started:.0f} s")
    return 0 if cells or losses else 1


if __name__ == "__main__":
    sys.exit(main())
