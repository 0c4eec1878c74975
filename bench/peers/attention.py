"""Attention forward side by side: Tunesmith, cuDNN and FlashAttention-2 as PyTorch calls them, and compiled flex_attention
where scores or masks are modified, in one process, on the same values.

    python3 bench/peers/attention.py --library build/release/api/libtunesmith.so --grid forward [--mode replay --cache FILE]

Inputs are standard normal. Each implementation is checked against float64 on up to 512 queries (the first ones, whose causal
rows are large, apart from the others; Tunesmith's lse too), then timed in shuffled order; figures are medians. Where products
bound the time, L2 is not flushed: the GPU is preheated, and a sample is the mean of up to 8 launches in a row. Of decoding
each launch is behind a flushed L2 cache, the figure is GB/s of keys and values, and the roof the faster of two kernels that read as
many bytes (Tunesmith's `copy` with write=0, and Triton). TFLOP/s count 4 head_dim per pair of query and key that the mask shows,
half of all where it is causal. Ratios are of cuDNN, in `mods` of flex_attention, in `decode` of the roof. In `mods` the plain
kernel of the same shape is timed beside what modifies it. In `accuracy` the figure is the largest error over what
FlashAttention's criterion allows, and nothing is timed.

Writes attention.json after every problem, a table to the screen, and the plots (plot.py); report.py makes tables.
Grids: forward, decode, mods, accuracy, quick (see attention_grids.py). Needs torch and triton.
"""
import sys

import attention_grids as grids
import attention_peers
import attention_problems
import family
import side_by_side

FAMILY = family.Family(name="attention", ops=(grids.OP,), grids=tuple(grids.GRIDS), cells=grids.cells,
                       make=attention_problems.make, peers=attention_peers.PEERS, needs=attention_peers.NEEDS,
                       roofs=("copy", "triton_read"),
                       figures="TFLOP/s (over cuDNN; mods: over flex_attention), decode: GB/s of keys and values (share of "
                               "the read), accuracy: error over what is allowed")

if __name__ == "__main__":
    sys.exit(side_by_side.main(FAMILY, __doc__))
