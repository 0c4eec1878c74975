"""Draws the side-by-sides' JSON as SVG: python3 bench/peers/plot.py FILE.json... FOLDER

Softmax: one picture per operation, bandwidth over columns, a panel per dtype, and cliffs.svg, Tunesmith's share of the copy at
every width. Cross-entropy: cross_entropy.svg, the share of the roof of every shape, a panel per operation and dtype. Attention:
attention.svg, TFLOP/s over positions, a panel per head_dim and mask; attention_mods.svg, speeds over that of flex_attention;
attention_decode.svg, shares of the read. Needs nothing but Python; colours are Okabe and Ito's, which colour-blind readers tell
apart, and dashes differ as well.
"""
import math
import os
import sys

import results
from pictures import INK, LEFT, PANEL, ROOF, Bars, Panel, frame

# colour of line and label, dashes, width
STYLES = {"tunesmith": ("#d55e00", "", 3.0), "triton": ("#0072b2", "", 1.6), "triton_whole": ("#0072b2", "", 1.6),
          "triton_loop": ("#0072b2", "5 3", 1.6), "compile": ("#007a5a", "", 1.6), "torch": ("#4d4d4d", "2 3", 1.6),
          "quack": ("#a0527f", "", 1.6), "liger": ("#a0527f", "5 3", 1.6), "cudnn": ("#007a5a", "", 1.6),
          "flash2": ("#0072b2", "5 3", 1.6)}
GRIDS = ("main", "long", "backward")
LOSSES = {"cross_entropy": "loss", "cross_entropy_fused": "loss and gradient in place", "cross_entropy_backward": "gradient"}
BARS = {"tunesmith": "#d55e00", "triton": "#0072b2", "compile": "#007a5a", "torch": "#8c8c8c", "quack": "#a0527f",
        "liger": "#e0a5c6", "flex": "#a0527f", "cudnn": "#007a5a", "cudnn_packed": "#8ccbb5", "flash2": "#0072b2"}


def by_dtype(cells):
    found = {}
    for cell in sorted(cells, key=lambda cell: cell["cols"]):
        found.setdefault(cell["dtype"], []).append(cell)
    return {dtype: found[dtype] for dtype in results.SHORT if dtype in found}


def source(run, flushed=True):
    text = [run["gpu"], f"PyTorch {run['torch']}", f"Triton {run['triton']}", run["date"][:10]]
    how = "L2 flushed before each launch" if flushed else "GPU preheated, L2 not flushed"
    return ", ".join(text) + f". Medians, {how}."


def speeds(panel, cells, across, labels=None):
    """A line per implementation, Tunesmith's last and with dots. `across`: the field that the axis shows; `labels`: instead of
    results.NAMES."""
    ends = []
    for name in ["copy", *(name for name in STYLES if name != results.OWN), results.OWN]:
        points = [(panel.x(cell[across]), panel.y(results.speed(cell, name))) for cell in cells if name in cell["us"]]
        if not points:
            continue
        colour, dashes, width = STYLES.get(name, (ROOF, "", 7.0))
        panel.picture.line(points, colour, width, dashes)
        if name == results.OWN:
            for x, y in points:
                panel.picture.dot(x, y, 2.6, colour)
        shade = "#777777" if name == "copy" else colour
        ends.append(((labels or results.NAMES)[name], *points[-1], shade, name == results.OWN))
    panel.labels(ends)


def bandwidth(op, cells, run, path):
    """A panel per dtype, a line per implementation, the copy as a broad grey line behind them."""
    groups = by_dtype(cells)
    picture = frame(len(groups))
    top = max(results.speed(cell, name) for cell in cells for name in cell["us"])
    high = 1000 * math.ceil(top / 1000 + 0.02)
    labels = dict(results.NAMES, copy="three-array kernel") if op.endswith("_backward") else None
    for index, (dtype, group) in enumerate(groups.items()):
        panel = Panel(picture, index, [cell["cols"] for cell in group], 0, high)
        panel.axes(f"{op}, {dtype}", range(0, high + 1, 1000), lambda tick: f"{tick}", True)
        speeds(panel, group, "cols", labels)
    picture.text(LEFT - 44, 22, f"{op}: GB/s read and written", size=15, bold=True)
    picture.text(LEFT - 44, picture.height - 8, source(run), "#777777", 10)
    picture.save(path, f"{op}: bandwidth over columns")


