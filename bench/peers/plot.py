"""Draws the side-by-sides' JSON as SVG: python3 bench/peers/plot.py FILE.json... FOLDER

Softmax: one picture per operation, bandwidth over columns, a panel per dtype, and cliffs.svg, Tunesmith's share of the copy at
every width. Cross-entropy: cross_entropy.svg, the share of the roof of every shape, a panel per operation and dtype. Needs
nothing but Python; colours are Okabe and Ito's, which colour-blind readers tell apart, and dashes differ as well.
"""
import html
import math
import os
import sys

import results

# colour of line and label, dashes, width
STYLES = {"tunesmith": ("#d55e00", "", 3.0), "triton": ("#0072b2", "", 1.6), "triton_whole": ("#0072b2", "", 1.6), "triton_loop": ("#0072b2", "5 3", 1.6),
          "compile": ("#007a5a", "", 1.6), "torch": ("#4d4d4d", "2 3", 1.6),
          "quack": ("#a0527f", "", 1.6), "liger": ("#a0527f", "5 3", 1.6)}
GRIDS = ("main", "long", "backward")
LOSSES = {"cross_entropy": "loss", "cross_entropy_fused": "loss and gradient in place", "cross_entropy_backward": "gradient"}
BARS = {"tunesmith": "#d55e00", "triton": "#0072b2", "compile": "#007a5a", "torch": "#8c8c8c", "quack": "#a0527f",
        "liger": "#e0a5c6"}
PANEL, HEIGHT, LEFT, TOP, BOTTOM, LABELS, GAP = 330, 240, 52, 68, 68, 122, 44
INK, FAINT, ROOF = "#333333", "#e6e6e6", "#b9b9b9"


class Picture:
    """SVG text, element by element; coordinates in pixels."""

    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def line(self, points, colour, width=1.0, dashes="", opacity=1.0):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = (f' stroke-dasharray="{dashes}"' if dashes else "") + (f' opacity="{opacity}"' if opacity != 1 else "")
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
                          f'stroke-linejoin="round" stroke-linecap="round"{extra}/>')

    def dot(self, x, y, radius, colour, filled=True):
        paint = f'fill="{colour}"' if filled else f'fill="none" stroke="{colour}" stroke-width="1.5"'
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {paint}/>')

    def box(self, left, top, right, bottom, colour):
        self.parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{max(bottom - top, 0):.1f}" '
                          f'fill="{colour}"/>')

    def text(self, x, y, text, colour=INK, size=11, anchor="start", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"{weight}>'
                          f'{html.escape(text)}</text>')

    def save(self, path, title):
        head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="Helvetica, Arial, sans-serif" role="img">',
                f"<title>{html.escape(title)}</title>", f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>']
        with open(path, "w") as file:
            file.write("\n".join(head + self.parts + ["</svg>"]) + "\n")


class Panel:
    """Axes at the index-th place of a picture, two a row: log2 columns across, `low` to `high` upwards."""

    def __init__(self, picture, index, cols, low, high):
        self.picture, self.left = picture, LEFT + index % 2 * (PANEL + LABELS + GAP)
        self.top = TOP + index // 2 * (HEIGHT + BOTTOM + 24)
        self.bottom = self.top + HEIGHT
        self.first, self.last = math.log2(min(cols)), math.log2(max(cols))
        self.low, self.high = low, high

    def x(self, cols):
        return self.left + PANEL * (math.log2(cols) - self.first) / max(self.last - self.first, 1e-9)

    def y(self, value):
        return self.top + HEIGHT * (1 - (value - self.low) / (self.high - self.low))

    def axes(self, title, ticks, tick_text, numbers):
        draw = self.picture
        for tick in ticks:
            y = self.y(tick)
            draw.line([(self.left, y), (self.left + PANEL, y)], FAINT)
            if numbers:
                draw.text(self.left - 8, y + 4, tick_text(tick), size=11, anchor="end")
        powers = range(math.ceil(self.first), math.floor(self.last) + 1)
        step = 1 if len(powers) <= 7 else 2
        for power in powers:
            x = self.x(2**power)
            draw.line([(x, self.bottom), (x, self.bottom + 4)], INK)
            if (power - powers[-1]) % step == 0:
                draw.text(x, self.bottom + 18, count_text(2**power), anchor="middle")
        draw.line([(self.left, self.bottom), (self.left + PANEL, self.bottom)], INK)
        draw.text(self.left + PANEL / 2, self.bottom + 36, "columns", anchor="middle")
        draw.text(self.left, self.top - 12, title, size=13, bold=True)

    def labels(self, ends):
        """Names at the right, each joined to its line's end, none over another. ends: (name, x, y, colour, bold)."""
        places = spread([y for _, _, y, _, _ in ends], 14, self.top + 4, self.bottom - 2)
        for (name, x, y, colour, bold), place in zip(ends, places):
            edge = self.left + PANEL + 8
            self.picture.line([(x + 3, y), (max(x + 3, self.left + PANEL), y), (edge, place)], colour, 0.7, opacity=0.6)
            self.picture.text(edge + 3, place + 4, name, colour, 11.5 if bold else 11, bold=bold)


