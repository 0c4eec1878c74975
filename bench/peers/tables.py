"""Markdown tables of recorded figures. Needs only Python."""
import math

import results
from results import OWN, PLAIN, SHORT, best_peer, over, over_best, share
from targets import geomean

LINEAR_NAMES = dict(results.NAMES, cce="cut cross-entropy", cce_exact="cut cross-entropy, exact", logits="hidden @ weight^T",
                    dhidden="dlogits @ weight", dweight="dlogits^T @ hidden", products="the three matrix products")
WIDTHS = (1024, 16384, 131072)  # columns up to which the lines of a distribution go
PRODUCTS = ("logits", "dhidden", "dweight", "products")
# Inputs whose target is nearly certain: its logit exceeds the logarithm of the sum of the other exponentials by this much.
SURE = {"sure_10": "target ahead by 10", "sure_15": "target ahead by 15", "sure_20.7": "target ahead by 20.7"}


def markdown(heads, rows):
    """Returns the lines of a table."""
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def names_of(cells):
    present = {name for cell in cells for name in cell["us"] or cell["error"]}
    return [name for name in results.NAMES if name in present]


def title(cell):
    """Returns a cell's title, with the commit if it is not the run's."""
    return results.title(cell) + (f" [{cell['commit']}]" if "commit" in cell else "")


def speeds(cells):
    """Speeds in the order of measurement; in brackets the share of the baseline. Last the best peer's time over
    Tunesmith's."""
    names = names_of(cells)
    heads = dict(results.NAMES, copy=results.baseline_name(cells[0]))
    configured = any(cell.get("config") for cell in cells)

    def value(cell, name):
        speed, ratio = results.speed(cell, name), share(cell, name)
        if speed is None:
            return "-"
        text = f"{speed:.0f}" + (f" ({ratio:.3f})" if ratio and name != results.baseline(cell) else "")
        return f"**{text}**" if name == OWN else text

    rows = []
    for cell in cells:
        best = over_best(cell)
        rows.append([title(cell), *(value(cell, name) for name in names), f"{best:.2f}" if best else "-"] +
                    ([f"`{cell['config']}`" if cell.get("config") else "-"] if configured else []))
    return markdown(["", *(heads[name] for name in names), "best"] + (["configuration"] if configured else []), rows)


def distribution(cells):
    """The distribution of the share of the baseline over shapes that a seed drew: a line per operation, dtype and range of
    columns."""
    groups = {}
    for cell in cells:
        if cell["us"] and share(cell):
            narrow = next((most for most in WIDTHS if cell["cols"] <= most), None)
            groups.setdefault((cell["op"], SHORT[cell["dtype"]], narrow), []).append(cell)
    rows = []
    for (op, dtype, most), found in sorted(groups.items(), key=lambda item: (*item[0][:2], item[0][2] or math.inf)):
        shares = sorted(map(share, found))
        best = [over_best(cell) for cell in found if over_best(cell)]
        lowest = min(found, key=share)
        rows.append([f"{op} {dtype}", f"up to {most}" if most else f"above {WIDTHS[-1]}", str(len(found)),
                     f"{geomean(shares):.3f}", f"{shares[len(shares) // 2]:.3f}", f"{shares[len(shares) // 10]:.3f}",
                     f"{shares[0]:.3f} ({lowest['rows']}x{lowest['cols']})", f"{min(best):.2f}" if best else "-"])
    return rows and markdown(["", "columns", "shapes", "mean", "median", "lowest tenth", "lowest", "least over best peer"], rows)


def errors(cells):
    """Errors of cells that are not timed, as shares of the error that is allowed."""
    names = names_of(cells)
    rows = [[title(cell), *(f"{cell['error'][name]:.2f}" if name in cell["error"] else "-" for name in names),
             f"`{cell.get('config', '-')}`"] for cell in cells]
    return markdown(["", *(results.NAMES[name] for name in names), "configuration"], rows)


def slower_than(cells, name):
    """Cells in which a peer is faster, the worst first."""
    found = sorted((over(cell, name), str(results.key(cell))) for cell in cells if over(cell, name))
    return [f"- {ratio:.3f}: {title}" for ratio, title in found if ratio < 1]


def costs(cells):
    """Time of each modification over the time of the plain kernel of the same shape."""
    return [f"- {1 / over(cell, PLAIN):.3f}: {results.key(cell)}" for cell in cells if over(cell, PLAIN)]


