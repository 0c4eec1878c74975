"""SVG pictures made of panels, two a row: lines over a logarithmic axis, or groups of bars. Needs nothing but Python."""
import html
import math

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
    """Axes at the index-th place of a picture, two a row: log2 of what is `across`, `low` to `high` upwards."""

    def __init__(self, picture, index, cols, low, high, across="columns"):
        self.picture, self.left = picture, LEFT + index % 2 * (PANEL + LABELS + GAP)
        self.top = TOP + index // 2 * (HEIGHT + BOTTOM + 24)
        self.bottom = self.top + HEIGHT
        self.first, self.last = math.log2(min(cols)), math.log2(max(cols))
        self.low, self.high, self.across = low, high, across

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
        draw.text(self.left + PANEL / 2, self.bottom + 36, self.across, anchor="middle")
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
        for tick in range(0, round(self.high * 10) + 1, 2 if self.high <= 2 else 5):
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


def frame(panels):
    across, down = min(panels, 2), (panels + 1) // 2
    return Picture(LEFT + across * (PANEL + LABELS) + (across - 1) * GAP, TOP + down * (HEIGHT + BOTTOM) + (down - 1) * 24)
