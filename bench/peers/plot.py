"""Draws softmax.json as bandwidth over columns: python3 bench/peers/plot.py softmax.json softmax.svg (needs matplotlib)."""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LINES = {"copy": ("device copy", "#999999", "--"), "tunesmith": ("Tunesmith", "#c0392b", "-"),
         "triton_whole": ("Triton, whole row", "#2980b9", "-"), "triton_online": ("Triton, online, autotuned", "#16a085", "-"),
         "compile": ("torch.compile", "#8e44ad", "-"), "torch": ("torch.softmax", "#7f8c8d", "-")}
SIZES = {"float32": 4, "bfloat16": 2}


def main():
    with open(sys.argv[1]) as file:
        data = json.load(file)
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for panel, (dtype, size) in zip(panels, SIZES.items()):
        cells = sorted((c for c in data["rows"] if c["dtype"] == dtype and c["rows"] == 4096 and c["cols"] != 781),
                       key=lambda c: c["cols"])
        for name, (label, colour, style) in LINES.items():
            points = [(c["cols"], 2 * c["rows"] * c["cols"] * size / c["us"][name] * 1e-3) for c in cells if name in c["us"]]
            panel.plot(*zip(*points), style, color=colour, label=label, linewidth=2.2 if name == "tunesmith" else 1.2,
                       marker="o", markersize=3)
        panel.set_xscale("log", base=2)
        panel.set_title(f"softmax, {dtype}, 4096 rows")
        panel.set_xlabel("columns")
        panel.set_ylim(0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("GB/s, read + written")
    panels[1].legend(fontsize=8)
    figure.suptitle(f"{data['gpu']}, torch {data['torch']}, triton {data['triton']}; medians, L2 flushed", fontsize=9)
    figure.tight_layout()
    figure.savefig(sys.argv[2])
    if sys.argv[2].endswith(".svg"):  # matplotlib leaves blanks at line ends, which make every diff noisy
        with open(sys.argv[2]) as file:
            lines = [line.rstrip() for line in file]
        with open(sys.argv[2], "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
