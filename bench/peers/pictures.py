"""SVG pictures made of panels, two per row: lines over a logarithmic axis, or groups of bars. Needs only Python.

The background is transparent. Colours have two values; dark pages get the second one through prefers-color-scheme.
"""
import html
import math
import textwrap

PANEL, HEIGHT, LEFT, TOP, BOTTOM, LABELS, GAP = 330, 240, 52, 68, 68, 122, 44
# name: colour on light pages, on dark pages. The first five are Okabe and Ito's, which colour-blind readers tell apart.
COLOURS = {"orange": ("#d55e00", "#ff8c42"), "blue": ("#0072b2", "#56b4e9"), "green": ("#007a5a", "#2fc99b"),
           "purple": ("#a0527f", "#e08fc0"), "grey": ("#4d4d4d", "#c4c4c4"), "pale-grey": ("#8c8c8c", "#8f979f"),
           "pale-purple": ("#e0a5c6", "#8a4c70"), "pale-green": ("#8ccbb5", "#1d7d62"), "ink": ("#333333", "#e3e6e8"),
           "faint": ("#e6e6e6", "#3b4148"), "baseline": ("#b9b9b9", "#68707a"), "note": ("#6f6f6f", "#a3abb3")}
NOTE_SIZE, NOTE_STEP = 10, 13
NOTE_WIDTH = 5.2  # mean width of a character of a note, on the safe side


class Picture:
    """SVG source, element by element; coordinates in pixels."""

    def __init__(self, width, height):
        self.width, self.height, self.parts, self.used = width, height, [], set()

    def _paint(self, kind, colour):
        self.used.add((kind, colour))
        return f'class="{kind}-{colour}"'

    def line(self, points, colour, width=1.0, dashes="", opacity=1.0):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = (f' stroke-dasharray="{dashes}"' if dashes else "") + (f' opacity="{opacity}"' if opacity != 1 else "")
        self.parts.append(f'<polyline points="{path}" {self._paint("line", colour)} stroke-width="{width}"{extra}/>')

    def dot(self, x, y, radius, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {self._paint("fill", colour)}/>')

    def box(self, left, top, right, bottom, colour):
        self.parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{max(bottom - top, 0):.1f}" '
                          f'{self._paint("fill", colour)}/>')

    def text(self, x, y, text, colour="ink", size=11, anchor="start", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {self._paint("fill", colour)} font-size="{size}" '
                          f'text-anchor="{anchor}"{weight}>{html.escape(text)}</text>')

    def head(self, text):
        self.text(LEFT - 44, 22, text, size=15, bold=True)

    def notes(self, text):
        """Writes notes below the panels, as many lines as the width needs."""
        for line in textwrap.wrap(text, int((self.width - 2 * (LEFT - 44)) / NOTE_WIDTH)):
            self.height += NOTE_STEP
            self.text(LEFT - 44, self.height - 10, line, "note", NOTE_SIZE)

    def style(self):
        """Returns the CSS of the colours in use."""
        def rules(place):
            return "".join(f".{kind}-{colour}{{{'fill' if kind == 'fill' else 'stroke'}:{COLOURS[colour][place]}}}"
                           for kind, colour in sorted(self.used))
        return ("<style>polyline,circle[class^=line]{fill:none;stroke-linejoin:round;stroke-linecap:round}"
                f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>")

    def save(self, path, title):
        head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="Helvetica, Arial, sans-serif" role="img">',
                f"<title>{html.escape(title)}</title>", self.style()]
        with open(path, "w") as file:
            file.write("\n".join(head + self.parts + ["</svg>"]) + "\n")


def corner(index):
    """Returns left and top of the index-th panel."""
    return LEFT + index % 2 * (PANEL + LABELS + GAP), TOP + index // 2 * (HEIGHT + BOTTOM + 24)