def averages(cells):
    """Number of cells, geometric means and worst cells per grid, operation and dtype."""
    groups = {}
    for cell in cells:
        if share(cell):
            groups.setdefault((cell["grid"], cell["op"], cell["dtype"]), []).append(cell)
    rows = []
    for (grid, op, dtype), group in groups.items():
        worst = min(group, key=share)
        peers = [cell for cell in group if over_best(cell)]
        best = ["-", "-"]
        if peers:
            closest = min(peers, key=over_best)
            where = f"{results.title(closest)}, {results.NAMES[best_peer(closest)]}"
            best = [f"{geomean([over_best(cell) for cell in peers]):.3f}", f"{over_best(closest):.3f} ({where})"]
        rows.append([grid, op, SHORT[dtype], str(len(group)), f"{geomean([share(cell) for cell in group]):.3f}",
                     f"{share(worst):.3f} ({results.title(worst)})", *best])
    return markdown(["grid", "operation", "dtype", "cells", "share of the baseline, mean", "lowest", "over the best peer, mean",
                     "lowest"], rows)


def left_out(cells):
    """What was not measured: each reason once, with the number of cells."""
    reasons = {}
    for cell in cells:
        where = f"{cell['op']} {results.title(cell)}"
        for name, reason in cell.get("left_out", {}).items():
            reasons.setdefault((name, reason), []).append(where)
        if cell.get("copy_config") and "copy_tune_s" not in cell:
            reasons.setdefault(("copy", cell["copy_config"]), []).append(where)
    return [f"- {results.NAMES.get(name, name)}, {len(where)} cells ({where[0]}{', ...' if len(where) > 1 else ''}): {reason}"
            for (name, reason), where in reasons.items()]


def row_accuracy(cells):
    """Largest (mean) error in units of the last place, the largest over all shapes."""
    names = [name for name in results.NAMES if any(name in cell["ulp"] for cell in cells)]
    kinds = list(dict.fromkeys(cell["inputs"] for cell in cells))

    def value(op, dtype, kind, name):
        found = [cell["ulp"][name] for cell in cells
                 if (cell["op"], cell["dtype"], cell["inputs"]) == (op, dtype, kind) and name in cell["ulp"]]
        if not found:
            return "-"
        largest = max(found)
        return f"{largest[0]:.3g}" + (f" ({largest[1]:.2f})" if len(largest) > 1 else "")

    rows = [[f"{op} {SHORT[dtype]}", *(value(op, dtype, kind, name) for kind in kinds for name in names)]
            for op, dtype in dict.fromkeys((cell["op"], cell["dtype"]) for cell in cells)]
    return markdown(["", *(f"{results.NAMES[name]}, {kind}" for kind in kinds for name in names)], rows)


def loss_accuracy(cells):
    """Largest relative errors of the loss / of p - 1 over all shapes."""
    names = [name for name in results.NAMES if any(name in cell["relative"] for cell in cells)]
    rows = []
    for dtype, kind in dict.fromkeys((cell["dtype"], cell["inputs"]) for cell in cells):
        row = [f"{SHORT[dtype]}, {SURE.get(kind, kind)}"]
        for name in names:
            found = [cell["relative"][name] for cell in cells
                     if (cell["dtype"], cell["inputs"]) == (dtype, kind) and name in cell["relative"]]
            row.append(" / ".join(f"{max(values):.1e}" for values in zip(*found)) if found else "-")
        rows.append(row)
    return markdown(["relative error of the loss / of p - 1", *(results.NAMES[name] for name in names)], rows)


def linear(record):
    """Time, memory and error of linear + cross-entropy. The last column is the error of the worst result."""
    rows = []
    for name in dict.fromkeys((*PRODUCTS, OWN, *LINEAR_NAMES)):
        if name not in record["us"]:
            continue
        us = record["us"][name]
        memory = f"{record['extra_bytes'][name] / (1 << 20):.0f}" if name in record["extra_bytes"] else "-"
        error = f"{max(record['errors'][name].values()):.1e}" if name in record["errors"] else "-"
        ratio = "-" if name in PRODUCTS[:3] else f"{us / record['us']['products']:.3f}"
        row = [LINEAR_NAMES[name], f"{us / 1e3:.2f}", ratio, memory, error]
        rows.append([f"**{value}**" for value in row] if name == OWN else row)
    return markdown(["", "ms", "over the three products", "scratch memory, MiB", "relative error"], rows)
