"""Puts the cells of a new run into a published file and keeps the cells that were not measured anew.

    python3 bench/peers/merge.py bench/plots/softmax.json NEW.json...

The head becomes the last new run's. A cell that is kept names the commit and the digest of the kernel it was measured
with, and so do cells of earlier new runs at another commit; the pages say which these are. `earlier` in the head keeps commit,
date, command and GPU of every run that still has cells. A cell that lost an implementation, because fewer peers were asked for, is
replaced only with --fewer-peers. A published file that is not there becomes the first new run. Needs only Python.
"""
import argparse
import os
import sys

import kernels
import results

HEAD = ("commit", "date", "command", "gpu")


def implementations(cell):
    """Returns what was measured of a cell, or only checked."""
    return set(cell["us"] or cell["error"])


def kept(run, cell):
    """Returns a cell that names the commit and the kernel it was measured with."""
    return dict(cell, commit=cell.get("commit", run["commit"]), kernel=kernels.of_cell(run, cell))


def merged(old, new, fewer_peers=False):
    """Returns the run `new` with the cells of `old` that it does not have, in the order of `old`; and what was not replaced."""
    fresh, cells, refused = {results.key(cell): cell for cell in new["cells"]}, [], []
    same = old["commit"] == new["commit"]  # two runs of one commit: one head for both
    if same:
        new = dict(new, command="; ".join(dict.fromkeys((old["command"], new["command"]))),
                   kernels={**old["kernels"], **new["kernels"]})
    for cell in old["cells"]:
        replacement = fresh.pop(results.key(cell), None)
        lost = implementations(cell) - implementations(replacement) if replacement else set()
        if lost and not fewer_peers:
            refused.append(f"{cell['op']} {results.title(cell)}: the new run lacks {', '.join(sorted(lost))}")
            replacement = None
        cells.append(replacement or (cell if same else kept(old, cell)))
    cells += fresh.values()
    commits = {cell.get("commit") for cell in cells}
    earlier = [run for run in (*old.get("earlier", ()), {name: old[name] for name in HEAD if name in old}) if run["commit"] in commits]
    return {**{name: value for name, value in new.items() if name != "cells"}, "earlier": earlier, "cells": cells}, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", metavar="PUBLISHED.json")
    parser.add_argument("new", nargs="+", metavar="NEW.json")
    parser.add_argument("--commit", help="of the new runs, if they were made outside of a checkout")
    parser.add_argument("--fewer-peers", action="store_true", help="replace cells whose peers were not all measured anew")
    args = parser.parse_args()
    run = results.read(args.published) if os.path.exists(args.published) else None
    before = len(run["cells"]) if run else 0
    for path in args.new:
        new = results.read(path)
        new["commit"] = new.get("commit") or args.commit
        if not new["commit"]:
            parser.error(f"{path} names no commit: give --commit")
        run, refused = merged(run, new, args.fewer_peers) if run else (new, [])
        for line in refused:
            print(f"kept: {line}")
    results.write(args.published, run)
    kept_cells = sum("commit" in cell for cell in run["cells"])
    print(f"{args.published}: {before} cells before, {len(run['cells'])} now, {kept_cells} of them of earlier commits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
