"""Shipped row programs that are measured: their arrays, hand-written kernels of the same operations, and grids of shapes by
name. Needs only Python.

norms            RMSNorm and LayerNorm of 64 to 262144 columns, with residual add, with weights around zero
softmax          softmax next to the hand-written kernel, log_softmax, softmin, dropout
norms_quantized  norms to e4m3 or int8 with a scale for each row, or for each 128 columns
row_quantize     a row to e4m3 with its scale
activations      SwiGLU, GeGLU
gates            top-k gates, sampling
gradients        of both norms
others           losses, cosine similarity

The grids are in the order in which a run needs them most.
"""
import os

from cells import SHORT, ProgramCell

OP = "row_program"
BF16, F32 = "bfloat16", "float32"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "templates", "row_program", "programs")
GROUP = 128  # columns of a scale of the programs "..._blocks"


def _quantized(name, inputs):
    """Returns the programs of a norm that quantize its result, with a scale for each row or for each group."""
    return {f"{name}_{type}{blocks}": (inputs, [type, "f32g" if blocks else "f32s"])
            for type in ("e4m3", "i8") for blocks in ("", "_blocks")}


# program: (its inputs, "r" of rows and columns, "p" such probabilities, "c" of columns, "b" float32 of columns, "t" a class for
# each row, "l" a float32 for each row; its outputs with their types). "" is the type of the cell; after a type, "s" is a value for each row, "c" one for
# each column, "k" eight for each row, "g" one for each GROUP columns of a row.
PROGRAMS = {
    "rms_norm": ("rc", [""]),
    "rms_norm_unit_offset": ("rc", [""]),
    **_quantized("rms_norm", "rc"),
    "layer_norm": ("rcc", [""]),
    "layer_norm_unit_offset": ("rcc", [""]),
    **_quantized("layer_norm", "rcc"),
    "add_rms_norm": ("rrc", ["", ""]),
    "add_layer_norm": ("rrcc", ["", ""]),
    "add_rms_norm_e4m3": ("rrc", ["", "f32s", "e4m3"]),
    "swiglu": ("rr", [""]),
    "geglu": ("rr", [""]),
    "row_quantize": ("r", ["e4m3", "f32s"]),
    "softmax": ("r", [""]),
    "softmin": ("r", [""]),
    "log_softmax": ("r", [""]),
    "softmax_dropout": ("r", [""]),
    "cosine_similarity": ("rr", ["f32s"]),
    "gumbel_sampling": ("r", ["i32s"]),
    "merge_attention": ("rrll", ["", "f32s"]),
    "cross_entropy": ("rt", ["f32s", "f32s"]),
    "soft_cross_entropy": ("rp", ["f32s", "f32s"]),
    "topk_gate": ("r", ["f32k", "i32k"]),
    "topk_gate_softmax": ("r", ["f32k", "i32k"]),
    "topk_gate_sigmoid": ("rb", ["f32k", "i32k"]),
    "rms_norm_gradient": ("rcr", ["", "c"]),
    "layer_norm_gradient": ("rcr", ["", "c", "c"]),
}
GRADIENTS = ("rms_norm_gradient", "layer_norm_gradient")
FULL = ("", "e4m3", "i8")  # types of outputs of rows and columns
NUMBERS = {"softmax_dropout": "seed=7", "gumbel_sampling": "seed=7"}  # their random numbers are not a peer's
# Operations with the name of a shipped program; all other programs are operations of their own by name.
NAMED_ALIKE = ("softmax", "log_softmax", "rms_norm", "cross_entropy")
HAND_WRITTEN = {"softmax": ("softmax", {}), "log_softmax": ("log_softmax", {}),
                "cross_entropy": ("cross_entropy", {"reduction": "none", "target_dtype": "i32"})}

ROWS = [(32768, 1024), (8192, 4096), (4096, 8192), (2048, 16384), (1024, 32768)]
LONG = [(512, 65536), (256, 131072), (128, 262144)]
HEADS = [(524288, 64), (262144, 128), (131072, 256)]  # rows as short as a head of attention
GRADIENT_ROWS = [(262144, 128), (32768, 1024), (8192, 4096), (4096, 8192), (1024, 32768)]


def _shapes(programs, shapes, dtype=BF16):
    return [(program, rows, cols, dtype) for program in programs for rows, cols in shapes]


