"""Markdown tables of the side-by-sides' JSON files, and whether the targets are met: python3 bench/peers/report.py FILE.json...

A problem that is in several files counts once, the last file's. "best" is the best peer's time over Tunesmith's. Needs nothing
but Python.
"""
import argparse

import results
from results import OWN, PLAIN, SHORT, best_peer, over, over_best, share
from targets import geomean, target_lines


def names_of(cells):
    present = {name for cell in cells for name in cell["us"] or cell["error"]}
    return [name for name in results.NAMES if name in present]


def table(cells):
    """Rows in the order in which they were measured."""
    names = names_of(cells)
    heads = dict(results.NAMES, copy=results.roof_name(cells[0]))
    lines = ["| | " + " | ".join(heads[name] for name in names) + " | best | configuration |",
             "|---" * (len(names) + 3) + "|"]
    for cell in cells:
        def value(name):
            speed, ratio = results.speed(cell, name), share(cell, name)
            if speed is None:
                return "-"
            text = f"{speed:.0f}" + (f" ({ratio:.3f})" if ratio and name != results.roof(cell) else "")
            return f"**{text}**" if name == OWN else text

        best = over_best(cell)
        config = f"`{cell['config']}`" if cell.get("config") else "-"
        lines.append(f"| {results.title(cell)} | " + " | ".join(map(value, names)) +
                     f" | {f'{best:.2f}' if best else '-'} | {config} |")
    return lines


def judged(cells):
    """Of cells that are only checked: the errors, as shares of what is allowed."""
    names = names_of(cells)
    lines = ["| | " + " | ".join(results.NAMES[name] for name in names) + " | configuration |", "|---" * (len(names) + 2) + "|"]
    for cell in cells:
        errors = [f"{cell['error'][name]:.2f}" if name in cell["error"] else "-" for name in names]
        lines.append(f"| {results.title(cell)} | " + " | ".join(errors) + f" | `{cell.get('config', '-')}` |")
    return lines


def behind(cells, name):
    """Cells in which a peer is faster, the worst first."""
    found = sorted((over(cell, name), str(results.key(cell))) for cell in cells if over(cell, name))
    return [f"- {ratio:.3f}: {title}" for ratio, title in found if ratio < 1]


def costs(cells):
    """What modifications cost, over the plain kernel of the same shape."""
    return [f"- {1 / over(cell, PLAIN):.3f}: {results.key(cell)}" for cell in cells if over(cell, PLAIN)]


def averages(cells):
    """Per grid, op and dtype: how many, geometric means, the worst cell."""
    groups = {}
    for cell in cells:
        if share(cell):
            groups.setdefault((cell["grid"], cell["op"], cell["dtype"]), []).append(cell)
    lines = ["| grid | op | | cells | share of the roof, mean | worst | over best peer, mean | worst |",
             "|---|---|---|---|---|---|---|---|"]
    for (grid, op, dtype), group in groups.items():
        worst = min(group, key=share)
        peers = [cell for cell in group if over_best(cell)]
        best = "- | -"
        if peers:
            closest = min(peers, key=over_best)
            where = f"{results.title(closest)}, {results.NAMES[best_peer(closest)]}"
            best = f"{geomean([over_best(cell) for cell in peers]):.3f} | {over_best(closest):.3f} ({where})"
        lines.append(f"| {grid} | {op} | {SHORT[dtype]} | {len(group)} | {geomean([share(cell) for cell in group]):.3f} | "
                     f"{share(worst):.3f} ({results.title(worst)}) | {best} |")
    return lines


def left_out(cells):
    """Each reason once, with how many cells it concerns."""
    reasons = {}
    for cell in cells:
        for name, reason in cell.get("left_out", {}).items():
            reasons.setdefault((name, reason), []).append(f"{cell['op']} {results.title(cell)}")
        if cell.get("copy_config") and "copy_tune_s" not in cell:
            reasons.setdefault(("copy", cell["copy_config"]), []).append(f"{cell['op']} {results.title(cell)}")
    return [f"- {results.NAMES.get(name, name)}, {len(where)} cells ({where[0]}{', ...' if len(where) > 1 else ''}): {reason}"
            for (name, reason), where in reasons.items()]


def report(paths):
    """The lines of the whole report."""
    runs, cells = results.load(paths)
    lines = []
    for run in runs:
        facts = [f"{run['gpu']}", f"driver {run.get('driver_version', '?')}", f"SM {run.get('clocks.sm', '?')}",
                 f"memory {run.get('clocks.mem', '?')}", f"PyTorch {run['torch']}", f"Triton {run['triton']}", run["date"]]
        facts += [f"cuDNN {run['cudnn']}"] if run.get("cudnn") else []
        facts += [f"commit {run['commit']}"] if run.get("commit") else []
        lines += [f"`{run['command']}`: " + ", ".join(facts) + (f" ({run['stopped']})" if run.get("stopped") else ""), ""]
    lines += ["## Targets", "", "| | worst | geometric mean | |", "|---|---|---|---|"]
    lines += target_lines(cells) + [""]
    lines += ["## Means and worst cells", "", *averages(cells), ""]
    groups = {}
    for cell in cells:
        if cell["grid"] != "cliffs":
            groups.setdefault((cell["grid"], cell["op"]), []).append(cell)
    for (grid, op), group in groups.items():
        timed = [cell for cell in group if cell["us"]]
        checked = [cell for cell in group if not cell["us"]]
        if timed:
            unit = "TFLOP/s, in brackets over " + results.roof_name(timed[0]) if timed[0].get("flops") else ""
            lines += [f"### {grid}: {op}", "", *([unit, ""] if unit else []), *table(timed), ""]
        if checked:
            lines += [f"### {grid}: {op}, error over what is allowed", "", *judged(checked), ""]
    for title, found in (("Slower than cuDNN", behind(cells, "cudnn")),
                         ("Modifications: time over the plain kernel's", costs(cells))):
        if found:
            lines += [f"## {title}", "", *found, ""]
    excluded = left_out(cells)
    if excluded:
        lines += ["## Left out", "", *excluded, ""]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    print("\n".join(report(parser.parse_args().files)))


if __name__ == "__main__":
    main()
