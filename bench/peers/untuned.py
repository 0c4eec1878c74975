"""Compares kernels without tuning with the configurations that a published run found for the same problems.

    python3 bench/peers/untuned.py --library build/release/api/libtunesmith.so --family cross_entropy \\
                                   bench/plots/cross_entropy_sample.json

`default` is the default configuration of the kernel for the width, `bucket` the default of the kernel for its bucket of widths,
which an engine uses while a width is new. Both are timed with the recorded configuration, interleaved. Prints their time over the
recorded configuration's for each problem, and the geometric mean and the largest for each operation. Needs torch.
"""
import argparse
import concurrent.futures
import importlib
import json
import os

import torch

import results
import timing
import tunesmith
from cells import of_record
from targets import geomean

FAMILIES = {"softmax": "row_ops", "cross_entropy": "cross_entropy"}
KINDS = ("tuned", "default", "bucket")


class Engines:
    """An engine for exact widths and one for buckets. Neither tunes."""

    def __init__(self, library):
        self.exact, self.capacity = (tunesmith.untuned(library, specialize) for specialize in ("exact", "capacity"))

    def plan(self, kind, record, op, fields):
        engine = self.capacity if kind == "bucket" else self.exact
        return engine.plan(op, config=record["config"] if kind == "tuned" else None, **fields)


def problem(of, record):
    """Returns (arrays, fields) of a record."""
    cell = of_record(record)
    arrays = of.make(cell)
    return arrays, {**cell.fields, **arrays.fields}


def compile_ahead(of, records, engines):
    """Compiles all kernels on all cores."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for record in records:
            arrays, fields = problem(of, record)
            for kind in KINDS:
                pool.submit(engines.plan, kind, record, arrays.op, fields)


def measured(of, record, engines, timer, rounds):
    """Returns microseconds by kind."""
    arrays, fields = problem(of, record)
    stream = torch.cuda.current_stream().cuda_stream
    works = {kind: engines.plan(kind, record, arrays.op, fields).launcher(*arrays.operands, stream=stream) for kind in KINDS}
    times = timer.measure(works, rounds, before=arrays.restore, twice=())
    return {kind: value["us"] for kind, value in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--family", choices=FAMILIES, default="softmax")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("run", metavar="RUN.json")
    args = parser.parse_args()
    of = importlib.import_module(FAMILIES[args.family]).FAMILY
    with open(args.run) as file:
        records = [record for record in json.load(file)["cells"] if results.OWN in record["us"]]
    engines, timer, ratios = Engines(args.library), timing.Timer(), {}
    with torch.no_grad():
        compile_ahead(of, records, engines)
        for record in records:
            us = measured(of, record, engines, timer, args.rounds)
            over = {kind: us[kind] / us["tuned"] for kind in KINDS[1:]}
            print(f"{results.title(record):50} {us['tuned']:8.1f} us", *(f"{kind} {value:.3f}" for kind, value in over.items()))
            for kind, value in over.items():
                ratios.setdefault((record["op"], kind), []).append(value)
    for (op, kind), values in sorted(ratios.items()):
        print(f"{op}, {kind}: {geomean(values):.3f} in the geometric mean, {max(values):.3f} at most, {len(values)} problems")


if __name__ == "__main__":
    main()
