"""Compares the last linear layer and its cross-entropy with its three matrix products and with another version of Tunesmith,
on a GPU that is busy all the time (steady_state.py).

    python3 bench/peers/linear_steady_state.py --library build/release/api/libtunesmith.so [--other OLD/libtunesmith.so]
        [--cells 8192x4096x128256 ...] [--seconds 10] [--out FOLDER]

loss = mean cross-entropy of hidden @ weight^T in bf16; results are loss, dhidden and dweight. The products are PyTorch's, on
the exact gradient of the logits, because their time depends on the data. Needs torch and triton.
"""
import argparse
import os
import time

import torch

import linear_cross_entropy as linear
import machine
import results
import side_by_side
import steady_state
import tunesmith

CELLS = ("8192x4096x128256", "4096x4096x128256", "1024x4096x128256", "8192x2048x151936", "16384x5120x131072")


def measured(cell, engines, seconds):
    """Returns the record of a cell."""
    begin = time.perf_counter()
    tokens, hidden, vocab = map(int, cell.split("x"))
    inputs = linear.Inputs(tokens, hidden, vocab, "bfloat16")
    reference = linear.Reference(inputs)
    torch.cuda.empty_cache()
    works = {"products": linear.products(inputs, reference.dlogits)["products"]}
    record = {"tokens": tokens, "hidden": hidden, "vocab": vocab, "dtype": "bfloat16", "errors": {}, "facts": {}}
    for name, engine in engines.items():
        for way, fields in {name: {}, f"{name}, fused": {"fused": 1}}.items():
            try:
                works[way], record["facts"][way] = linear.own(engine, inputs, 0, **fields)
            except RuntimeError as error:  # another version may not have it
                side_by_side.say(f"{cell}, {way}: {error}")
                continue
            record["errors"][way] = reference.errors(works[way]())
    record["prepare_s"] = time.perf_counter() - begin
    record["measured"] = steady_state.measure(works, seconds)
    return record


def lines(record):
    """Returns a table row for each work."""
    products = record["measured"]["products"]["us"]
    flops = 6 * record["tokens"] * record["hidden"] * record["vocab"]
    for name, found in record["measured"].items():
        worst = max(record["errors"].get(name, {"": 0}).values())
        yield (f"| {record['tokens']}x{record['hidden']}x{record['vocab']} | {name} | {found['us'] / 1000:.3f} | "
               f"{found['us'] / products:.4f} | {flops / found['us'] * 1e-6:.0f} | {found['spread']:.4f} | "
               f"{found.get('sm_mhz', '-')} | {found.get('watts', '-')} | {worst:.1e} | "
               f"{record['facts'].get(name, {}).get('chunk_tokens', '-')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--other", help="libtunesmith.so of another version")
    parser.add_argument("--cells", nargs="*", default=CELLS, help="tokens x hidden x vocabulary")
    parser.add_argument("--seconds", type=float, default=10, help="of each work")
    parser.add_argument("--tune-budget", type=float, default=2, help="seconds per kernel or product")
    parser.add_argument("--out", default=".")
    args = parser.parse_args()
    options = {"effort": "quick", "mode": "tune", "cache_file": "", "system_caches": "", "tune_budget_s": args.tune_budget}
    engines = {results.OWN: tunesmith.Engine(args.library, **options)}
    if args.other:
        engines["other version"] = tunesmith.Engine(args.other, **options)
    run = {**machine.facts(engines[results.OWN].version), "seconds": args.seconds, "cells": []}
    side_by_side.say("| problem | work | ms | over products | TFLOP/s | spread | SM MHz | W | error | chunk |\n" + "|---" * 10 + "|")
    with torch.no_grad():
        for cell in args.cells:
            run["cells"].append(measured(cell, engines, args.seconds))
            side_by_side.say("\n".join(lines(run["cells"][-1])))
            torch.cuda.empty_cache()
    os.makedirs(args.out, exist_ok=True)
    results.write(os.path.join(args.out, "linear_steady_state.json"), run)


if __name__ == "__main__":
    main()
