"""The command line of all side-by-sides: measures the problems of one family and writes JSON, a table and plots."""
import argparse
import os
import re
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a pool of processes only costs time for one kernel at a time

import torch

import compile_ahead
import family
import kernels
import machine
import measure
import plot
import results
import samples
import tunesmith
from cells import SIZES


def say(line):
    print(line, flush=True)


def row(cell, names):
    """Returns one line of the table."""
    def value(name):
        if not cell["us"]:
            return f"{cell['error'][name]:.3g}" if name in cell["error"] else "-"
        speed, ratio = results.speed(cell, name), results.share(cell, name)
        return "-" if speed is None else f"{speed:.0f} ({ratio:.3f})" if ratio else f"{speed:.0f}"

    over = results.over_best(cell)
    columns = [f"{cell['op']} {results.title(cell)}".ljust(44)] + [value(name).rjust(14) for name in names]
    tuned = f"{cell['config']} ({cell['origin']}, {cell['tune_s']:.2f} s)" if "config" in cell else ""
    return "".join(columns) + (f"{over:8.3f}  " if over else "       -  ") + tuned


def say_cliffs(cells):
    for (op, dtype), sweep in results.sweeps(cells).items():
        drops = results.drops(sweep)
        for drop, before, after in drops:
            if drop > results.CLIFF:
                say(f"cliff: {op} {results.title(before)} {results.share(before):.3f} ({before['config']}) -> "
                    f"{results.title(after)} {results.share(after):.3f} ({after['config']}): -{100 * drop:.1f}%")
        if drops:
            say(f"largest drop, {op} {results.SHORT[dtype]}: {100 * max(drop for drop, _, _ in drops):.1f}%")


def dtype_name(name):
    """Returns float32 for f32 and so on; any other name unchanged."""
    return next((long for long, short in results.SHORT.items() if short == name), name)


def recorded_kernels(library, ops):
    """Returns the digests of the kernels of Tunesmith's operations; warns if they are unknown."""
    digests = kernels.recorded(library, sorted(ops))
    if None in digests.values():
        say("no working tunesmith command line next to the library: the figures do not record which kernels they are of")
    return digests


