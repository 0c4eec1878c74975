"""Which problems the side-by-side measures: grids of shapes by name, in the terms of the targets that report.py checks."""
import dataclasses

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
FORWARD = ("softmax", "log_softmax")
BACKWARD = ("softmax_backward", "log_softmax_backward")
OPS = FORWARD + BACKWARD
MIB = 1 << 20

MAIN_COLS = sorted([2**k for k in range(7, 16)] + [6144, 12672])
LONG_COLS = [65536, 131072, 262144]
MASKS = ("causal", "valid_cols", "add", "keep", "keep_rows")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One problem. `mask` names a case of masks.py or is ""."""
    grid: str
    op: str
    dtype: str
    rows: int
    cols: int
    mask: str = ""

    @property
    def arrays(self):
        """Arrays that move: x and y, or dy, y and dx."""
        return 3 if self.op in BACKWARD else 2

    @property
    def bytes(self):
        """Least traffic without a mask, bytes read plus written."""
        return self.arrays * self.rows * self.cols * SIZES[self.dtype]

    def __str__(self):
        return f"{self.op} {self.dtype} {self.rows}x{self.cols}" + (f" {self.mask}" if self.mask else "")


def rows_for(traffic, op, dtype, cols):
    """Rows that move `traffic` bytes."""
    arrays = 3 if op in BACKWARD else 2
    return max(1, traffic // (arrays * cols * SIZES[dtype]))


def _main(op, dtype):
    return [(max(4096, rows_for(64 * MIB, op, dtype, cols)), cols) for cols in MAIN_COLS]


def _long(op, dtype):
    return [(4096, cols) for cols in LONG_COLS]


def _unaligned(op, dtype):
    return [(min(4096, 1024 * MIB // (cols * SIZES[dtype])), cols) for cols in (781, 50257, 151937)]


def _few(op, dtype):
    return [(16, 262144), (1, 1048576)]


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
    "backward": (BACKWARD, ("float32", "bfloat16"), lambda op, dtype: _main(op, dtype) + _long(op, dtype)),
    "cliffs": (("softmax",), ("float32", "bfloat16"), _cliffs),
    "masks": (("softmax",), ("float32", "bfloat16"), None),
    "quick": (OPS, ("float32", "bfloat16"), _quick),
}


def cells(grid, ops=None, dtypes=None):
    """The problems of a grid, those of the given ops and dtypes only. `cliffs` takes any op, the others their own."""
    grid_ops, grid_dtypes, shapes = GRIDS[grid]
    if grid == "cliffs" and ops:
        grid_ops = ops
    found = []
    for op in grid_ops:
        for dtype in grid_dtypes:
            if (ops and op not in ops) or (dtypes and dtype not in dtypes):
                continue
            if grid == "masks":
                found += [Cell(grid, op, dtype, 16384, 4096, mask) for mask in MASKS]
            else:
                found += [Cell(grid, op, dtype, rows, cols) for rows, cols in shapes(op, dtype)]
    return found
