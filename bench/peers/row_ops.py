"""Softmax, log-softmax and their backward passes side by side: Tunesmith, PyTorch, torch.compile, Triton, in one process,
on the same arrays.

    python3 bench/peers/row_ops.py --library build/release/api/libtunesmith.so --grid main long [--out FOLDER] [--jobs 12]

Each implementation is checked against float64 on up to 64 rows (family.Arrays says how closely), then timed interleaved with
the others, each launch behind a flushed L2 cache; figures are medians. The roof is Tunesmith's tuned `copy` of the same bytes,
two arrays forward and three backward. Whatever fails is left out and named. Writes row_ops.json after every problem, so that a
run that is stopped keeps what it has, a table to the screen, and the plots (plot.py). report.py makes tables of the JSON.

Grids: main, long, unaligned, few, backward, cliffs, masks, quick (see grids.py). Needs torch and triton.
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
                       peers=peers.PEERS, needs=peers.NEEDS)

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