def arguments(of, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--grid", nargs="+", choices=of.all_grids, default=[of.grids[0]])
    if of.sampled:
        parser.add_argument("--seed", type=int, default=1, help="of the grids `sample` and `small`, which draw their shapes")
        parser.add_argument("--count", type=int, default=20, help="shapes that they draw for each operation and dtype")
    parser.add_argument("--ops", nargs="+", choices=of.ops, help="only these")
    parser.add_argument("--only", help="regular expression: only problems whose title matches")
    parser.add_argument("--dtypes", nargs="+", choices=SIZES, type=dtype_name,
                        help="f32, bf16, f16: instead of the grid's own")
    parser.add_argument("--peers", nargs="*", choices=of.peers, default=list(of.peers),
                        help="only these; no name: Tunesmith alone")
    parser.add_argument("--rounds", type=int, default=21, help="launches of each; at most 7 for kernels above 1 ms")
    parser.add_argument("--effort", choices=("quick", "full"), default="full", help="of Tunesmith's tuning")
    parser.add_argument("--mode", choices=tunesmith.MODES, default="tune",
                        help="off: default configurations; replay: --cache's")
    parser.add_argument("--config", help="NAME=VALUE,...: pins Tunesmith's configuration")
    parser.add_argument("--tune-budget", type=float, default=10, help="seconds per problem")
    parser.add_argument("--cache", default="", help="file that keeps tuned configurations; default: none, everything is tuned")
    parser.add_argument("--out", default=".", help=f"folder for {of.name}.json and the plots")
    parser.add_argument("--budget", type=float, default=540, help="seconds; no problem starts after it")
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile the peers' kernels in advance")
    parser.add_argument("--quick-check", action="store_true", help="two small shapes of each op, three rounds")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--compile-slice", help=argparse.SUPPRESS)  # I/N: a process of --jobs
    args = parser.parse_args()
    if args.quick_check:
        args.grid, args.rounds, args.effort = ["quick"], 3, "quick"
    return args


def cells_of(of, grid, args):
    """Returns the problems of a grid."""
    if of.sampled and grid in samples.BYTES:
        return samples.cells(of.sampled, args.seed, args.count, args.ops, args.dtypes, grid)
    return of.cells(grid, args.ops, args.dtypes)


def measure_all(cells, measure_one, tell, run, path, started, budget):
    """Measures cells one by one and writes the run to `path`. No cell starts `budget` seconds after `started`.

    `measure_one`: (cell) -> record; `tell`: prints a record. Returns why it stopped early, or an empty string."""
    stopped = ""
    for index, cell in enumerate(cells):
        if time.time() - started > budget:
            stopped = f"stopped after {budget:.0f} s: {len(cells) - index} of {len(cells)} problems not measured"
            break
        try:
            run["cells"].append(measure_one(cell))
            tell(run["cells"][-1])
        except Exception as error:
            say(f"{cell}: not measured: {family.one_line(error)}")
            try:
                torch.cuda.synchronize()
            except Exception as lost:
                stopped = f"stopped: the GPU's context is lost: {family.one_line(lost)}"
                break
        run["seconds"] = time.time() - started
        if cell.grid != "cliffs" or index % 32 == 0:
            results.write(path, run)
        torch.cuda.empty_cache()  # the next problem may need all of the memory
    run["seconds"], run["stopped"] = time.time() - started, stopped
    results.write(path, run)
    return stopped


def main(of, description):
    """Runs the command for the family `of` and returns the exit status."""
    args = arguments(of, description)
    started = time.time()
    cells = [cell for grid in args.grid for cell in cells_of(of, grid, args)
             if not args.only or re.search(args.only, str(cell))]
    names, missing = family.available(args.peers, of.needs)
    if args.compile_slice:
        return compile_ahead.work(of, cells, names, *map(int, args.compile_slice.split("/")))
    os.makedirs(args.out, exist_ok=True)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000
    compile_ahead.configure()
    bench = measure.Bench(args, of, names, say)
    ops = {results.tunesmith_op(cell.op) for cell in cells}
    run = {**machine.facts(bench.engine.version), "kernels": recorded_kernels(args.library, ops), "mode": args.mode,
           "effort": args.effort, "flush_us": bench.timer.flush_us, "missing": missing, "cells": []}
    heads = ("gpu", "driver_version", "torch", "triton", "tunesmith", "commit")
    say(", ".join(f"{name} {run[name]}" for name in heads if run.get(name)))
    for name, reason in missing.items():
        say(f"{name} left out: {reason}")
    if args.jobs and any(cell.grid != "cliffs" for cell in cells):
        say(f"compiled ahead: {compile_ahead.run(args.jobs, args.budget / 3):.1f} s")
    bench.compile_ahead(cells)
    columns = [*of.copies, results.OWN] + names
    say(f"{of.figures}; last the best peer's time over Tunesmith's, and Tunesmith's configuration")
    say("problem".ljust(44) + "".join(name.rjust(14) for name in columns) + "    best")
    path = os.path.join(args.out, of.name + ".json")

    def measure_one(cell):
        with torch.no_grad():
            return bench.measure(cell, args.rounds)

    stopped = measure_all(cells, measure_one, lambda cell: say(row(cell, columns)), run, path, started, args.budget)
    if not stopped and "cliffs" in args.grid:
        with torch.no_grad():
            bench.again(run["cells"], 3 * args.rounds)
        say_cliffs(run["cells"])
        run["seconds"] = time.time() - started
        results.write(path, run)
    say(stopped or f"done: {len(run['cells'])} problems")
    say(f"{path}: {run['seconds']:.0f} s")
    if not args.no_plots:
        try:
            plot.draw([path], args.out)
        except Exception as error:  # the figures are safe in the JSON
            say(f"no plots: {family.one_line(error)}")
    failed = stopped.startswith("stopped: ") or not run["cells"]
    if args.quick_check:
        failed |= any(results.OWN not in cell["us"] for cell in run["cells"]) or len(run["cells"]) < len(cells)
    return 1 if failed else 0

