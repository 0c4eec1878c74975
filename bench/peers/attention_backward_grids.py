"""Problems of attention backward. Needs only Python.

backward       bf16, 16384 tokens, 2048 elements over all heads: head_dim 64, 96, 128, 256; full and causal
deterministic  some of the same with the option deterministic
options        grouped heads, soft cap and ALiBi at 4096 positions; soft cap and ALiBi against the plain kernel, too
pair           forward and backward of one layer
accuracy       shapes of FlashAttention's tests, checked by its criterion, not timed
"""
import attention_grids
from cells import AttentionCell

OP = "attention_backward"
TOKENS, HIDDEN = attention_grids.TOKENS, attention_grids.HIDDEN
SOFTCAP = attention_grids.SOFTCAP
CAUSAL = ("none", "bottom-right")
# (head_dim, lengths). Of head_dim 96 there are 21 heads, 2016 elements.
SHAPES = ((128, (512, 2048, 8192)), (64, (512, 2048, 8192)), (256, (8192,)), (96, (8192,)))
ORDERED = ((128, (2048, 8192)), (64, (2048, 8192)))
# (heads, kv_heads, case)
OPTIONS = ((64, 8, ""), (16, 16, ""), (16, 16, "softcap"), (16, 16, "alibi"))


# seq_q, seq_kv: some of FlashAttention's tests
ODD_LENGTHS = ((113, 203), (128, 217), (108, 256), (512, 256), (1023, 1024))
ODD_HEAD_DIMS = (40, 64, 128, 256)


def _cell(grid, dtype, head_dim, length, causal, case=""):
    heads = HIDDEN // head_dim
    return AttentionCell(grid, OP, dtype, TOKENS // length, heads, heads, length, length, head_dim, causal, case)


def _shapes(grid, shapes, case=""):
    return lambda dtype: [_cell(grid, dtype, head_dim, length, causal, case)
                          for head_dim, lengths in shapes for length in lengths for causal in CAUSAL]


def _options(dtype):
    return [AttentionCell("options", OP, dtype, 4 * 16 // heads, heads, kv_heads, 4096, 4096, 128, "bottom-right", case)
            for heads, kv_heads, case in OPTIONS]


def _accuracy(dtype):
    return [AttentionCell("accuracy", OP, dtype, 2, 4, 4 if causal == "none" else 2, seq_q, seq_kv, head_dim, causal)
            for head_dim in ODD_HEAD_DIMS for causal in CAUSAL for seq_q, seq_kv in ODD_LENGTHS]


def _quick(dtype):
    return [AttentionCell(grid, OP, dtype, 2, 4, 2, 512, 512, 64, "bottom-right", case)
            for grid, case in (("quick", ""), ("quick", "deterministic"), ("pair", ""))]


GRIDS = {"backward": _shapes("backward", SHAPES), "deterministic": _shapes("deterministic", ORDERED, "deterministic"),
         "options": _options, "pair": _shapes("pair", SHAPES), "accuracy": _accuracy, "quick": _quick}


def cells(grid, ops=None, dtypes=None):
    """Returns the problems of a grid, in bf16 by default."""
    return [cell for dtype in dtypes or ("bfloat16",) for cell in GRIDS[grid](dtype)]


def flops(cell):
    """Returns the operations of five matrix products, and of the forward pass's two."""
    return attention_grids.flops(cell) // 2 * (7 if cell.grid == "pair" else 5)


def own_fields(cell):
    """Returns the fields of Tunesmith's problem except its dtype."""
    fields = dict(cell.fields, layout="bshd")
    if cell.case == "softcap":
        fields["softcap"] = SOFTCAP
    elif cell.case == "alibi":
        fields["alibi"] = 1
    elif cell.case == "deterministic":
        fields["deterministic"] = 1
    return fields
