"""Problems of attention backward. Needs only Python.

backward       bf16, 16384 tokens, 2048 elements over all heads; head_dim 64, 96, 128, 256; 512 to 16384 positions; causal or not
deterministic  some of the same with the option deterministic
options        4096 positions: grouped heads, soft cap, ALiBi, user functions; modifications against the plain kernel, too
pair           forward and backward of one layer
accuracy       shapes of FlashAttention's tests, checked by its criterion, not timed; every kind of problem comes first
"""
import dataclasses

from suites import attention_grids
from cells import AttentionCell

OP = "attention_backward"
TOKENS, HIDDEN = attention_grids.TOKENS, attention_grids.HIDDEN
SOFTCAP = attention_grids.SOFTCAP
CAUSAL = ("none", "bottom-right")
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
# (head_dim, lengths). Of head_dim 96 there are 21 heads, 2016 elements.
SHAPES = tuple((head_dim, LENGTHS) for head_dim in (128, 64, 256, 96))
PAIRS = ((128, (512, 2048, 8192)), (64, (512, 2048, 8192)), (256, (8192,)), (96, (8192,)))
ORDERED = ((128, (2048, 8192)), (64, (2048, 8192)))
# (head_dim, heads, kv_heads, causal, case)
OPTIONS = ((128, 64, 8, "bottom-right", ""),
           *((head_dim, HIDDEN // head_dim, HIDDEN // head_dim, causal, case) for head_dim, causal, case in (
               (128, "bottom-right", ""), (128, "bottom-right", "softcap"), (128, "bottom-right", "alibi"),
               (128, "bottom-right", "softcap snippet"), (128, "bottom-right", "relative bias snippet"),
               (128, "none", "document mask"),
               (64, "bottom-right", ""), (64, "bottom-right", "softcap snippet"), (64, "bottom-right", "relative bias snippet"),
               (64, "none", ""), (64, "none", "document mask"))))
# The snippet of a case: the examples that Tunesmith ships.
SNIPPETS = {"softcap snippet": ("score_mod", "softcap.cu"), "relative bias snippet": ("score_mod", "relative_bias.cu"),
            "document mask": ("mask_mod", "document_mask.cu")}
SCORE_MODS = ("softcap snippet", "relative bias snippet")
# Cases that are also timed against the plain kernel of the same shape.
MODIFIED = ("softcap", "alibi", *SNIPPETS)

# seq_q, seq_kv: FlashAttention's tests
ODD_LENGTHS = ((113, 203), (128, 217), (108, 256), (512, 256), (1023, 1024), (1, 1), (64, 128), (128, 192), (239, 1), (799, 3),
               (384, 256), (640, 128), (113, 211), (1024, 1023), (2048, 2048), (4224, 4224))
ODD_HEAD_DIMS = (128, 64, 256, 40)
# Kinds of problems: (kv_heads of 4 heads, causal, case). The first two have all lengths, the others one of FEW_LENGTHS.
KINDS = ((4, "none", ""), (2, "bottom-right", ""), (1, "bottom-right", ""), (4, "none", "softcap 15"),
         (2, "bottom-right", "softcap 15"), (4, "none", "window"), (2, "bottom-right", "window"))
OTHER_KINDS = KINDS[:2] + KINDS[4:5]  # in a second dtype
FEW_LENGTHS = ((113, 203), (1023, 1024))
ACCURACY_SOFTCAP = 15.0
ACCURACY_WINDOW = 60, 20  # keys before and after a query's position; a causal mask hides those after it


def _cell(grid, dtype, head_dim, length, causal, case=""):
    heads = HIDDEN // head_dim
    return AttentionCell(grid, OP, dtype, TOKENS // length, heads, heads, length, length, head_dim, causal, case)


def _shapes(grid, shapes, case=""):
    return lambda dtype: [_cell(grid, dtype, head_dim, length, causal, case)
                          for head_dim, lengths in shapes for length in lengths for causal in CAUSAL]


def _options(dtype):
    return [AttentionCell("options", OP, dtype, 4 * HIDDEN // head_dim // heads, heads, kv_heads, 4096, 4096, head_dim, causal,
                          case) for head_dim, heads, kv_heads, causal, case in OPTIONS]


def _accuracy(dtype, other=None):
    """Returns every kind first, in `other`, too, if that is given, then all lengths."""
    def cell(of, head_dim, kind, lengths):
        kv_heads, causal, case = kind
        return AttentionCell("accuracy", OP, of, 2, 4, kv_heads, *lengths, head_dim, causal, case)

    kinds = [(dtype, kind) for kind in KINDS] + [(other, kind) for kind in OTHER_KINDS if other]
    found = [cell(of, head_dim, kind, FEW_LENGTHS[(first + second) % 2])
             for first, head_dim in enumerate(ODD_HEAD_DIMS[:3]) for second, (of, kind) in enumerate(kinds)]
    found += [cell(dtype, head_dim, kind, lengths) for head_dim in ODD_HEAD_DIMS for kind in KINDS[:2]
              for lengths in ODD_LENGTHS]
    return list(dict.fromkeys(found))


def _quick(dtype):
    return [AttentionCell(grid, OP, dtype, 2, 4, 2, 512, 512, 64, "bottom-right", case)
            for grid, case in (("quick", ""), ("quick", "deterministic"), ("pair", ""))]


GRIDS = {"backward": _shapes("backward", SHAPES), "deterministic": _shapes("deterministic", ORDERED, "deterministic"),
         "options": _options, "pair": _shapes("pair", PAIRS), "accuracy": _accuracy, "quick": _quick}


def cells(grid, ops=None, dtypes=None):
    """Returns the problems of a grid, in bf16 by default; `accuracy` then has some in f16, too."""
    if grid == "accuracy" and not dtypes:
        return _accuracy("bfloat16", "float16")
    return [cell for dtype in dtypes or ("bfloat16",) for cell in GRIDS[grid](dtype)]


def flops(cell):
    """Returns the operations of five matrix products, and of the forward pass's two."""
    return attention_grids.flops(cell) // 2 * (7 if cell.grid == "pair" else 5)


def pairs_left(cell):
    """Returns the visible pairs over the pairs of the plain problem of the same shape."""
    return attention_grids.pairs(cell) / attention_grids.pairs(dataclasses.replace(cell, case=""))


def cap(cell):
    """Returns the soft cap of a cell that has one."""
    return ACCURACY_SOFTCAP if cell.grid == "accuracy" else SOFTCAP


def own_fields(cell):
    """Returns the fields of Tunesmith's problem except its dtype. The block mask of a document mask is given, as for
    flex_attention: the forward pass of a training step has written it."""
    fields = dict(cell.fields, layout="bshd")
    if cell.case in SNIPPETS:
        function, example = SNIPPETS[cell.case]
        fields[function] = (attention_grids.EXAMPLES / example).read_text()
        if function == "mask_mod":
            fields["block_mask"] = "read"
        if cell.kind == "softcap":
            fields["aux"] = f"cap:f32={cap(cell)}"
    elif cell.kind == "softcap":
        fields["softcap"] = cap(cell)
    elif cell.kind == "window":
        fields["window_left"] = ACCURACY_WINDOW[0]
        if cell.causal == "none":
            fields["window_right"] = ACCURACY_WINDOW[1]
    elif cell.case == "alibi":
        fields["alibi"] = 1
    elif cell.case == "deterministic":
        fields["deterministic"] = 1
    return fields
