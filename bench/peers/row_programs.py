"""Compares shipped row programs with copies of the same arrays, PyTorch, torch.compile, Liger, QuACK, FlashInfer,
TransformerEngine and our hand-written kernels, in one process on the same arrays.

    python3 bench/peers/row_programs.py --library build/release/api/libtunesmith.so [--grid norms softmax] [--list]

Every result is compared with PyTorch's in float64; one that differs is left out and named. Then all are timed interleaved,
with L2 flushed before every launch; figures are medians. The copy is a row program, too: it reads the same arrays and writes
arrays of the same types without any reduction, and is tuned in the same way. PyTorch's time of a gradient includes the forward
pass, which autograd needs; QuACK's does not, and reads what its forward pass has saved. suites/row_program_peers.py says which
programs a peer has.

Writes row_programs.json after every cell, a table and a plot. The grids are in the order in which they are needed most
(suites/row_program_grids.py). --list prints the cells and about how long they take. Needs torch and triton.
"""
import argparse
import os
import re
import sys
import time

import torch

import compile_ahead
import family
import machine
import plot
import results
from suites import row_program_grids as grids
from suites import row_program_peers
from suites import row_program_problems as problems
import side_by_side
import tables
import timing
import tunesmith
from side_by_side import say

PEERS = ("torch", "compile", *row_program_peers.BUILDERS)


def peer(name, program, inputs):
    """Returns a call of a peer on these inputs, or None if it has no such function."""
    if name in ("torch", "compile"):
        function = problems.function(program)
        if name == "compile":
            torch._dynamo.reset()  # without earlier shapes, a call has fewer guards to check
            function = torch.compile(function, dynamic=False)
        return lambda: function(*inputs)
    build = row_program_peers.BUILDERS[name].get(program)
    return build(*inputs) if build else None


def compile_peers(cells, peers):
    """Compiles the peers' kernels, in a process of compile_ahead.run()."""
    for cell in cells:
        try:
            inputs, _ = problems.make(cell)
            for name in peers:
                try:
                    work = peer(name, cell.case, inputs)
                    if work:
                        work()
                        torch.cuda.synchronize()
                except Exception:  # it is named when it is measured
                    continue
        except Exception:  # out of memory because of the other processes
            pass
        inputs = work = None
        torch.cuda.empty_cache()
    return 0


def launcher(plan, tensors, stream):
    """Returns a launch on these tensors; raises if one of them is not as large as the plan's array."""
    for name, size, tensor in zip(plan.arrays, plan.sizes, tensors, strict=True):
        if tensor.numel() * tensor.element_size() != size:
            raise ValueError(f"{name} has {tensor.numel() * tensor.element_size()} bytes; expected {size}")
    return plan.launcher(*tensors, stream=stream)


class Bench:
    """An engine, a timer, the peers, and the digests of Tunesmith's kernels."""

    def __init__(self, args, peers):
        # No shipped records: the figures are of what this engine finds.
        self.engine = tunesmith.Engine(args.library, mode="tune", effort=args.effort, tune_budget_s=args.tune_budget,
                                       system_caches="", cache_file=args.cache)
        self.peers, self.rounds, self.timer = peers, args.rounds, timing.Timer()
        self.stream = torch.cuda.current_stream().cuda_stream
        self.digests = side_by_side.recorded_kernels(args.library, {grids.OP, *(op for op, _ in grids.HAND_WRITTEN.values())})

    def plan(self, of):
        op, fields = of
        return self.engine.plan(op, **fields)

    def own(self, cell, record, inputs, outputs):
        """Returns a launch of the program and what it writes to."""
        plan = self.plan(grids.problem(cell))
        record.update(config=plan.config, origin=plan.origin, tune_s=plan.tune_s)
        return launcher(plan, inputs + outputs, self.stream), outputs

    def hand_written(self, cell, record, inputs, outputs):
        """Returns a launch of the hand-written kernel and what it writes to; None if there is no such kernel."""
        of = grids.hand_written(cell)
        if not of:
            return None
        plan = self.plan(of)
        record.update(hand_written_op=of[0], hand_written_kernel=self.digests[of[0]], hand_written_config=plan.config)
        arrays = [torch.empty_like(array) for array in outputs]
        by_name = {"x": inputs[0], "y": arrays[0], "weight": inputs[-1], "logits": inputs[0], "targets": inputs[-1],
                   "loss": arrays[0], "lse": arrays[-1]}
        return launcher(plan, [by_name[name] for name in plan.arrays], self.stream), arrays

    def peer(self, name, cell, inputs):
        """Returns a call of a peer and its first result; None if it has no such function."""
        call = peer(name, cell.case, inputs)
        return call and (call, call())

    def copy(self, cell, record, inputs, outputs):
        """Returns a launch of the copy."""
        reads, writes = problems.full(cell, inputs, outputs)
        plan = self.plan(grids.copy_of(cell))
        moved = sum(array.numel() * array.element_size() for array in reads + writes)
        record.update(bytes=moved, copy_kind="copy" if writes else "read", copy_bytes=moved, copy_config=plan.config,
                      copy_tune_s=plan.tune_s)
        arrays = [torch.empty_like(array) for array in writes] or [torch.empty(cell.rows, device=family.DEVICE)]
        return launcher(plan, reads + arrays, self.stream)

    def measure(self, cell):
        """Returns the record of one cell."""
        inputs, outputs = problems.make(cell)
        want = problems.reference(cell, inputs)
        record, works = dict(vars(cell), error={}, left_out={}), {}
        works["copy"] = self.copy(cell, record, inputs, outputs)
        builders = {results.OWN: lambda: self.own(cell, record, inputs, outputs),
                    results.HAND_WRITTEN: lambda: self.hand_written(cell, record, inputs, outputs)}
        builders.update((name, lambda name=name: self.peer(name, cell, inputs)) for name in self.peers)
        for name, build in builders.items():
            try:
                built = build()
                if built:
                    launch, result = built
                    if name in (results.OWN, results.HAND_WRITTEN):
                        launch()
                    record["error"][name] = problems.checked(cell, result, want)
                    works[name] = launch
            except Exception as error:  # any failure of a peer is a line in the report
                record["left_out"][name] = family.one_line(error)
                say(f"{cell}: {name} left out: {record['left_out'][name]}")
                torch.cuda.synchronize()  # raises if the GPU's context is lost: nothing more can be measured then
        built = result = want = None
        measured = self.timer.measure(works, self.rounds)
        for fact in ("us", "spread", "samples"):
            record[fact] = {name: value[fact] for name, value in measured.items()}
        return record


