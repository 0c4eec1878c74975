"""Draws the side-by-sides' JSON as SVG.

    python3 bench/peers/plot.py FILE.json... FOLDER

softmax.svg and the like     GB/s over columns, a panel per dtype
row_programs.svg             share of the copy over columns, a panel per norm
cross_entropy.svg            share of the baseline of every shape, a panel per operation and dtype
attention.svg                TFLOP/s over positions, a panel per head_dim and mask
summary.svg                  every cell's speed over the alternative's, by kind of problem (by pages.py)

The same JSON gives the same bytes. Needs only Python.
"""
import math
import os
import sys

import results
import samples
from pictures import LEFT, PANEL, Bars, Panel, Picture, frame
from targets import geomean

# colour of line and label, dashes, width
STYLES = {"tunesmith": ("orange", "", 3.0), "triton": ("blue", "", 1.6), "triton_whole": ("blue", "", 1.6),
          "triton_loop": ("blue", "5 3", 1.6), "compile": ("green", "", 1.6), "torch": ("grey", "2 3", 1.6),
          "quack": ("purple", "", 1.6), "liger": ("purple", "5 3", 1.6), "cudnn": ("green", "", 1.6),
          "flash2": ("blue", "5 3", 1.6), "flashinfer": ("blue", "", 1.6), "transformer_engine": ("green", "5 3", 1.6),
          "hand_written": ("orange", "2 3", 1.6)}
COPY = ("baseline", "", 7.0)
GRIDS = ("main", "long", "backward")
NORMS = ("rms_norm", "layer_norm")
LOSSES = {"cross_entropy": "loss", "cross_entropy_fused": "loss and gradient in place", "cross_entropy_backward": "gradient"}
BARS = {"tunesmith": "orange", "triton": "blue", "compile": "green", "torch": "pale-grey", "quack": "purple",
        "liger": "pale-purple"}


def summary(rows, path):
    """Draws a line of dots per (problem, alternative, speeds over the alternative's): a dot per cell, a bar at their mean."""
    left, right, top, step = 330, 880, 72, 34
    low, high = math.log2(0.85), math.log2(max(max(values) for _, _, values in rows) * 1.05)
    picture = Picture(right + 20, top + step * len(rows) + 30)
    picture.head("Speed over the alternative's")
    bottom = top + step * len(rows) - 10

    def x(value):
        return left + (right - left) * (math.log2(value) - low) / (high - low)

    for tick in (1, 1.5, 2, 3, 4, 6, 8, 12, 16):
        if math.log2(tick) <= high:
            picture.line([(x(tick), top - 18), (x(tick), bottom)], *(("baseline", 3.0) if tick == 1 else ("faint", 1.0)))
            picture.text(x(tick), bottom + 18, f"{tick:g}", anchor="middle")
    for number, (problem, alternative, values) in enumerate(rows):
        y = top + step * number
        picture.text(left - 16, y, problem, anchor="end", size=12, bold=True)
        picture.text(left - 16, y + 13, f"over {alternative}", "note", 10, anchor="end")
        for value in sorted(values):
            picture.dot(x(max(value, 2**low)), y, 3.0, "pale-purple")
        mean = x(geomean(values))
        picture.line([(mean, y - 10), (mean, y + 10)], "orange", 4.0)
        picture.text(mean + 6, y - 5, f"{geomean(values):.2f}", "orange", 11, bold=True)
    picture.notes("One dot per measured problem; the bar is their geometric mean; right of 1, Tunesmith is faster. GPUs and "
                  "commits: the README's table.")
    picture.save(path, "Speed over the alternative's, by kind of problem")


def by_dtype(cells):
    found = {}
    for cell in sorted(cells, key=lambda cell: cell["cols"]):
        found.setdefault(cell["dtype"], []).append(cell)
    return {dtype: found[dtype] for dtype in results.SHORT if dtype in found}


