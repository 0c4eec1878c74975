"""Compares cross-entropy: the loss, the loss with its gradient in place of the logits, and the gradient alone. Tunesmith,
PyTorch, torch.compile, Triton, Liger and QuACK, in one process and on the same arrays.

    python3 bench/peers/cross_entropy.py --library build/release/api/libtunesmith.so [--out FOLDER] [--jobs 12]

Logits are standard normal, targets uniform int64, none ignored. Each implementation is checked against float64 on up to 64
rows, the gradient separately at the targets and elsewhere, then timed interleaved with the others, with L2 flushed before
every launch; figures are medians. The baseline of the loss alone is the faster of two kernels that read and sum the same
bytes (Tunesmith's `copy` with write=0, and Triton); with a gradient it is Tunesmith's tuned `copy` of the same bytes, in
place or not. Liger's entry points wait for the GPU, so their time includes Python; that is what a user of them waits for.
Writes cross_entropy.json after every problem, a table to the screen, and the plots (plot.py). report.py makes tables of the
JSON.

Grids: forward, fused, backward, issue, quick, and two whose shapes are drawn by --seed (samples.py): sample, of 32 to
512 MiB, and small, of 0.25 to 8 MiB. Needs torch and triton.
"""
import sys

from suites import cross_entropy_peers
from suites import cross_entropy_problems as problems
import family
import side_by_side
from cells import Cell

LONG = [(8192, 32000), (8192, 128256), (4096, 262144)]
MAIN = [*LONG, (32768, 4096)]
DTYPES = ("float32", "bfloat16")
# name: {(op, case): shapes}
GRIDS = {
    "forward": {(problems.FORWARD, ""): [*MAIN, (16384, 1024), (64, 128256), (1, 262144)]},
    "fused": {(problems.FUSED, ""): [*MAIN, (16384, 1024)], (problems.FUSED, "mean"): [(8192, 32000), (8192, 128256)]},
    "backward": {(problems.BACKWARD, ""): MAIN},
    "issue": {(problems.FORWARD, ""): [(131072, 1000), (4096, 50304)],  # shapes on which the share was low
              (problems.FUSED, ""): [(4096, 50304), (4096, 151936), (4096, 128256)]},
    "quick": {(op, case): [(512, 1000), (64, 8192)]
              for op, case in ((problems.FORWARD, ""), (problems.FUSED, ""), (problems.FUSED, "mean"), (problems.BACKWARD, ""))},
}


def cells(grid, ops=None, dtypes=None):
    """Returns the problems of a grid. `ops`: only these; `dtypes`: instead of the grid's own."""
    return [Cell(grid, op, dtype, rows, cols, case) for (op, case), shapes in GRIDS[grid].items() if not ops or op in ops
            for dtype in dtypes or DTYPES for rows, cols in shapes]


FAMILY = family.Family(name="cross_entropy", ops=problems.OPS, grids=tuple(GRIDS), cells=cells, make=problems.make,
                       sampled={problems.FORWARD: 1, problems.FUSED: 2},
                       peers=cross_entropy_peers.PEERS, needs=cross_entropy_peers.NEEDS)

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
