"""The generated sections of the published pages (pages.py), each a function that returns Markdown lines. Needs only
Python."""
import os

import kernels
import results
import samples
import tables
import targets
from results import SHORT, over, over_best, share
from targets import geomean


class Source:
    """The recorded figures and the digests of the current kernels."""

    def __init__(self, folder, digests):
        self._folder, self.digests, self._runs = folder, digests, {}

    def run(self, name):
        """The run of a JSON file, by the file's name without its ending."""
        if name not in self._runs:
            self._runs[name] = results.read(os.path.join(self._folder, name + ".json"))
        return self._runs[name]

    def has(self, name):
        """Whether there is such a file."""
        return os.path.exists(os.path.join(self._folder, name + ".json"))

    def cells(self, name, *grids):
        return [cell for cell in self.run(name)["cells"] if not grids or cell["grid"] in grids]

    def state(self, name):
        return kernels.state(self.run(name), self.digests)


NOTES = {kernels.CURRENT: "", kernels.CHANGED: " (1)", kernels.UNKNOWN: " (2)"}
STATES = {kernels.CURRENT: "", kernels.CHANGED: "(1) The kernels have changed since.",
          kernels.UNKNOWN: "(2) The digest of the kernels was not recorded."}
NOT_MEASURED = ["Not measured yet."]


def commit_of(run):
    return run["commit"].removesuffix("-dirty") + (" with changes" if run["commit"].endswith("-dirty") else "")


def states_of(source, name, cells):
    """Returns "9e5f5d8, 3d4acc0 (1)": the commits of cells of one file; (1) and (2) as in NOTES."""
    run, commits = source.run(name), {}
    for cell in cells:
        commits.setdefault(cell.get("commit") or commit_of(run), set()).add(kernels.cell_state(run, cell, source.digests))
    return ", ".join(commit + "".join(NOTES[state] for state in NOTES if state in found) for commit, found in commits.items())


def explained(lines):
    """Adds what (1) and (2) mean to the lines that have them."""
    text = "\n".join(lines)
    return lines + [line for state, words in STATES.items() if NOTES[state] and NOTES[state] in text for line in ("", words)]


def speed_text(cells):
    """Returns the highest speed with its unit."""
    return f"{max(map(results.speed, cells)):.0f} {'TFLOP/s' if cells[0].get('flops') else 'GB/s'}"


def brief(source, *names):
    """The table of a page: a row per grid and operation. A name that ends with ":" has one row for the whole file."""
    rows = []
    for word in names:
        name, groups = word.removesuffix(":"), {}
        if not source.has(name):
            return NOT_MEASURED
        gpu = source.run(name)["gpu"].split()[1]
        for cell in source.cells(name):
            if cell["us"].get(results.OWN):
                groups.setdefault(("all", "") if word.endswith(":") else (cell["grid"], cell["op"]), []).append(cell)
        for (grid, op), cells in groups.items():
            ops = ", ".join(dict.fromkeys(cell["op"] for cell in cells))
            shares = [share(cell) for cell in cells if share(cell)]
            peers = [over_best(cell) for cell in cells if over_best(cell)]
            mean_and_least = [f"{geomean(values):.3f} | {min(values):.3f}" if values else "- | -" for values in (shares, peers)]
            rows.append([ops, grid, gpu, str(len(cells)), speed_text(cells), *mean_and_least, states_of(source, name, cells)])
    return explained(tables.markdown(["operation", "grid", "GPU", "cells", "highest speed", "share of the baseline", "lowest",
                                      "speed over the best peer", "lowest", "measured at"], rows))


def commands(source, *names):
    """The command of each file's last run."""
    names = [name.removesuffix(":") for name in names if source.has(name.removesuffix(":"))]
    lines = dict.fromkeys(part.strip() for name in names for part in source.run(name)["command"].split("; "))
    return ["```", *lines, "```"]


def misses(source, *names):
    """The targets that are missed, and how many are met. If a problem occurs twice, the later file counts."""
    found = targets.target_results(list({results.key(cell): cell for name in names for cell in source.cells(name)}.values()))
    count = {met: sum(result.met is met for result in found) for met in (True, False, None)}
    lines = [f"{count[True]} targets are met, {count[False]} missed, {count[None]} not measured."]
    lines += [f"- {result.title}: lowest {result.lowest}, mean {result.mean}. {result.verdict.replace('**', '').capitalize()}."
              for result in found if result.met is False]
    return [lines[0], "", *lines[1:]] if lines[1:] else lines


def accuracy(rows, table):
    """Returns the section of a file of errors: the table of its list `rows`, and the commit."""
    def section(source, name):
        run = source.run(name)
        return explained([*table(run[rows]), "", f"At {commit_of(run)}{NOTES[source.state(name)]}."])
    return section