class Bars:
    """A panel at the index-th place of a picture, two a row, over the labels' room too: a group of bars per shape, upwards from
    0 to `high` times the roof."""

    def __init__(self, picture, index, groups, high):
        self.picture, self.left, self.width = picture, LEFT + index % 2 * (PANEL + LABELS + GAP), PANEL + LABELS - 8
        self.top = TOP + index // 2 * (HEIGHT + BOTTOM + 24)
        self.bottom, self.high, self.step = self.top + HEIGHT, high, self.width / groups

    def y(self, value):
        return self.bottom - HEIGHT * min(value, self.high) / self.high

    def axes(self, title):
        draw = self.picture
        for tick in range(0, round(self.high * 10) + 1, 2):
            draw.line([(self.left, self.y(tick / 10)), (self.left + self.width, self.y(tick / 10))], FAINT)
            draw.text(self.left - 8, self.y(tick / 10) + 4, f"{tick / 10:.1f}", anchor="end")
        draw.line([(self.left, self.y(1)), (self.left + self.width, self.y(1))], ROOF, 3)
        draw.line([(self.left, self.bottom), (self.left + self.width, self.bottom)], INK)
        draw.text(self.left, self.top - 12, title, size=13, bold=True)

    def group(self, number, label, bars):
        """bars: [(colour, share)], the first with its figure above it."""
        draw, left = self.picture, self.left + number * self.step + self.step * 0.1
        width = self.step * 0.8 / len(bars)
        for place, (colour, value) in enumerate(bars):
            draw.box(left + place * width, self.y(value), left + (place + 1) * width - 0.6, self.bottom, colour)
        draw.text(left, self.y(bars[0][1]) - 4, f"{bars[0][1]:.2f}", bars[0][0], 10, bold=True)
        for line, text in enumerate(label):
            draw.text(left + self.step * 0.4, self.bottom + 16 + 13 * line, text, size=10, anchor="middle")


def count_text(count):
    return f"{count >> 20}M" if count >= 1 << 20 else f"{count >> 10}K" if count >= 1024 else str(count)


def spread(wanted, distance, low, high):
    """Places near the wanted ones, at least `distance` apart, in the same order, from `low` to `high` if they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [wanted[index] for index in order]
    for _ in range(200):
        places = [min(max(place, low), high) for place in places]
        for index in range(1, len(places)):
            overlap = distance - (places[index] - places[index - 1])
            if overlap > 1e-6:
                places[index - 1] -= overlap / 2
                places[index] += overlap / 2
    found = [0.0] * len(wanted)
    for place, index in zip(places, order):
        found[index] = place
    return found


def by_dtype(cells):
    found = {}
    for cell in sorted(cells, key=lambda cell: cell["cols"]):
        found.setdefault(cell["dtype"], []).append(cell)
    return {dtype: found[dtype] for dtype in results.SHORT if dtype in found}


def source(run):
    text = [run["gpu"], f"PyTorch {run['torch']}", f"Triton {run['triton']}", run["date"][:10]]
    return ", ".join(text) + ". Medians, L2 flushed before each launch."


def frame(panels):
    across, down = min(panels, 2), (panels + 1) // 2
    return Picture(LEFT + across * (PANEL + LABELS) + (across - 1) * GAP, TOP + down * (HEIGHT + BOTTOM) + (down - 1) * 24)


def bandwidth(op, cells, run, path):
    """A panel per dtype, a line per implementation, the copy as a broad grey line behind them."""
    groups = by_dtype(cells)
    picture = frame(len(groups))
    top = max(results.gbps(cell, name) for cell in cells for name in cell["us"])
    high = 1000 * math.ceil(top / 1000 + 0.02)
    for index, (dtype, group) in enumerate(groups.items()):
        panel = Panel(picture, index, [cell["cols"] for cell in group], 0, high)
        panel.axes(f"{op}, {dtype}", range(0, high + 1, 1000), lambda tick: f"{tick}", True)
        ends = []
        for name in ["copy", *(name for name in STYLES if name != results.OWN), results.OWN]:
            points = [(panel.x(cell["cols"]), panel.y(results.gbps(cell, name))) for cell in group if name in cell["us"]]
            if not points:
                continue
            colour, dashes, width = STYLES.get(name, (ROOF, "", 7.0))
            picture.line(points, colour, width, dashes)
            if name == results.OWN:
                for x, y in points:
                    picture.dot(x, y, 2.6, colour)
            label = results.NAMES[name]
            if name == "copy" and op.endswith("_backward"):
                label = "three-array kernel"
            ends.append((label, *points[-1], "#777777" if name == "copy" else colour, name == results.OWN))
        panel.labels(ends)
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


def losses(cells, run, path):
    """Cross-entropy: a panel per operation and dtype, a group of bars per shape."""
    panels = [(op, dtype, [cell for cell in cells if (cell["op"], cell["dtype"]) == (op, dtype)])
              for op in LOSSES for dtype in ("float32", "bfloat16")]
    picture = frame(len(panels))
    high = max(1.2, math.ceil(5 * max(results.share(cell) for cell in cells)) / 5)
    present = {name for cell in cells for name in cell["us"]}
    for index, (op, dtype, group) in enumerate(panels):
        if not group:
            continue
        panel = Bars(picture, index, len(group), min(high, 1.4))
        panel.axes(f"{LOSSES[op]}, {dtype} (1: {results.roof_name(group[0])})")
        for number, cell in enumerate(group):
            label = [f"{cell['rows']}", f"x {cell['cols']}"] + ([cell["case"]] if cell["case"] else [])
            panel.group(number, label, [(colour, results.share(cell, name)) for name, colour in BARS.items()
                                        if name in cell["us"]])
    picture.text(LEFT - 44, 22, "Cross-entropy: share of the roof", size=15, bold=True)
    x = LEFT + 240
    for name, colour in BARS.items():
        if name in present:
            picture.box(x, 13, x + 10, 23, colour)
            picture.text(x + 14, 22, results.NAMES[name], bold=name == results.OWN)
            x += 30 + 7 * len(results.NAMES[name])
    picture.text(LEFT - 44, picture.height - 4, source(run), "#777777", 10)
    picture.save(path, "cross-entropy: share of the roof")


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
