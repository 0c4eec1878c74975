"""Problems of attention and their cost. Needs only Python.

forward   bf16, 16384 tokens, 2048 elements over all heads: head_dim 64, 128, 256; 512 to 16384 positions; full and causal
decode    one query per sequence, head_dim 128: K and V are the traffic
mods      4096 positions, head_dim 64 and 128, the modifications of MODS
accuracy  small and odd shapes, checked by FlashAttention's criterion, not timed
"""
import pathlib

from cells import SIZES, AttentionCell

OP = "attention"
TOKENS, HIDDEN = 16384, 2048
HEAD_DIMS = (64, 128, 256)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
# batch, heads, kv_heads, seq_kv
DECODE = ((1, 32, 32, 8192), (1, 32, 8, 8192), (1, 32, 8, 65536), (8, 32, 8, 8192), (32, 32, 32, 4096), (64, 32, 8, 2048))
WINDOW, DOCUMENT, SOFTCAP = 1024, 1024, 30.0
# Modifications and their causal mask: a sliding window only looks back.
MODS = (("", "none"), ("", "bottom-right"), ("window", "bottom-right"), ("document", "none"), ("alibi", "none"),
        ("softcap", "none"), ("alibi snippet", "none"), ("softcap snippet", "none"),
        ("document snippet", "none"), ("document snippet without block mask", "none"))
# Modifications that are also timed against the plain kernel of the same shape.
MODIFIED = ("document", "alibi", "softcap")
# The snippet of a modification: the examples that Tunesmith ships.
SNIPPETS = {"alibi": ("score_mod", "alibi.cu"), "softcap": ("score_mod", "softcap.cu"),
         "document": ("mask_mod", "document_mask.cu")}
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "api" / "examples" / "mods"
# seq_q, seq_kv: some of FlashAttention's tests, and a few tiles
ODD_LENGTHS = ((1, 1), (64, 128), (113, 203), (239, 1), (799, 3), (512, 768))
ODD_HEAD_DIMS = (40, 64, 128, 256)


def _forward(dtype):
    return [AttentionCell("forward", OP, dtype, TOKENS // length, HIDDEN // head_dim, HIDDEN // head_dim, length, length,
                          head_dim, causal)
            for head_dim in HEAD_DIMS for causal in ("none", "bottom-right") for length in LENGTHS]


def _decode(dtype):
    return [AttentionCell("decode", OP, dtype, batch, heads, kv_heads, 1, length, 128)
            for batch, heads, kv_heads, length in DECODE]


def _mods(dtype):
    return [AttentionCell("mods", OP, dtype, 4, HIDDEN // head_dim, HIDDEN // head_dim, 4096, 4096, head_dim, causal, case)
            for head_dim in (64, 128) for case, causal in MODS]


def _accuracy(dtype):
    return [AttentionCell("accuracy", OP, dtype, 2, 4, 4 if causal == "none" else 2, seq_q, seq_kv, head_dim, causal)
            for head_dim in ODD_HEAD_DIMS for causal in ("none", "bottom-right") for seq_q, seq_kv in ODD_LENGTHS]


def _quick(dtype):
    return [AttentionCell("quick", OP, dtype, 2, 4, 4, 512, 512, 64, causal) for causal in ("none", "bottom-right")]


GRIDS = {"forward": _forward, "decode": _decode, "mods": _mods, "accuracy": _accuracy, "quick": _quick}


def cells(grid, ops=None, dtypes=None):
    """Returns the problems of a grid, in bf16 by default."""
    return [cell for dtype in dtypes or ("bfloat16",) for cell in GRIDS[grid](dtype)]


def pairs(cell):
    """Returns the visible pairs of a query and a key per head and sequence; half of all for a causal mask, as is
    customary."""
    if cell.kind == "window":
        return sum(min(query, WINDOW) + 1 for query in range(cell.seq_q))
    if cell.kind == "document":
        return cell.seq_q * DOCUMENT
    return cell.seq_q * cell.seq_kv / (1 if cell.causal == "none" else 2)


def flops(cell):
    """Returns the operations of the two matrix products."""
    return 4 * cell.batch * cell.heads * pairs(cell) * cell.head_dim


def kv_bytes(cell):
    return 2 * cell.batch * cell.kv_heads * cell.seq_kv * cell.head_dim * SIZES[cell.dtype]


def own_fields(cell):
    """Returns the fields of Tunesmith's problem except its dtype.

    A modification is a case in MODS and its fields here, built in or a snippet; attention_problems.modified has its formula.
    The block mask of a document snippet is given, as for flex_attention, or computed at every launch ("without block
    mask")."""
    fields = dict(cell.fields, layout="bshd")
    if cell.is_snippet:
        function, example = SNIPPETS[cell.kind]
        fields[function] = (EXAMPLES / example).read_text()
        if cell.kind == "softcap":
            fields["aux"] = f"cap:f32={SOFTCAP}"
        if cell.case == "document snippet":
            fields["block_mask"] = "read"
        return fields
    if cell.case == "window":
        fields["window_left"] = WINDOW
    elif cell.case == "document":  # packed documents of all sequences
        documents, tokens = cell.batch * cell.seq_q // DOCUMENT, cell.batch * cell.seq_q
        fields.update(batch=documents, seq_q=DOCUMENT, seq_kv=DOCUMENT, varlen=1, total_q=tokens, total_kv=tokens)
    elif cell.case == "alibi":
        fields["alibi"] = 1
    elif cell.case == "softcap":
        fields["softcap"] = SOFTCAP
    return fields
