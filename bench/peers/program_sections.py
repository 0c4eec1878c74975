"""The generated sections of the page of row programs (sections.py). Needs only Python."""
import results
import row_program_grids
import tables
import targets
from report import TARGET_HEAD
from results import COPIES, HAND_WRITTEN, OWN, over, over_best, share
from targets import geomean

# Headings and remarks of the tables of row programs, by grid.
TABLES = {
    "norms": ("Norms", ""),
    "softmax": ("Softmax as a program", ""),
    "norms_quantized": ("Norms to fp8 and int8", "Each row has a scale, or each 128 columns have one (`_blocks`)."),
    "row_quantize": ("Row quantization", ""),
    "activations": ("Activations", ""),
    "gates": ("Gates and sampling", "The result is small, so the share is of a kernel that reads the same array and sums it."),
    "gradients": ("Gradients", "PyTorch's time includes the forward pass, which autograd needs; QuACK's kernel reads what its "
                               "forward pass has saved."),
    "others": ("Losses and similarity", "The share is of a kernel that reads the same arrays and sums them."),
}


def table(cells):
    """Time, GB/s and share of the copy; the time of the hand-written kernel and of each peer over the program's."""
    names = [name for name in tables.names_of(cells) if name not in (OWN, *COPIES)]
    names.sort(key=lambda name: name != HAND_WRITTEN)

    def value(cell, name):
        ratio = over(cell, name)
        return f"{ratio:.2f}" if ratio else "-"

    rows = []
    for cell in cells:
        own = [f"{cell['us'][OWN]:.1f}", f"{results.speed(cell):.0f}", f"{share(cell):.3f}"] if share(cell) else ["-"] * 3
        rows.append([tables.title(cell), *own, *(value(cell, name) for name in names)])
    return tables.markdown(["", "us", "GB/s", "share of the copy", *(results.NAMES[name] for name in names)], rows)


def means(cells):
    """Geometric means of the times of the hand-written kernels, of each peer and of the best peer over the programs'."""
    chosen = {results.NAMES[name]: [over(cell, name) for cell in cells if over(cell, name)]
              for name in tables.names_of(cells) if name not in (OWN, *COPIES)}
    chosen["the best peer of each cell"] = [over_best(cell) for cell in cells if over_best(cell)]
    return [f"{name} {geomean(ratios):.2f} ({len(ratios)} cells)" for name, ratios in chosen.items() if ratios]


def older_hand_written(source, cells):
    """Returns a sentence with the hand-written kernels that have changed since the cells were measured; "" if none has."""
    older = sorted({cell["hand_written_op"] for cell in cells if cell.get("hand_written_kernel") and
                    cell["hand_written_kernel"] != source.digests.get(cell["hand_written_op"])})
    return f"**The hand-written kernels of {', '.join(older)} have changed since.**" if older else ""


def of_grid(source, name, grid):
    """The heading and the table of row programs of one grid; nothing before there are figures."""
    cells = [cell for cell in source.cells(name, grid) if cell["us"]] if source.has(name) else []
    if not cells:
        return []
    heading, remark = TABLES[grid]
    remarks = " ".join(filter(None, (remark, older_hand_written(source, cells))))
    return [f"## {heading}", "", *([remarks, ""] if remarks else []), *table(cells)]


def all_cells(source, name):
    """The table of all cells, without headings."""
    return table(source.cells(name))


def summary(source, name):
    """The picture, the targets and the means of row programs; nothing before there are figures."""
    cells = source.cells(name) if source.has(name) else []
    if not cells:
        return []
    picture = any(cell["grid"] == "norms" for cell in cells)
    return [*([f"![Share of the copy over columns](../plots/{name}.svg)", ""] if picture else []),
            "## Targets", "", *TARGET_HEAD, *targets.target_lines(cells), "",
            "Time over the program's, geometric means: " + "; ".join(means(cells)) + "."]


def left_out(source, name):
    """Row programs and peers that were not measured; nothing before there are figures."""
    if not source.has(name):
        return []
    measured_cells = {results.key(cell) for cell in source.cells(name)}
    missing = [str(cell) for cell in row_program_grids.cells() if cell not in measured_cells]
    lines = [f"- {results.NAMES[peer]}: {reason}" for peer, reason in source.run(name).get("missing", {}).items()]
    lines += tables.left_out(source.cells(name)) + ([f"- Not measured yet: {', '.join(missing)}."] if missing else [])
    return ["## Left out", "", *lines] if lines else []


SECTIONS = {"programs": of_grid, "programs-all": all_cells, "program-summary": summary, "programs-left-out": left_out}
