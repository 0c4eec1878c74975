"""Problems of the softmax family that are measured: grids of shapes by name. targets.py has a target for most of them."""
from cells import SIZES, Cell

FORWARD = ("softmax", "log_softmax")
BACKWARD = ("softmax_backward", "log_softmax_backward")
OPS = FORWARD + BACKWARD
MIB = 1 << 20

MAIN_COLS = sorted([2**k for k in range(7, 16)] + [6144, 12672])
LONG_COLS = [65536, 131072, 262144]
MASKS = ("causal", "valid_cols", "add", "keep", "keep_rows")


def arrays(op):
    """Returns the number of arrays that move: x and y, or dy, y and dx."""
    return 3 if op in BACKWARD else 2


def traffic(cell):
    """Returns the minimum traffic without a mask, bytes read plus written."""
    return arrays(cell.op) * cell.rows * cell.cols * SIZES[cell.dtype]


def rows_for(traffic, op, dtype, cols):
    """Returns the number of rows that move `traffic` bytes."""
    return max(1, traffic // (arrays(op) * cols * SIZES[dtype]))


def _main(op, dtype):
    return [(max(4096, rows_for(64 * MIB, op, dtype, cols)), cols) for cols in MAIN_COLS]


def _long(op, dtype):
    return [(4096, cols) for cols in LONG_COLS]


def _unaligned(op, dtype):
    return [(min(4096, 1024 * MIB // (cols * SIZES[dtype])), cols) for cols in (781, 50257, 151937)]


def _few(op, dtype):
    return [(8, 131072), (16, 262144), (1, 1048576)]


def _issue(op, dtype):
    return [(2048, 50304), (600, 151936), (128, 524288), (8, 131072), (100000, 77), (50000, 300), (3000, 20011)]


def _cliffs(op, dtype):
    return [(rows_for(64 * MIB, op, dtype, cols), cols) for cols in range(64, 16384 + 1, 64)]


def _quick(op, dtype):
    return [(512, 1000), (64, 8192)]


# name: (ops, dtypes, shapes of an op and dtype)
GRIDS = {
    "main": (FORWARD, ("float32", "bfloat16", "float16"), _main),
    "long": (FORWARD, ("float32", "bfloat16"), _long),
    "unaligned": (FORWARD, ("float32", "bfloat16"), _unaligned),
    "few": (FORWARD, ("float32", "bfloat16"), _few),
    "issue": (("softmax",), ("float32", "bfloat16"), _issue),  # shapes on which the share was low
    "backward": (BACKWARD, ("float32", "bfloat16"), lambda op, dtype: _main(op, dtype) + _long(op, dtype)),
    "cliffs": (("softmax",), ("float32", "bfloat16"), _cliffs),
    "masks": (("softmax",), ("float32", "bfloat16"), None),
    "quick": (OPS, ("float32", "bfloat16"), _quick),
}


def cells(grid, ops=None, dtypes=None):
    """Returns the problems of a grid. `ops`: only these (`cliffs` takes any op); `dtypes`: instead of the grid's own."""
    grid_ops, grid_dtypes, shapes = GRIDS[grid]
    if grid == "cliffs" and ops:
        grid_ops = ops
    found = []
    for op in (op for op in grid_ops if not ops or op in ops):
        for dtype in dtypes or grid_dtypes:
            if grid == "masks":
                found += [Cell(grid, op, dtype, 16384, 4096, mask) for mask in MASKS]
            else:
                found += [Cell(grid, op, dtype, rows, cols) for rows, cols in shapes(op, dtype)]
    return found
