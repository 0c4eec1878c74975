"""The generated sections of the published pages (pages.py), each a function that returns Markdown lines. Needs only
Python."""
import os

import kernels
import program_sections
import results
import samples
import tables
import targets
from results import SHORT, over, over_best, share
from report import TARGET_HEAD
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


STATES = {kernels.CURRENT: "The kernels have not changed since.",
          kernels.CHANGED: "**The kernels have changed since.**",
          kernels.UNKNOWN: "**The digest of the kernels was not recorded, so these figures may be older than the kernels.**"}

NOT_MEASURED = ["Not measured yet."]
CELL_STATES = {kernels.CURRENT: "their kernels have not changed since.",
               kernels.CHANGED: "**their kernels have changed since.**",
               kernels.UNKNOWN: "**the digest of their kernels was not recorded.**"}


def commit_of(run):
    return run["commit"].removesuffix("-dirty") + (" with changes" if run["commit"].endswith("-dirty") else "")


def of_other_commits(source, name):
    """Returns a sentence for the cells of each other commit: which they are, and whether they are of the current kernels."""
    run, groups = source.run(name), {}
    for cell in run.get("cells", ()):
        if "commit" in cell:
            state = kernels.cell_state(run, cell, source.digests)
            groups.setdefault((cell["commit"], state), []).append(cell)
    lines = []
    for (commit, state), cells in groups.items():
        grids = {}
        for cell in cells:
            grids[cell["grid"]] = grids.get(cell["grid"], 0) + 1
        of = ", ".join(f"{count} of the grid {grid}" for grid, count in grids.items())
        lines.append(f"{len(cells)} cells are of {commit} ({of}): {CELL_STATES[state]}")
    return lines


def measured(source, *names):
    """Where, when and how each file's figures were measured, and whether they are of the current kernels."""
    lines = []
    for name in names:
        if not source.has(name):
            return NOT_MEASURED
        run = source.run(name)
        facts = [run["gpu"], f"driver {run['driver_version']}", f"PyTorch {run['torch']}", f"Triton {run['triton']}"]
        facts += [f"cuDNN {run['cudnn']}"] if run.get("cudnn") else []
        line = f"Measured at {commit_of(run)} on {run['date'][:10]} ({', '.join(facts)}). {STATES[source.state(name)]}"
        line += "".join(" " + other for other in of_other_commits(source, name))
        line += f" Note: {run['note']}." if run.get("note") else ""
        line += f" The run {run['stopped']}." if run.get("stopped") else ""
        lines += [line, "", "```", *(part.strip() for part in run["command"].split("; ")), "```", ""]
        for past in run.get("earlier", ()):
            gpu = f", {past['gpu']}" if past.get("gpu", run["gpu"]) != run["gpu"] else ""
            lines += [f"Cells of {past['commit']}, {past['date'][:10]}{gpu}:", "", "```",
                      *(part.strip() for part in past["command"].split("; ")), "```", ""]
    return lines[:-1]


def speeds(source, name, grid, *ops):
    """Speeds of a file's cells of one grid."""
    cells = [cell for cell in source.cells(name, grid) if cell["us"] and (not ops or cell["op"] in ops)]
    return tables.speeds(cells) if cells else NOT_MEASURED


def distribution(source, name):
    """Shares of the baseline over the shapes that a seed drew."""
    return tables.distribution(source.cells(name, samples.GRID)) or NOT_MEASURED


def errors(source, name, grid):
    """Errors of a file's cells that are checked and not timed."""
    cells = source.cells(name, grid)
    return tables.errors(cells) if cells else NOT_MEASURED


def largest_errors(source, name, grid):
    """Largest error of each implementation."""
    cells = source.cells(name, grid)
    found = {peer: max(cell["error"].get(peer, 0) for cell in cells) for peer in tables.names_of(cells)}
    return ["Largest errors: " + ", ".join(f"{results.NAMES[peer]} {error:.2f}" for peer, error in found.items()) + "."]


def means(source, *names):
    """Means and lowest cells of several files."""
    return tables.averages([cell for name in names for cell in source.cells(name)])


