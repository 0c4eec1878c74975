"""Compares quick with full tuning: the same problems are tuned by two engines with a cache file each, then timed interleaved
with each other and with the configuration that is used without tuning.

    python3 bench/peers/efforts.py --library build/release/api/libtunesmith.so [--family cross_entropy] [--grid main]
                                   [--out FOLDER]

Every configuration is checked against float64 first. Prints the ratios of the medians and the seconds of tuning, writes
efforts.json, and fails if quick is slower than full by more than 2% in the geometric mean. Needs torch and triton.
"""
import argparse
import importlib
import os
import sys
import tempfile
import time

import torch

import family
import machine
import measure
import results
import side_by_side
import timing
from cells import SIZES
from targets import geomean

FAMILIES = {"softmax": "row_ops", "cross_entropy": "cross_entropy", "attention": "attention"}
ALLOWED = 1.02
KINDS = {"full": ("full", "tune"), "quick": ("quick", "tune"), "default": ("quick", "off")}  # name: effort, mode


def benches(args, of, folder):
    """Returns a measure.Bench per kind. Engines do not share what they find."""
    found = {}
    for name, (effort, mode) in KINDS.items():
        settings = argparse.Namespace(library=args.library, effort=effort, mode=mode, config=None,
                                      tune_budget=args.tune_budget, cache=os.path.join(folder, name + ".db"))
        found[name] = measure.Bench(settings, of, [], side_by_side.say)
    return found


def measured(cell, of, found, timer, rounds):
    """Returns the record of one cell: microseconds, configuration and seconds of tuning per kind."""
    arrays = of.make(cell)
    rows = family.some_rows(cell.rows, arrays.checked_rows)
    want, works, record = arrays.exact(rows), {}, dict(vars(cell), config={}, tune_s={}, us={})
    for name, bench in found.items():
        facts = {}
        works[name] = bench.own(cell, arrays, facts)
        bench.checked(results.OWN, works[name], cell, arrays, want, rows)
        record["config"][name], record["tune_s"][name] = facts["config"], facts["tune_s"]
    for name, value in timer.measure(works, rounds, before=arrays.restore, flush=not arrays.flops).items():
        record["us"][name] = value["us"]
    return record


def ratio(record, name):
    return record["us"][name] / record["us"]["full"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--family", choices=FAMILIES, default="softmax")
    parser.add_argument("--grid", nargs="+", help="default: the family's first")
    parser.add_argument("--ops", nargs="+")
    parser.add_argument("--dtypes", nargs="+", choices=SIZES, type=side_by_side.dtype_name)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--tune-budget", type=float, default=10, help="seconds per problem and effort")
    parser.add_argument("--budget", type=float, default=540, help="seconds; no problem starts after it")
    parser.add_argument("--out", default=".")
    return parser.parse_args()


def main():
    args, started = arguments(), time.time()
    of = importlib.import_module(FAMILIES[args.family]).FAMILY
    cells = [cell for grid in args.grid or of.grids[:1] for cell in of.cells(grid, args.ops, args.dtypes)]
    records, timer = [], timing.Timer()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        found = benches(args, of, folder)
        version = found["full"].engine.version
        for index, cell in enumerate(cells):
            if time.time() - started > args.budget:
                side_by_side.say(f"stopped after {args.budget:.0f} s: {len(cells) - index} of {len(cells)} not measured")
                break
            try:
                record = measured(cell, of, found, timer, args.rounds)
            except Exception as error:
                side_by_side.say(f"{cell}: not measured: {family.one_line(error)}")
                continue
            records.append(record)
            side_by_side.say(f"{cell}".ljust(44) + ", ".join(
                f"{name} {record['us'][name]:.1f} us ({ratio(record, name):.3f}, {record['tune_s'][name]:.2f} s)"
                for name in KINDS))
    if not records:
        return 1
    means = {name: geomean([ratio(record, name) for record in records]) for name in KINDS}
    os.makedirs(args.out, exist_ok=True)
    results.write(os.path.join(args.out, "efforts.json"), {**machine.facts(version), "over_full": means, "cells": records})
    for name, mean in means.items():
        worst = max(records, key=lambda record: ratio(record, name))
        side_by_side.say(f"{name}: {mean:.3f} x full in the geometric mean of {len(records)}, at worst {ratio(worst, name):.3f} "
                         f"({worst['op']} {results.title(worst)}); "
                         f"tuning {max(r['tune_s'][name] for r in records):.2f} s at most")
    met = means["quick"] <= ALLOWED
    side_by_side.say(f"quick within {ALLOWED - 1:.0%} of full: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