class Panel:
    """Lines over log2 of `across`, from `low` to `high`."""

    def __init__(self, picture, index, cols, low, high, across="columns"):
        self.picture, (self.left, self.top) = picture, corner(index)
        self.bottom = self.top + HEIGHT
        self.first, self.last = math.log2(min(cols)), math.log2(max(cols))
        self.low, self.high, self.across = low, high, across

    def x(self, cols):
        return self.left + PANEL * (math.log2(cols) - self.first) / max(self.last - self.first, 1e-9)

    def y(self, value):
        return self.top + HEIGHT * (1 - (value - self.low) / (self.high - self.low))

    def axes(self, title, ticks, digits=0):
        draw = self.picture
        for tick in ticks:
            y = self.y(tick)
            draw.line([(self.left, y), (self.left + PANEL, y)], "faint")
            draw.text(self.left - 8, y + 4, f"{tick:.{digits}f}", size=11, anchor="end")
        powers = range(math.ceil(self.first), math.floor(self.last) + 1)
        step = 1 if len(powers) <= 7 else 2
        for power in powers:
            x = self.x(2**power)
            draw.line([(x, self.bottom), (x, self.bottom + 4)], "ink")
            if (power - powers[-1]) % step == 0:
                draw.text(x, self.bottom + 18, count_text(2**power), anchor="middle")
        draw.line([(self.left, self.bottom), (self.left + PANEL, self.bottom)], "ink")
        draw.text(self.left + PANEL / 2, self.bottom + 36, self.across, anchor="middle")
        draw.text(self.left, self.top - 12, title, size=13, bold=True)

    def labels(self, ends):
        """Writes names at the right without overlap, each joined to the end of its line. ends: (name, x, y, colour,
        bold)."""
        places = spread([y for _, _, y, _, _ in ends], 14, self.top + 4, self.bottom - 2)
        for (name, x, y, colour, bold), place in zip(ends, places):
            edge = self.left + PANEL + 8
            self.picture.line([(x + 3, y), (max(x + 3, self.left + PANEL), y), (edge, place)], colour, 0.7, opacity=0.6)
            self.picture.text(edge + 3, place + 4, name, colour, 11.5 if bold else 11, bold=bold)


class Bars:
    """A group of bars per shape, from 0 to `high` times the baseline. Uses the room of a panel's labels too."""

    def __init__(self, picture, index, groups, high):
        self.picture, self.width, (self.left, self.top) = picture, PANEL + LABELS - 8, corner(index)
        self.bottom, self.high, self.step = self.top + HEIGHT, high, self.width / groups

    def y(self, value):
        return self.bottom - HEIGHT * min(value, self.high) / self.high

    def axes(self, title):
        draw, right = self.picture, self.left + self.width
        for tick in range(0, round(self.high * 10) + 1, 2 if self.high <= 2 else 5):
            draw.line([(self.left, self.y(tick / 10)), (right, self.y(tick / 10))], "faint")
            draw.text(self.left - 8, self.y(tick / 10) + 4, f"{tick / 10:.1f}", anchor="end")
        draw.line([(self.left, self.y(1)), (right, self.y(1))], "baseline", 3)
        draw.line([(self.left, self.bottom), (right, self.bottom)], "ink")
        draw.text(self.left, self.top - 12, title, size=13, bold=True)

    def group(self, number, label, bars):
        """bars: [(colour, share)]; the first one's figure is written above it."""
        draw, left = self.picture, self.left + number * self.step + self.step * 0.1
        width = self.step * 0.8 / len(bars)
        for place, (colour, value) in enumerate(bars):
            draw.box(left + place * width, self.y(value), left + (place + 1) * width - 0.6, self.bottom, colour)
        first = bars[0][1]
        above = self.y(1 if 0.9 < first < 1 else first)  # not across the line of the baseline
        draw.text(left, above - 4, f"{first:.2f}", bars[0][0], 10, bold=True)
        for line, text in enumerate(label):
            draw.text(left + self.step * 0.4, self.bottom + 16 + 13 * line, text, size=10, anchor="middle")


def count_text(count):
    return f"{count >> 20}M" if count >= 1 << 20 else f"{count >> 10}K" if count >= 1024 else str(count)


def spread(wanted, distance, low, high):
    """Returns places near the wanted ones, in their order, at least `distance` apart, from `low` to `high` if they fit."""
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


def frame(panels):
    """Returns an empty picture with room for some panels; notes add to its height."""
    across, down = min(panels, 2), (panels + 1) // 2
    return Picture(LEFT + across * (PANEL + LABELS) + (across - 1) * GAP,
                   TOP + down * (HEIGHT + BOTTOM) + (down - 1) * 24 - 10)
