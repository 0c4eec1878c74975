"""What a side-by-side wrote, read back: speeds, shares of the roof, best peers, cliffs.

A file is one run: facts about the machine, and "cells", one per problem. A cell has "us", the median microseconds of each
implementation; "bytes", the traffic of the problem; "roof", which kind of copy is its roof (roofs.KINDS); "copy_bytes", the
traffic of that copy, which was timed beside it. One that arithmetic bounds has "flops", and "baseline", the peer by whose
speed the others are divided.
"""
import json

from cells import SHORT, of_record

OWN = "tunesmith"
# Column headings and their order; what is not in ROOFS or OWN is a peer.
ROOFS = ("copy", "torch_copy", "triton_read")
NAMES = {"copy": "copy", "torch_copy": "torch copy", "triton_read": "Triton read", "tunesmith": "Tunesmith", "torch": "torch",
         "compile": "torch.compile", "triton": "Triton", "triton_whole": "Triton, whole row",
         "triton_loop": "Triton, two passes", "quack": "QuACK", "liger": "Liger", "cudnn": "cuDNN",
         "cudnn_packed": "cuDNN, heads as queries", "flash2": "FlashAttention-2", "flex": "flex_attention"}
PLAIN = "tunesmith_plain"  # Tunesmith without the modification whose cost is measured
# What Tunesmith's copy is called where it is the roof.
ROOF_NAMES = {"copy": "copy", "add": "copy", "in_place": "copy in place", "read": "read"}
CLIFF = 0.05


def key(cell):
    """What identifies the problem of a record."""
    return of_record(cell)


def load(paths):
    """(runs without their cells, cells): a problem that occurs twice counts once, the later file's."""
    runs, cells = [], {}
    for path in paths:
        with open(path) as file:
            run = json.load(file)
        for number, cell in enumerate(run.pop("cells")):
            cells[key(cell)] = dict(cell, run=len(runs))
        runs.append(dict(run, file=path))
    return runs, list(cells.values())


def unit(cell):
    return "TFLOP/s" if cell.get("flops") else "GB/s"


def speed(cell, name=OWN):
    """TFLOP/s, or GB/s of bytes read plus written; None when it was not measured."""
    if name not in cell["us"]:
        return None
    if cell.get("flops"):
        return cell["flops"] / cell["us"][name] * 1e-6
    return (cell["copy_bytes"] if name in ROOFS else cell["bytes"]) / cell["us"][name] * 1e-3


def roof(cell):
    """Name of what speeds are divided by: Tunesmith's copy; of two that only read, the faster; without either the baseline.
    None without one."""
    found = [name for name in ("copy", "triton_read") if name in cell["us"]] or \
        [name for name in (cell.get("baseline"),) if name in cell["us"]]
    return min(found, key=lambda name: cell["us"][name], default=None)


def roof_name(cell):
    """What Tunesmith's copy, or the peer in its place, is called in this cell."""
    return NAMES[cell["baseline"]] if cell.get("baseline") and not cell.get("roof") else ROOF_NAMES[cell.get("roof", "copy")]


def share(cell, name=OWN):
    """Speed over that of the roof; None when either is missing."""
    own, most = speed(cell, name), roof(cell)
    return own / speed(cell, most) if own and most else None


def best_peer(cell):
    """Name of the fastest peer; None without one."""
    peers = [name for name in cell["us"] if name not in (OWN, PLAIN, *ROOFS)]
    return min(peers, key=lambda name: cell["us"][name], default=None)


def over(cell, name):
    """The time of `name` over ours: above 1 we are faster. None without either."""
    return cell["us"][name] / cell["us"][OWN] if name in cell["us"] and OWN in cell["us"] else None


def over_best(cell):
    return over(cell, best_peer(cell))


def title(cell):
    return key(cell).title


def sweeps(cells):
    """{(op, dtype): cells by rising columns} of the grid `cliffs`, those with a share only."""
    found = {}
    for cell in cells:
        if cell["grid"] == "cliffs" and share(cell):
            found.setdefault((cell["op"], cell["dtype"]), []).append(cell)
    return {name: sorted(sweep, key=lambda cell: cell["cols"]) for name, sweep in found.items()}


def drops(sweep):
    """[(drop, cell, next cell)] of neighbours, drop = how much of the share is lost from one to the next, 0.05 = 5%."""
    return [(1 - share(after) / share(before), before, after) for before, after in zip(sweep, sweep[1:])]
