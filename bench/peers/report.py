"""Prints Markdown tables of the side-by-sides' JSON files and checks the targets.

    python3 bench/peers/report.py FILE.json...

If a problem occurs in several files, the last file counts. "best" is the best peer's time over Tunesmith's. Needs only
Python. pages.py writes the published pages.
"""
import argparse

import results
import tables
from samples import GRID
from targets import target_lines

TARGET_HEAD = ["| target | lowest | geometric mean | |", "|---|---|---|---|"]


def machine(run):
    """Returns one line: where and how a run was measured."""
    facts = [run["gpu"], f"driver {run.get('driver_version', '?')}", f"SM {run.get('clocks.sm', '?')}",
             f"memory {run.get('clocks.mem', '?')}", f"PyTorch {run['torch']}", f"Triton {run['triton']}", run["date"]]
    facts += [f"cuDNN {run['cudnn']}"] if run.get("cudnn") else []
    facts += [f"commit {run['commit']}"] if run.get("commit") else []
    return f"`{run['command']}`: " + ", ".join(facts) + (f" ({run['stopped']})" if run.get("stopped") else "")


def section(title, lines):
    return [title, "", *lines, ""] if lines else []


def report(paths):
    """Returns the lines of the whole report."""
    runs, cells = results.load(paths)
    lines = [line for run in runs for line in (machine(run), "")]
    lines += section("## Targets", TARGET_HEAD + target_lines(cells))
    lines += section("## Means and lowest cells", tables.averages(cells))
    lines += section("## Distribution over drawn shapes", tables.distribution([cell for cell in cells if cell["grid"] == GRID]))
    groups = {}
    for cell in cells:
        if cell["grid"] != "cliffs":
            groups.setdefault((cell["grid"], cell["op"]), []).append(cell)
    for (grid, op), group in groups.items():
        timed = [cell for cell in group if cell["us"]]
        checked = [cell for cell in group if not cell["us"]]
        if timed:
            unit = "TFLOP/s; in brackets over " + results.baseline_name(timed[0]) if timed[0].get("flops") else ""
            lines += section(f"### {grid}: {op}", ([unit, ""] if unit else []) + tables.speeds(timed))
        if checked:
            lines += section(f"### {grid}: {op}, error over what is allowed", tables.errors(checked))
    lines += section("## Slower than cuDNN", tables.slower_than(cells, "cudnn"))
    lines += section("## Modifications: time over the plain kernel's", tables.costs(cells))
    return lines + section("## Left out", tables.left_out(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    print("\n".join(report(parser.parse_args().files)))


if __name__ == "__main__":
    main()