GRIDS = {
    "norms": _shapes(("rms_norm", "layer_norm"), HEADS + ROWS + LONG)
    + _shapes(("add_rms_norm",), [(8192, 4096), (2048, 16384)])
    + _shapes(("add_layer_norm", "rms_norm_unit_offset", "layer_norm_unit_offset"), [(8192, 4096)]),
    "softmax": _shapes(("softmax",), [(32768, 1024), (8192, 4096), (1024, 32768), (512, 65536), (256, 131072)])
    + _shapes(("softmax",), [(16384, 1024), (4096, 4096), (1024, 32768), (512, 65536), (256, 131072)], F32)
    + _shapes(("log_softmax", "softmin", "softmax_dropout"), [(8192, 4096)]),
    "norms_quantized": _shapes(("rms_norm_e4m3", "layer_norm_e4m3", "add_rms_norm_e4m3", "rms_norm_i8", "layer_norm_i8",
                                "rms_norm_e4m3_blocks", "layer_norm_e4m3_blocks", "rms_norm_i8_blocks", "layer_norm_i8_blocks"),
                               [(8192, 4096)]),
    "row_quantize": _shapes(("row_quantize",), [(8192, 4096)]),
    "activations": _shapes(("swiglu", "geglu"), [(8192, 8192)]),
    "gates": _shapes(("topk_gate", "topk_gate_softmax", "topk_gate_sigmoid"), [(65536, 256)], F32)
    + _shapes(("gumbel_sampling",), [(2048, 32000)]),
    "gradients": _shapes(GRADIENTS, GRADIENT_ROWS),
    "others": _shapes(("cross_entropy", "soft_cross_entropy"), [(8192, 32000)])
    + _shapes(("cosine_similarity",), [(8192, 4096)]) + _shapes(("merge_attention",), [(262144, 128)]),
}

# Seconds, for estimates: of a run's start; of a cell; of compiling a tuned kernel; of a peer's kernel without and with --jobs.
START_S, CELL_S, KERNEL_S, PEER_S, PEER_AHEAD_S = 15, 0.6, 0.3, 3.0, 0.25


def cells(*grids):
    """Returns the problems of some grids; of all without a name."""
    return [ProgramCell(grid, OP, dtype, rows, cols, program) for grid in grids or GRIDS
            for program, rows, cols, dtype in GRIDS[grid]]


def source(program):
    """Returns the text of a shipped program."""
    with open(os.path.join(FOLDER, program + ".row"), encoding="utf-8") as file:
        return file.read()


def problem(cell):
    """Returns (op, fields) of Tunesmith's problem."""
    fields = dict(cell.fields, dtype=SHORT[cell.dtype])
    fields.update({"numbers": NUMBERS[cell.case]} if cell.case in NUMBERS else {})
    return (OP, dict(fields, program=source(cell.case))) if cell.case in NAMED_ALIKE else (cell.case, fields)


def hand_written(cell):
    """Returns (op, fields) of the hand-written kernel of the same operation; None without one."""
    if cell.case not in HAND_WRITTEN:
        return None
    op, fields = HAND_WRITTEN[cell.case]
    fields = dict(fields, **cell.fields, dtype=SHORT[cell.dtype])
    return op, dict(fields, weight_dtype=fields["dtype"]) if op == "rms_norm" else fields


def copy_of(cell):
    """Returns (op, fields) of a program that reads and writes the same arrays [row, col], or sums what it reads if there are
    none to write. It has no scales of groups, 1% of the bytes of a norm that has them."""
    inputs, outputs = PROGRAMS[cell.case]
    reads = [f"x{i}" for i, kind in enumerate(inputs) if kind in "rp"]
    writes = [f"y{i} : {type or 'float'}" for i, type in enumerate(outputs) if type in FULL]
    lines = [f"in {', '.join(reads)} : float[row, col]"]
    lines += [f"out {write}[row, col] = {' + '.join(reads)}" for write in writes]
    if not writes:
        lines += [f"sum s = {' + '.join(reads)}", "out y : f32[row] = s"]
    return OP, dict(cell.fields, dtype=SHORT[cell.dtype], program="\n".join(lines) + "\n")


def kernels_to_tune(some):
    """Returns the number of Tunesmith's kernels that a run of these cells tunes: each problem once."""
    found = {repr(of) for cell in some for of in (problem(cell), copy_of(cell), hand_written(cell)) if of}
    return len(found)


def estimate(some, peers, tune_budget, jobs=0):
    """Returns about how many seconds a run of these cells takes. `peers`: their number; most of them have not all programs, and
    tuning may end before its budget, so that a run is usually shorter."""
    each = CELL_S + peers * (PEER_AHEAD_S if jobs else PEER_S)
    return START_S + len(some) * each + kernels_to_tune(some) * (tune_budget + KERNEL_S)