def cliffs(sweeps, run, path):
    """A panel per sweep: the share of the copy at every width, drops of more than 5% circled."""
    picture = frame(len(sweeps))
    shares = [results.share(cell) for sweep in sweeps.values() for cell in sweep]
    low, high = min(0.8, math.floor(min(shares) * 10) / 10), max(1.1, math.ceil(max(shares) * 10) / 10)
    for index, ((op, dtype), sweep) in enumerate(sweeps.items()):
        panel = Panel(picture, index, [cell["cols"] for cell in sweep], low, high)
        ticks = [step / 10 for step in range(round(low * 10), round(high * 10) + 1)]
        panel.axes(f"{op}, {dtype}", ticks, lambda tick: f"{tick:.1f}", True)
        picture.line([(panel.left, panel.y(1)), (panel.left + PANEL, panel.y(1))], ROOF, 5)
        colour, _, _ = STYLES[results.OWN]
        points = [(panel.x(cell["cols"]), panel.y(results.share(cell))) for cell in sweep]
        picture.line(points, colour, 1.4)
        drops = results.drops(sweep)
        for drop, _, after in drops:
            if drop > results.CLIFF:
                picture.dot(panel.x(after["cols"]), panel.y(results.share(after)), 5, INK, filled=False)
        largest = max((drop for drop, _, _ in drops), default=0)
        panel.labels([("copy", panel.left + PANEL, panel.y(1), "#777777", False), ("Tunesmith", *points[-1], colour, True)])
        picture.text(panel.left + PANEL, panel.top - 12, f"largest drop {100 * largest:.1f}%", size=11, anchor="end")
    picture.text(LEFT - 44, 22, "Share of the copy, every 64 columns, 64 MiB of traffic", size=15, bold=True)
    picture.text(LEFT - 44, picture.height - 8, source(run) + " Circles: more than 5% below the width before.", "#777777", 10)
    picture.save(path, "share of the copy over columns")


def shares(panels, run, path, title, most, flushed=True):
    """A panel per (title, cells, their labels): a group of bars per cell, of speeds over the roof's."""
    picture = frame(max(2, len(panels)))  # its head names every implementation
    cells = [cell for _, group, _ in panels for cell in group]
    high = min(most, max(1.2, math.ceil(5 * max(results.share(cell, name) for cell in cells
                                                for name in cell["us"] if name in BARS)) / 5))
    present = {name for cell in cells for name in cell["us"]}
    for index, (head, group, labels) in enumerate(panels):
        if not group:
            continue
        panel = Bars(picture, index, len(group), high)
        panel.axes(f"{head} (1: {results.roof_name(group[0])})")
        for number, (cell, label) in enumerate(zip(group, labels)):
            panel.group(number, label, [(colour, results.share(cell, name)) for name, colour in BARS.items()
                                        if name in cell["us"]])
    picture.text(LEFT - 44, 22, title, size=15, bold=True)
    x = LEFT + 240
    for name, colour in BARS.items():
        if name in present:
            picture.box(x, 13, x + 10, 23, colour)
            picture.text(x + 14, 22, results.NAMES[name], bold=name == results.OWN)
            x += 30 + 7 * len(results.NAMES[name])
    picture.text(LEFT - 44, picture.height - 4, source(run, flushed), "#777777", 10)
    picture.save(path, title)


def losses(cells, run, path):
    """Cross-entropy: a panel per operation and dtype."""
    panels = []
    for op, head in LOSSES.items():
        for dtype in ("float32", "bfloat16"):
            group = [cell for cell in cells if (cell["op"], cell["dtype"]) == (op, dtype)]
            labels = [[f"{cell['rows']}", f"x {cell['cols']}"] + ([cell["case"]] if cell["case"] else []) for cell in group]
            panels.append((f"{head}, {dtype}", group, labels))
    shares(panels, run, path, "Cross-entropy: share of the roof", 1.4)