def all_targets(source, *names):
    """Targets of the cells of several files. If a problem occurs twice, the later file counts."""
    cells = {results.key(cell): cell for name in names for cell in source.cells(name)}
    return TARGET_HEAD + targets.target_lines(list(cells.values()))


def left_out(source, *names):
    """What was not measured, and why."""
    return tables.left_out([cell for name in names for cell in source.cells(name)])


def costs(source, name):
    """Time of modifications over the plain kernel's."""
    return tables.costs(source.cells(name))


def cliffs(source, name):
    """Largest drop, mean and lowest share of each sweep."""
    lines = []
    for (op, dtype), sweep in results.sweeps(source.cells(name)).items():
        drop, before, after = max(results.drops(sweep), key=lambda entry: entry[0])
        lowest = min(sweep, key=share)
        lines.append(f"- {op} {SHORT[dtype]}, {sweep[0]['cols']} to {sweep[-1]['cols']} columns, "
                     f"{'untuned' if source.run(name)['mode'] == 'off' else 'tuned'}: {geomean(list(map(share, sweep))):.3f} "
                     f"of the copy on average, {share(lowest):.3f} at the lowest ({lowest['cols']} columns). The largest drop "
                     f"from one width to the next is {100 * drop:.1f}% ({before['cols']} to {after['cols']}).")
    return lines


def row_accuracy(source, name):
    return tables.row_accuracy(source.run(name)["cells"])


def loss_accuracy(source, name):
    return tables.loss_accuracy(source.run(name)["losses"])


def linear(source, name):
    """Time, memory and error of linear + cross-entropy."""
    lines = []
    for record in source.cells(name):
        lines += [f"{record['tokens']} tokens, {record['hidden']} hidden, {record['vocab']} classes, "
                  f"{SHORT[record['dtype']]}:", "", *tables.linear(record), ""]
    return lines[:-1]


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
NOTES = {kernels.CURRENT: "", kernels.CHANGED: " (1)", kernels.UNKNOWN: " (2)"}


def summary(source):
    """The README's table: speed over the alternative's, mean and lowest."""
    rows, states = [], set()
    gpus = sorted({source.run(row[2])["gpu"] for row in SUMMARY})
    for problem, alternative, name, applies, value in SUMMARY:
        run, cells = source.run(name), [cell for cell in source.cells(name) if applies(cell)]
        chosen = [value(cell) for cell in cells]
        commits = {}  # and the states of their cells
        for cell in cells:
            commits.setdefault(cell.get("commit") or commit_of(run), set()).add(kernels.cell_state(run, cell, source.digests))
        states.update(*commits.values())
        on = "" if len(gpus) == 1 else run["gpu"].split()[1] + ", "  # such as H100 of "NVIDIA H100 80GB HBM3"
        rows.append([problem, alternative, f"**{geomean(chosen):.2f}**", f"{min(chosen):.2f}", str(len(chosen)),
                     on + ", ".join(commit + "".join(NOTES[state] for state in NOTES if state in found)
                               for commit, found in commits.items())])
    where = f" on one {gpus[0]}" if len(gpus) == 1 else ""
    lines = [f"Speed over the alternative's in one run{where}. Peers: torch, torch.compile, Triton, Liger, QuACK, FlashInfer.", "",
             *tables.markdown(["problem", "alternative", "geometric mean", "lowest", "cells", "measured at"], rows)]
    notes = {kernels.CHANGED: "(1) The kernels have changed since.",
             kernels.UNKNOWN: "(2) The digest of the kernels was not recorded."}
    return lines + [line for state in notes if state in states for line in ("", notes[state])]


# Files of bench/plots by page, in the order of the index.
PAGES = {"softmax": ("softmax", "softmax_sample", "softmax_sample_h100", "cliffs", "masks", "softmax_backward", "softmax_backward_torch", "log_softmax", "accuracy"),
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


SECTIONS = {"measured": measured, "speeds": speeds, "distribution": distribution, "errors": errors,
            "largest-errors": largest_errors, "means": means, "targets": all_targets, "left-out": left_out,
            "costs": costs, "cliffs": cliffs, "row-accuracy": row_accuracy,
            "loss-accuracy": loss_accuracy, "linear": linear, **program_sections.SECTIONS, "summary": summary, "index": index}