def finish(picture, path, title, run, flushed=True):
    """Adds where and how the figures were measured and saves the picture."""
    facts = [run["gpu"], f"PyTorch {run['torch']}", f"Triton {run['triton']}", run["date"][:10]]
    facts += [f"commit {run['commit']}"] if run.get("commit") else []
    how = "L2 flushed before each launch" if flushed else "GPU preheated, L2 not flushed"
    picture.notes(f"{', '.join(facts)}. Medians, {how}.")
    picture.save(path, title)


def speeds(panel, cells, across, labels=None, value=results.speed):
    """Draws a line per implementation, Tunesmith's last and with dots.

    `across`: the field on the axis; `labels`: instead of results.NAMES; `value`: (cell, name) -> what is drawn."""
    ends = []
    for name in ["copy", *(name for name in STYLES if name != results.OWN), results.OWN]:
        points = [(panel.x(cell[across]), panel.y(value(cell, name))) for cell in cells if name in cell["us"]]
        if not points:
            continue
        colour, dashes, width = STYLES.get(name, COPY)
        panel.picture.line(points, colour, width, dashes)
        if name == results.OWN:
            for x, y in points:
                panel.picture.dot(x, y, 2.6, colour)
        ends.append(((labels or results.NAMES)[name], *points[-1], "note" if name == "copy" else colour, name == results.OWN))
    panel.labels(ends)


def top(cells, step):
    """Returns the multiple of `step` at which an axis of speeds ends."""
    return step * math.ceil(max(results.speed(cell, name) for cell in cells for name in cell["us"]) / step + 0.02)


def bandwidth(op, cells, run, path):
    """Draws a panel per dtype with a line per implementation, the copy as a broad grey line."""
    groups = by_dtype(cells)
    picture, high = frame(len(groups)), top(cells, 1000)
    labels = dict(results.NAMES, copy="y = a + b") if op.endswith("_backward") else None
    picture.head(f"{op}: GB/s read and written")
    for index, (dtype, group) in enumerate(groups.items()):
        panel = Panel(picture, index, [cell["cols"] for cell in group], 0, high)
        panel.axes(f"{op}, {dtype}", range(0, high + 1, 1000))
        speeds(panel, group, "cols", labels)
    finish(picture, path, f"{op}: bandwidth over columns", run)


def norms(cells, run, path):
    """Draws a panel per norm: the share of the copy over columns, a line per implementation."""
    groups = {name: sorted((cell for cell in cells if cell["case"] == name), key=lambda cell: cell["cols"]) for name in NORMS}
    groups = {name: group for name, group in groups.items() if len(group) > 1}
    highest = max(results.share(cell, name) for group in groups.values() for cell in group for name in cell["us"])
    picture, high = frame(len(groups)), math.ceil(5 * highest + 0.1) / 5
    picture.head("Norms: share of the copy")
    for index, (name, group) in enumerate(groups.items()):
        panel = Panel(picture, index, [cell["cols"] for cell in group], 0, high)
        panel.axes(f"{name}, {group[0]['dtype']}", [step / 5 for step in range(round(high * 5) + 1)], 1)
        speeds(panel, group, "cols", value=results.share)
    finish(picture, path, "norms: share of the copy over columns", run)


def shares(panels, run, path, title, most):
    """Draws a panel per (title, cells, labels of the cells): a group of bars per cell, speeds over the baseline's."""
    picture = frame(max(2, len(panels)))  # the legend needs the width of two panels
    cells = [cell for _, group, _ in panels for cell in group]
    highest = max(results.share(cell, name) for cell in cells for name in cell["us"] if name in BARS)
    high = min(most, max(1.2, math.ceil(5 * highest) / 5 if highest <= 2 else math.ceil(2 * highest + 0.2) / 2))
    picture.head(title)
    for index, (head, group, labels) in enumerate(panels):
        if not group:
            continue
        panel = Bars(picture, index, len(group), high)
        panel.axes(f"{head} (1: {results.baseline_name(group[0])})")
        for number, (cell, label) in enumerate(zip(group, labels)):
            panel.group(number, label, [(colour, results.share(cell, name)) for name, colour in BARS.items()
                                        if name in cell["us"]])
    x = LEFT + 240
    for name, colour in BARS.items():
        if any(name in cell["us"] for cell in cells):
            picture.box(x, 13, x + 10, 23, colour)
            picture.text(x + 14, 22, results.NAMES[name], bold=name == results.OWN)
            x += 30 + 7 * len(results.NAMES[name])
    finish(picture, path, title, run)