def attention(cells, run, path):
    """TFLOP/s over positions: a panel per head_dim, without and with a causal mask."""
    kinds = sorted({(cell["dtype"], cell["head_dim"], cell["causal"] != "none") for cell in cells})
    picture = frame(len(kinds))
    high = 100 * math.ceil(max(results.speed(cell, name) for cell in cells for name in cell["us"]) / 100 + 0.02)
    for index, (dtype, head_dim, causal) in enumerate(kinds):
        group = sorted((cell for cell in cells if (cell["dtype"], cell["head_dim"], cell["causal"] != "none") ==
                        (dtype, head_dim, causal)), key=lambda cell: cell["seq_kv"])
        panel = Panel(picture, index, [cell["seq_kv"] for cell in group], 0, high, "positions")
        panel.axes(f"head_dim {head_dim}, {'causal' if causal else 'full'}, {dtype}", range(0, high + 1, 100),
                   lambda tick: f"{tick}", True)
        speeds(panel, group, "seq_kv")
    picture.text(LEFT - 44, 22, "Attention forward: TFLOP/s", size=15, bold=True)
    picture.text(LEFT - 44, picture.height - 8, source(run, flushed=False), "#777777", 10)
    picture.save(path, "attention forward: TFLOP/s over positions")


def attention_mods(cells, run, path):
    """Speeds over that of flex_attention, a panel per head_dim."""
    panels = []
    for head_dim in sorted({cell["head_dim"] for cell in cells}):
        group = [cell for cell in cells if cell["head_dim"] == head_dim]
        panels.append((f"head_dim {head_dim}", group,
                       [(cell["case"] or ("full" if cell["causal"] == "none" else "causal")).split() for cell in group]))
    shares(panels, run, path, "Modified scores and masks", 4.0, flushed=False)


def attention_decode(cells, run, path):
    """Shares of the read."""
    labels = [[f"{cell['batch']}x{cell['heads']}", f"/{cell['kv_heads']}", f"x {cell['seq_kv']}"] for cell in cells]
    shares([("keys and values, GB/s", cells, labels)], run, path, "Decoding: share of the read", 1.4)


def draw(paths, folder):
    """Every picture there are cells for. Returns the files."""
    runs, cells = results.load(paths)
    os.makedirs(folder, exist_ok=True)
    drawn = []
    for op in ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward"):
        chosen = [cell for cell in cells if cell["op"] == op and cell["grid"] in GRIDS and cell["us"]]
        if len({cell["cols"] for cell in chosen}) > 1:
            drawn.append(os.path.join(folder, op + ".svg"))
            bandwidth(op, chosen, runs[chosen[-1]["run"]], drawn[-1])
    chosen = [cell for cell in cells if cell["op"] in LOSSES and cell["grid"] != "quick" and results.share(cell)]
    if chosen:
        drawn.append(os.path.join(folder, "cross_entropy.svg"))
        losses(chosen, runs[chosen[-1]["run"]], drawn[-1])
    for grid, name, picture in (("forward", "attention", attention), ("mods", "attention_mods", attention_mods),
                                ("decode", "attention_decode", attention_decode)):
        chosen = [cell for cell in cells if (cell["grid"], cell["op"]) == (grid, "attention") and results.share(cell)]
        if chosen:
            drawn.append(os.path.join(folder, name + ".svg"))
            picture(chosen, runs[chosen[-1]["run"]], drawn[-1])
    sweeps = {name: sweep for name, sweep in results.sweeps(cells).items() if len(sweep) > 1}
    if sweeps:
        drawn.append(os.path.join(folder, "cliffs.svg"))
        cliffs(sweeps, runs[next(iter(sweeps.values()))[0]["run"]], drawn[-1])
    return drawn


def main():
    if len(sys.argv) < 3 or not all(path.endswith(".json") for path in sys.argv[1:-1]):
        sys.exit("usage: plot.py FILE.json... FOLDER")
    print("\n".join(draw(sys.argv[1:-1], sys.argv[-1])))


if __name__ == "__main__":
    main()