def linear(source, name):
    """Time, memory and error of linear + cross-entropy."""
    lines = []
    for record in source.cells(name):
        lines += [f"{record['tokens']} tokens, {record['hidden']} hidden, {record['vocab']} classes, "
                  f"{SHORT[record['dtype']]}, at {commit_of(source.run(name))}{NOTES[source.state(name)]}:", "",
                  *tables.linear(record), ""]
    return explained(lines[:-1])


def against(name):
    return lambda cell: over(cell, name)


# Rows of the README's table of speeds: problem, alternative, file, cells, speed over the alternative's.
SUMMARY = (
    ("softmax and its gradient, drawn shapes", "best of six peers", "softmax_sample",
     lambda cell: cell["grid"] == samples.GRID, over_best),
    ("losses and their gradients, drawn shapes", "best of five peers", "cross_entropy_sample",
     lambda cell: cell["grid"] == samples.GRID, over_best),
    ("row programs: norms, gates, quantization, ...", "best of four peers", "row_programs",
     lambda cell: not cell["case"].endswith("_gradient") and over_best(cell), over_best),
    ("attention forward, 512 to 16384 positions", "cuDNN", "attention",
     lambda cell: cell["grid"] == "forward", against("cudnn")),
    ("attention, ALiBi, softcap, window, documents", "flex_attention", "attention",
     lambda cell: cell["grid"] == "mods" and cell["case"] and "snippet" not in cell["case"], against("flex")),
    ("attention backward, 512 to 16384 positions", "cuDNN", "attention_backward",
     lambda cell: cell["grid"] == "backward", against("cudnn")),
)


def has_summary(source):
    return all(source.has(row[2]) for row in SUMMARY)


def summary_speeds(source):
    """Returns the problem, the alternative and the speed over the alternative's of every cell, for each row of SUMMARY."""
    return [(problem, alternative, [value(cell) for cell in source.cells(name) if applies(cell)])
            for problem, alternative, name, applies, value in SUMMARY]


def summary(source):
    """The README's table: speed over the alternative's, mean and lowest."""
    rows = []
    gpus = sorted({source.run(row[2])["gpu"] for row in SUMMARY})
    for (_, _, name, applies, _), (problem, alternative, chosen) in zip(SUMMARY, summary_speeds(source)):
        cells = [cell for cell in source.cells(name) if applies(cell)]
        on = "" if len(gpus) == 1 else source.run(name)["gpu"].split()[1] + ", "  # such as H100 of "NVIDIA H100 80GB HBM3"
        rows.append([problem, alternative, f"**{geomean(chosen):.2f}**", f"{min(chosen):.2f}", str(len(chosen)),
                     on + states_of(source, name, cells)])
    where = f" on one {gpus[0]}" if len(gpus) == 1 else ""
    lines = [f"Speed over the alternative's in one run{where}. Peers: torch, torch.compile, Triton, Liger, QuACK, FlashInfer.", "",
             *tables.markdown(["problem", "alternative", "geometric mean", "lowest", "cells", "measured at"], rows)]
    return explained(lines)


# Files of bench/plots by page, in the order of the index.
PAGES = {"softmax": ("softmax", "softmax_sample", "softmax_sample_h100", "cliffs", "masks", "softmax_backward", "log_softmax", "accuracy"),
         "cross_entropy": ("cross_entropy", "cross_entropy_sample", "cross_entropy_sample_h100", "loss_accuracy"),
         "linear_cross_entropy": ("linear_cross_entropy",), "attention": ("attention",), "attention_backward": ("attention_backward",),
         "row_programs": ("row_programs", "row_programs_h100")}


def index(source):
    """The table of all files of figures: page, file, commit, whether the kernels have changed."""
    words = {kernels.CURRENT: "current", kernels.CHANGED: "**changed since**", kernels.UNKNOWN: "**not recorded**"}
    def state(name):
        run = source.run(name)
        past = [cell for cell in run.get("cells", ()) if "commit" in cell]
        older = [cell for cell in past if kernels.cell_state(run, cell, source.digests) != kernels.CURRENT]
        return words[source.state(name)] + (f", {len(older)} of {len(run['cells'])} cells **older**" if older else "")

    rows = [[f"[{page}]({page}.md)", f"[{name}.json](../plots/{name}.json)", commit_of(source.run(name)),
             source.run(name)["date"][:10], state(name)] for page, names in PAGES.items() for name in names if source.has(name)]
    return tables.markdown(["page", "figures", "commit", "date", "kernels"], rows)


SECTIONS = {"brief": brief, "commands": commands, "misses": misses, "row-accuracy": accuracy("cells", tables.row_accuracy),
            "loss-accuracy": accuracy("losses", tables.loss_accuracy),
            "linear": linear, "summary": summary, "index": index}
