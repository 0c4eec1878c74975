"""Keeps figures current whose kernels are the same machine code as before.

    python3 bench/peers/relabel.py --old OLD/tunesmith --new NEW/tunesmith bench/plots/softmax_sample.json...

A change of the templates gives every kernel of an operation a new digest, and the pages then call its figures older. For each
cell of the old digest, this renders the recorded configuration with both command lines, compiles it with NVRTC, and writes the
new digest if machine code, constants and shared memory are the same (scripts/compare_kernels.py). Cells with a modification,
such as a mask, stay as they are. Needs Python and NVRTC, no GPU.
"""
import argparse
import concurrent.futures
import os
import sys

import kernels
import results
from suites import row_program_grids

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import compare_kernels

LOSS = {"reduction": "none", "target_dtype": "i64"}
# Operation of Tunesmith, and fields that neither shape nor dtype say, by the operation of a cell.
LOSSES = {"cross_entropy": ("cross_entropy", LOSS), "cross_entropy_fused": ("cross_entropy", dict(LOSS, gradient="in_place"))}


def problem_of(record, arch):
    """Returns (op, fields, arch, config) of a cell as compare_kernels.py takes it; None if its fields are not known."""
    cell = results.key(record)
    if cell.op == row_program_grids.OP:
        op, fields = row_program_grids.problem(cell)
    elif cell.case:
        return None
    else:
        op, more = LOSSES.get(cell.op, (cell.op, {}))
        fields = dict(cell.fields, dtype=results.SHORT[cell.dtype], **more)
    return (op, list(fields.items()), arch, record["config"]) if record.get("config") else None


def hand_written_of(record, arch):
    """Returns (op, fields, arch, config) of the hand-written kernel that a cell of row programs was compared with, or None."""
    found = record.get("hand_written_config") and row_program_grids.hand_written(results.key(record))
    return found and (found[0], list(found[1].items()), arch, record["hand_written_config"])


def same_kernels(problems, pool, args):
    """Returns the numbers of the cells whose kernels are the same machine code; `problems`: by number, None if not known."""
    problems = {number: problem for number, problem in problems.items() if problem}
    found = pool.map(compare_kernels.compare, [(problem, args) for problem in problems.values()])
    return {number for number, difference in zip(problems, found) if not compare_kernels.differs(difference)}


def is_of(run, cell, digests):
    """Returns whether a cell was measured with the kernels of `digests`."""
    return kernels.of_cell(run, cell) == digests.get(results.tunesmith_op(cell["op"]))


def relabelled(run, same, old, new):
    """Returns the run with digests of `new` in place of digests of `old` for the cells with numbers in `same`, and how many
    have changed. The head follows where all of its cells do; elsewhere such a cell names its own commit and kernel."""
    changed = [number in same and is_of(run, cell, old) for number, cell in enumerate(run["cells"])]
    of_head = {}  # operation -> whether each cell of the head has changed
    for cell, change in zip(run["cells"], changed):
        if "commit" not in cell:
            of_head.setdefault(results.tunesmith_op(cell["op"]), []).append(change)
    whole = {op for op, changes in of_head.items() if all(changes)}
    cells = []
    for cell, change in zip(run["cells"], changed):
        op = results.tunesmith_op(cell["op"])
        if change and ("commit" in cell or op not in whole):
            cell = dict(cell, commit=cell.get("commit", run["commit"]), kernel=new[op])
        cells.append(cell)
    heads = {op: new[op] if op in whole and digest == old.get(op) else digest for op, digest in run["kernels"].items()}
    return dict(run, kernels=heads, cells=cells), sum(changed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="command that renders the old kernels")
    parser.add_argument("--new", required=True, help="command that renders the new kernels")
    parser.add_argument("--arch", default="sm_90a", help="architecture of the GPU that was measured")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nvrtc", default=compare_kernels.nvrtc_path(), help="path of libnvrtc")
    parser.add_argument("files", nargs="+", metavar="FIGURES.json")
    args = parser.parse_args()
    args.keep = None
    old, new = compare_kernels.digests_of(args.old), compare_kernels.digests_of(args.new)
    for path in args.files:
        run = results.read(path)
        cells = list(enumerate(run["cells"]))
        of_old = [number for number, cell in cells if is_of(run, cell, old)]
        by_hand = [number for number, cell in cells if cell.get("hand_written_kernel") == old.get(cell.get("hand_written_op"), "")]
        with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
            same = same_kernels({number: problem_of(run["cells"][number], args.arch) for number in of_old}, pool, args)
            same_by_hand = same_kernels({number: hand_written_of(run["cells"][number], args.arch) for number in by_hand}, pool, args)
        run, changed = relabelled(run, same, old, new)
        for number in same_by_hand:
            cell = run["cells"][number]
            cell["hand_written_kernel"] = new[cell["hand_written_op"]]
        results.write(path, run)
        print(f"{path}: {changed} of {len(run['cells'])} cells have the same machine code and the new digest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
