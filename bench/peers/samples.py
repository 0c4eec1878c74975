"""Problems of row operations that a seed draws, so that no figure depends on a grid of ours. Needs only Python."""
import math
import random

from cells import SIZES, Cell

GRID, SMALL = "sample", "small"
MIN_COLS, MAX_COLS = 16, 1 << 20
# Traffic of the smallest and of the largest problem of each grid, bytes read plus written.
BYTES = {GRID: (32 << 20, 512 << 20), SMALL: (1 << 18, 8 << 20)}
DTYPES = ("float32", "bfloat16")
VECTOR_BYTES = 16


def log_uniform(numbers, least, most):
    return round(math.exp(numbers.uniform(math.log(least), math.log(most))))


def shape(numbers, arrays, element_bytes, min_bytes, max_bytes):
    """Draws (rows, columns). Columns are log-uniform, in half of the cases whole vectors of 16 bytes; a row moves at most
    `max_bytes`. Rows follow from the traffic, bytes read plus written, which is log-uniform, too."""
    cols = log_uniform(numbers, MIN_COLS, min(MAX_COLS, max_bytes // (arrays * element_bytes)))
    if numbers.random() < 0.5:
        vector = VECTOR_BYTES // element_bytes
        cols = max(vector, cols // vector * vector)
    row_bytes = arrays * cols * element_bytes
    traffic = log_uniform(numbers, max(min_bytes, row_bytes), max_bytes)
    return min(math.ceil(traffic / row_bytes), max_bytes // row_bytes), cols


def cells(arrays, seed, count, ops=None, dtypes=None, grid=GRID):
    """Returns `count` problems of each operation and dtype. `arrays`: how many arrays each operation reads and writes;
    `grid`: of BYTES.

    The shapes of an operation and dtype do not depend on which others are asked for."""
    found = []
    for op in (op for op in arrays if not ops or op in ops):
        for dtype in dtypes or DTYPES:
            numbers = random.Random(f"{seed} {op} {dtype}" + ("" if grid == GRID else f" {grid}"))
            shapes = [shape(numbers, arrays[op], SIZES[dtype], *BYTES[grid]) for _ in range(count)]
            found += [Cell(grid, op, dtype, rows, cols) for rows, cols in dict.fromkeys(shapes)]
    return found
