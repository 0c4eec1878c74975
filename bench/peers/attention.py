"""Compares attention forward: Tunesmith, cuDNN and FlashAttention-2 as PyTorch calls them, FlashAttention-4, and compiled
flex_attention for modified scores and masks, in one process and on the same values.

    python3 bench/peers/attention.py --library build/release/api/libtunesmith.so --grid forward [--mode replay --cache FILE]

Inputs are standard normal. Each implementation is checked against float64 on up to 512 queries, the first ones separately
because their causal rows are larger; Tunesmith's lse is checked, too. Then all are timed in shuffled order; figures are
medians.

Where arithmetic bounds the time, L2 is not flushed: the GPU is preheated, and a sample is the mean of up to 8 launches in a
row. TFLOP/s count 4 head_dim per visible pair of a query and a key, half of all pairs for a causal mask. Ratios are over
cuDNN, in `mods` over flex_attention; `mods` also times the plain kernel of the same shape.

In `decode` L2 is flushed before every launch, the figure is GB/s of K and V, and the baseline is the faster of two kernels
that read as many bytes (Tunesmith's `copy` with write=0, and Triton). In `accuracy` the figure is the largest error over
what FlashAttention's criterion allows, and nothing is timed.

Writes attention.json after every problem, a table to the screen, and the plots (plot.py). report.py makes tables of the
JSON. Grids: forward, decode, mods, accuracy, quick (suites/attention_grids.py). Needs torch and triton; FlashAttention-4 is left out
where it is not installed.
"""
import sys

from suites import attention_grids as grids
from suites import attention_peers
from suites import attention_problems
import family
import side_by_side

FAMILY = family.Family(name="attention", ops=(grids.OP,), grids=tuple(grids.GRIDS), cells=grids.cells,
                       make=attention_problems.make, peers=attention_peers.PEERS, needs=attention_peers.NEEDS,
                       copies=("copy", "triton_read"),
                       figures="TFLOP/s (over cuDNN; mods: over flex_attention), decode: GB/s of K and V (share of the read), "
                               "accuracy: error over what is allowed")

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