def row(cell):
    """Returns the lines that are printed after a cell."""
    us = ", ".join(f"{name} {value:.1f}" for name, value in cell["us"].items())
    best = results.over_best(cell)
    share = f"; share of the copy {results.share(cell):.3f}" if results.share(cell) else ""
    lines = [f"{results.title(cell)}: us: {us}{share}" + (f", best {best:.2f}" if best else "")]
    lines += [f"    {name} {cell[fact]}" for name, fact in (("config", "config"), ("hand-written", "hand_written_config"))
              if cell.get(fact)]
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtunesmith.so")
    parser.add_argument("--grid", nargs="+", choices=grids.GRIDS, default=list(grids.GRIDS), help="default: all, in this order")
    parser.add_argument("--only", help="regular expression: only problems whose title matches, such as '^rms_norm .*x4096'")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="only these; no name: Tunesmith alone")
    parser.add_argument("--rounds", type=int, default=21, help="launches of each; at most 7 for kernels above 1 ms")
    parser.add_argument("--effort", choices=("quick", "full"), default="quick", help="of Tunesmith's tuning")
    parser.add_argument("--tune-budget", type=float, default=2.0, help="seconds per kernel: program, copy, hand-written kernel")
    parser.add_argument("--cache", default="", help="file that keeps tuned configurations; default: none, everything is tuned")
    parser.add_argument("--out", default=".", help="folder for row_programs.json and the plot")
    parser.add_argument("--budget", type=float, default=540, help="seconds; no problem starts after it")
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile the peers' kernels in advance")
    parser.add_argument("--jobs-limit", type=float, default=60, help="their seconds at most")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the problems and about how long they take; measure nothing")
    parser.add_argument("--compile-slice", help=argparse.SUPPRESS)  # I/N: a process of --jobs
    args = parser.parse_args()
    if not args.library and not args.list:
        parser.error("--library is required")
    return args


def main():
    args, started = arguments(), time.time()
    cells = [cell for cell in grids.cells(*args.grid) if re.search(args.only or "", str(cell))]
    seconds = grids.estimate(cells, len(args.peers), args.tune_budget, args.jobs) + (args.jobs_limit if args.jobs else 0)
    about = (f"{len(cells)} problems, {grids.kernels_to_tune(cells)} kernels to tune: about {seconds:.0f} s; "
             f"budget {args.budget:.0f} s")
    if args.list:
        say("\n".join([*map(str, cells), about]))
        return 0
    peers, missing = family.available(args.peers, row_program_peers.NEEDS)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10000
    compile_ahead.configure()
    if args.compile_slice:
        index, count = map(int, args.compile_slice.split("/"))
        return compile_peers(cells[index::count], peers)
    say(about)
    for name, reason in missing.items():
        say(f"{name} left out: {reason}")
    os.makedirs(args.out, exist_ok=True)
    if args.jobs:
        say(f"compiled ahead: {compile_ahead.run(args.jobs, args.jobs_limit):.1f} s")
    bench = Bench(args, peers)
    run = {**machine.facts(bench.engine.version), "kernels": {grids.OP: bench.digests[grids.OP]}, "mode": "tune",
           "effort": args.effort, "flush_us": bench.timer.flush_us, "missing": missing, "cells": []}
    path = os.path.join(args.out, "row_programs.json")
    stopped = side_by_side.measure_all(cells, bench.measure, lambda cell: say(row(cell)), run, path, started, args.budget)
    say("\n".join(tables.speeds(run["cells"])))
    measured = {results.key(cell) for cell in run["cells"]}
    left = [str(cell) for cell in cells if cell not in measured]
    if left:
        say("not measured: " + ", ".join(left))
    say(f"{path}: {len(run['cells'])} of {len(cells)} problems, {run['seconds']:.0f} s. {stopped}")
    if run["cells"] and not args.no_plots:
        try:
            plot.draw([path], args.out)
        except Exception as error:  # the figures are safe in the JSON
            say(f"no plot: {family.one_line(error)}")
    return 1 if stopped.startswith("stopped: ") or not run["cells"] else 0


if __name__ == "__main__":
    sys.exit(main())
