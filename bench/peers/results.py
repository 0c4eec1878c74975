"""Reads and writes the JSON files of the side-by-sides: speeds, fractions of the baseline, best peers, cliffs.

A file is one run. Its head names the machine, the commit, the command and the kernels: "kernels" maps each operation to the
digest of its templates (kernels.py). "cells" holds one record per problem, one line each:

    us          median microseconds of each implementation
    bytes       traffic of the problem
    copy_kind   the kernel that moves the same bytes without computing (copies.KINDS)
    copy_bytes  traffic of that kernel, which is timed in the same run
    flops       present if arithmetic bounds the problem; its speed is then in TFLOP/s
    baseline    the peer by whose speed the others are divided, where there is no copy
    commit      present if this cell was measured at another commit than the run (merge.py)
    kernel      next to `commit`: the digest of that commit's kernel; None or missing if it was not recorded
    hand_written_op, hand_written_kernel   of row programs: the hand-written operation measured next to it, its digest
"""
import json
import os

from cells import SHORT, of_record

OWN = "tunesmith"
PLAIN = "tunesmith_plain"  # Tunesmith without the modification, for the cost of the modification
DEFAULT = "tunesmith_default"  # Tunesmith's default configuration of the kernel for the width, next to the tuned one
BUCKET = "tunesmith_bucket"  # the untuned kernel of the width's bucket
HAND_WRITTEN = "hand_written"  # Tunesmith's hand-written kernel of the same operation, next to a row program
OURS = (OWN, PLAIN, DEFAULT, BUCKET, HAND_WRITTEN)
# Column headings in their order. Names outside of COPIES and OURS are peers.
COPIES = ("copy", "torch_copy", "triton_read")
NAMES = {"copy": "copy", "torch_copy": "torch copy", "triton_read": "Triton read", "tunesmith": "Tunesmith", "hand_written": "hand-written",
         "torch": "torch",
         "compile": "torch.compile", "triton": "Triton", "triton_whole": "Triton, whole row",
         "triton_loop": "Triton, two-pass", "quack": "QuACK", "liger": "Liger", "cudnn": "cuDNN",
         "cudnn_packed": "cuDNN, heads as queries", "flash2": "FlashAttention-2", "flash4": "FlashAttention-4",
         "flex": "flex_attention",
         "flashinfer": "FlashInfer", "transformer_engine": "TransformerEngine"}
# Headings of Tunesmith's copy kernel by copy_kind.
COPY_NAMES = {"copy": "copy", "add": "copy", "in_place": "copy in place", "read": "read"}
# Side-by-side operations that are options of one of Tunesmith's.
TUNESMITH_OPS = {"cross_entropy_fused": "cross_entropy"}
CLIFF = 0.05


def tunesmith_op(op):
    """Returns Tunesmith's name of a side-by-side's operation."""
    return TUNESMITH_OPS.get(op, op)


def key(cell):
    """Returns what identifies the problem of a record."""
    return of_record(cell)


def dumps(run):
    """Returns a run as JSON with one line per fact and one line per record, so that a diff shows which cells changed."""
    parts = []
    for name, value in run.items():
        records = isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value)
        text = "[\n" + ",\n".join("  " + json.dumps(entry) for entry in value) + "\n ]" if records else json.dumps(value)
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(path, run):
    """Writes a run atomically: a process that is killed leaves the previous file."""
    with open(path + ".part", "w") as file:
        file.write(dumps(run))
    os.replace(path + ".part", path)


def read(path):
    with open(path) as file:
        return json.load(file)


def load(paths):
    """Returns (runs without their cells, cells). If a problem occurs twice, the later file counts."""
    runs, cells = [], {}
    for path in paths:
        run = read(path)
        for cell in run.pop("cells"):
            cells[key(cell)] = dict(cell, run=len(runs))
        runs.append(dict(run, file=path))
    return runs, list(cells.values())


def speed(cell, name=OWN):
    """Returns TFLOP/s, or GB/s read plus written; None if it was not measured."""
    if name not in cell["us"]:
        return None
    if cell.get("flops"):
        return cell["flops"] / cell["us"][name] * 1e-6
    return (cell["copy_bytes"] if name in COPIES else cell["bytes"]) / cell["us"][name] * 1e-3


def baseline(cell):
    """Returns the name of what speeds are divided by: Tunesmith's copy, or the faster of two kernels that only read, or the
    baseline peer. None without any."""
    found = [name for name in ("copy", "triton_read") if name in cell["us"]] or \
        [name for name in (cell.get("baseline"),) if name in cell["us"]]
    return min(found, key=lambda name: cell["us"][name], default=None)


def baseline_name(cell):
    """Returns the heading of the baseline of a cell."""
    if cell.get("baseline") and not cell.get("copy_kind"):
        return NAMES[cell["baseline"]]
    return COPY_NAMES[cell.get("copy_kind", "copy")]


def share(cell, name=OWN):
    """Returns the speed over the baseline's; None if either is missing."""
    own, most = speed(cell, name), baseline(cell)
    return own / speed(cell, most) if own and most else None


def best_peer(cell):
    """Returns the name of the fastest peer; None without one."""
    peers = [name for name in cell["us"] if name not in (*OURS, *COPIES)]
    return min(peers, key=lambda name: cell["us"][name], default=None)


def over(cell, name):
    """Returns the time of `name` over Tunesmith's; above 1 Tunesmith is faster. None if either is missing."""
    return cell["us"][name] / cell["us"][OWN] if name in cell["us"] and OWN in cell["us"] else None


def over_best(cell):
    return over(cell, best_peer(cell))


def title(cell):
    return key(cell).title


def sweeps(cells):
    """Returns {(op, dtype): cells by rising columns} of the grid `cliffs`."""
    found = {}
    for cell in cells:
        if cell["grid"] == "cliffs" and share(cell):
            found.setdefault((cell["op"], cell["dtype"]), []).append(cell)
    return {name: sorted(sweep, key=lambda cell: cell["cols"]) for name, sweep in found.items()}


def drops(sweep):
    """Returns [(drop, cell, next cell)] of neighbours; 0.05 means that the next cell's share is 5% lower."""
    return [(1 - share(after) / share(before), before, after) for before, after in zip(sweep, sweep[1:])]