def losses(cells, run, path):
    """Draws cross-entropy: a panel per operation and dtype."""
    panels = []
    for op, head in LOSSES.items():
        for dtype in ("float32", "bfloat16"):
            group = [cell for cell in cells if (cell["op"], cell["dtype"]) == (op, dtype)]
            labels = [[f"{cell['rows']}", f"x {cell['cols']}"] + ([cell["case"]] if cell["case"] else []) for cell in group]
            panels.append((f"{head}, {dtype}", group, labels))
    shares(panels, run, path, "Cross-entropy: share of the baseline", 1.4)


def attention(cells, run, path):
    """Draws TFLOP/s over positions: a panel per head_dim and mask."""
    groups = {}
    for cell in sorted(cells, key=lambda cell: cell["seq_kv"]):
        groups.setdefault((cell["dtype"], cell["head_dim"], cell["causal"] != "none"), []).append(cell)
    picture, high = frame(len(groups)), top(cells, 100)
    picture.head("Attention forward: TFLOP/s")
    for index, ((dtype, head_dim, causal), group) in enumerate(sorted(groups.items(), key=lambda entry: entry[0])):
        panel = Panel(picture, index, [cell["seq_kv"] for cell in group], 0, high, "positions")
        panel.axes(f"head_dim {head_dim}, {'causal' if causal else 'full'}, {dtype}", range(0, high + 1, 100))
        speeds(panel, group, "seq_kv")
    finish(picture, path, "attention forward: TFLOP/s over positions", run, flushed=False)


def draw(paths, folder):
    """Draws every picture that there are cells for. Returns the files."""
    runs, cells = results.load(paths)
    os.makedirs(folder, exist_ok=True)
    drawn = []

    def path_for(name):
        drawn.append(os.path.join(folder, name + ".svg"))
        return drawn[-1]

    def run_of(cell):
        return runs[cell["run"]]

    for op in ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward"):
        chosen = [cell for cell in cells if cell["op"] == op and cell["grid"] in GRIDS and cell["us"]]
        if len({cell["cols"] for cell in chosen}) > 1:
            bandwidth(op, chosen, run_of(chosen[-1]), path_for(op))
    chosen = [cell for cell in cells
              if cell["op"] in LOSSES and cell["grid"] not in ("quick", "issue", *samples.BYTES) and results.share(cell)]
    if chosen:
        losses(chosen, run_of(chosen[-1]), path_for("cross_entropy"))
    chosen = [cell for cell in cells if (cell["grid"], cell["op"]) == ("forward", "attention") and results.share(cell)]
    if chosen:
        attention(chosen, run_of(chosen[-1]), path_for("attention"))
    chosen = [cell for cell in cells if (cell["grid"], cell["op"]) == ("norms", "row_program") and cell["case"] in NORMS
              and results.share(cell)]
    if any(len({cell["cols"] for cell in chosen if cell["case"] == name}) > 1 for name in NORMS):
        norms(chosen, run_of(chosen[-1]), path_for("row_programs"))
    return drawn


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        sys.exit(print(__doc__))
    if len(sys.argv) < 3 or not all(path.endswith(".json") for path in sys.argv[1:-1]):
        sys.exit("usage: plot.py FILE.json... FOLDER")
    print("\n".join(draw(sys.argv[1:-1], sys.argv[-1])))


if __name__ == "__main__":
    main()
