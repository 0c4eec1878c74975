"""Problems of row operations that a seed draws, so that no figure depends on a grid of ours. Needs only Python."""
import math
import random

from cells import SIZES, Cell

GRID = "sample"
LEAST_COLS, MOST_COLS = 16, 1 << 20
LEAST_BYTES, MOST_BYTES = 32 << 20, 512 << 20
DTYPES = ("float32", "bfloat16")
VECTOR_BYTES = 16


def log_uniform(numbers, least, most):
    return round(math.exp(numbers.uniform(math.log(least), math.log(most))))


def shape(numbers, arrays, element_bytes):
    """Draws (rows, columns). Columns are log-uniform, in half of the cases whole vectors of 16 bytes; rows follow from the
    traffic, bytes read plus written, which is log-uniform, too."""
    cols = log_uniform(numbers, LEAST_COLS, MOST_COLS)
    if numbers.random() < 0.5:
        vector = VECTOR_BYTES // element_bytes
        cols = max(vector, cols // vector * vector)
    traffic = log_uniform(numbers, LEAST_BYTES, MOST_BYTES)
    return math.ceil(traffic / (arrays * cols * element_bytes)), cols


def cells(arrays, seed, count, ops=None, dtypes=None):
    """Returns `count` problems of each operation and dtype. `arrays`: how many arrays each operation reads and writes.

    The shapes of an operation and dtype do not depend on which others are asked for."""
    found = []
    for op in (op for op in arrays if not ops or op in ops):
        for dtype in dtypes or DTYPES:
            numbers = random.Random(f"{seed} {op} {dtype}")
            shapes = [shape(numbers, arrays[op], SIZES[dtype]) for _ in range(count)]
            found += [Cell(GRID, op, dtype, rows, cols) for rows, cols in dict.fromkeys(shapes)]
    return found
