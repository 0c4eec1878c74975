"""Compares softmax, log_softmax and their backward passes: Tunesmith, PyTorch, torch.compile, Triton, Liger, QuACK, in one
process and on the same arrays.

    python3 bench/peers/row_ops.py --library build/release/api/libtunesmith.so --grid main long [--out FOLDER] [--jobs 12]

Each implementation is checked against float64 on up to 64 rows (family.Arrays has the tolerances), then timed interleaved
with the others, with L2 flushed before every launch; figures are medians. The baseline is Tunesmith's tuned `copy` of the
same bytes: two arrays forward, three backward. Whatever fails is left out and named. Writes row_ops.json after every
problem, so that an interrupted run keeps its figures, a table to the screen, and the plots (plot.py). report.py makes tables
of the JSON.

Grids: main, long, unaligned, few, issue, backward, cliffs, masks, quick (grids.py), and two whose shapes are drawn by --seed
(samples.py): sample, of 32 to 512 MiB, and small, of 0.25 to 8 MiB. Needs torch and triton.
"""
import sys

import family
import grids
import masks
import peers
import problems
import side_by_side


def make(cell):
    return masks.make(cell) if cell.case else problems.make(cell)


FAMILY = family.Family(name="row_ops", ops=grids.OPS, grids=tuple(grids.GRIDS), cells=grids.cells, make=make,
                       sampled={op: grids.arrays(op) for op in ("softmax", "softmax_backward")},
                       peers=peers.PEERS, needs=peers.NEEDS)

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
