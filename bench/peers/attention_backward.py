"""Compares attention backward: Tunesmith, cuDNN and FlashAttention-2 as PyTorch calls them, FlashAttention-4, and, in the grid
options, compiled flex_attention, in one process and on the same values.

    python3 bench/peers/attention_backward.py --library build/release/api/libtunesmith.so --grid backward

Inputs are standard normal. The gradients of the first and the last key head are checked against float64, and all of them
for infinities and NaN. Then all are timed in shuffled order on a preheated GPU; figures are medians. TFLOP/s count five
products of 2 head_dim per visible pair of a query and a key, half of all pairs for a causal mask; `pair` counts seven and
times the forward pass, too. Ratios are over cuDNN. In `accuracy` the figure is the largest error over what FlashAttention's
criterion allows, and nothing is timed: `--grid accuracy --mode off --peers cudnn flash2`. With --mode off Tunesmith's kernels
are compiled on all cores first; FlashAttention-4 takes seconds to compile each kind.

Writes attention_backward.json after every problem and a table to the screen. Grids: backward, deterministic, options, pair,
accuracy, quick (suites/attention_backward_grids.py). Needs torch and triton; FlashAttention-4 is left out where it is not installed.
"""
import sys

from suites import attention_backward_grids as grids
from suites import attention_backward_peers
from suites import attention_backward_problems
import family
import side_by_side

FAMILY = family.Family(name="attention_backward", ops=(grids.OP,), grids=tuple(grids.GRIDS), cells=grids.cells,
                       make=attention_backward_problems.make, peers=attention_backward_peers.PEERS,
                       needs=attention_backward_peers.NEEDS, copies=(), figures="TFLOP/s (over cuDNN)",
                       ahead=attention_backward_problems.ahead)

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
