"""What row_ops.py wrote, read back: bandwidths, shares of the copy, best peers, cliffs.

A file is one run: facts about the machine, and "cells", one per problem. A cell has "us", the median microseconds of each
implementation; "bytes", the traffic of the problem; "copy_bytes", the traffic of the copy that was timed beside it.
"""
import json

ROOF = "copy"
OWN = "tunesmith"
# Column headings and their order; what is not in ROOFS or OWN is a peer.
ROOFS = (ROOF, "torch_copy")
NAMES = {"copy": "copy", "torch_copy": "torch copy", "tunesmith": "Tunesmith", "torch": "torch", "compile": "torch.compile",
         "triton_whole": "Triton, whole row", "triton_loop": "Triton, two passes", "quack": "QuACK", "liger": "Liger"}
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
CLIFF = 0.05


def key(cell):
    return tuple(cell[name] for name in ("grid", "op", "dtype", "rows", "cols", "mask"))


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


def gbps(cell, name=OWN):
    """GB/s, bytes read plus written; None when it was not measured."""
    if name not in cell["us"]:
        return None
    return (cell["copy_bytes"] if name in ROOFS else cell["bytes"]) / cell["us"][name] * 1e-3


def share(cell, name=OWN):
    """Bandwidth over that of the copy; None when either is missing."""
    own, roof = gbps(cell, name), gbps(cell, ROOF)
    return own / roof if own and roof else None


def best_peer(cell):
    """Name of the fastest peer; None without one."""
    peers = [name for name in cell["us"] if name != OWN and name not in ROOFS]
    return min(peers, key=lambda name: cell["us"][name], default=None)


def over_best(cell):
    """The best peer's time over ours: above 1 we are faster. None without either."""
    peer = best_peer(cell)
    return cell["us"][peer] / cell["us"][OWN] if peer and OWN in cell["us"] else None


def title(cell):
    return f"{SHORT[cell['dtype']]} {cell['rows']}x{cell['cols']}" + (f" {cell['mask']}" if cell["mask"] else "")


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
