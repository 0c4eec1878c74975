"""Masked softmax: arrays, PyTorch's formulas and the minimum traffic of the cases of grids.MASKS.

causal      square score matrices: row r of a matrix sees columns 0 to r; the part above the diagonal is not read
valid_cols  a random number of leading columns per row; the rest is not read
add         x + mask with a mask per batch and query, broadcast over the heads, a tenth of it -inf
keep        the same with booleans
keep_rows   a boolean mask per batch, broadcast over heads and queries (padding)
"""
import torch

import problems
from cells import SIZES
from family import DEVICE

BATCH, HEADS = 2, 8


def causal(x):
    column = torch.arange(x.shape[1], device=x.device)
    row = torch.arange(x.shape[0], device=x.device) % x.shape[1]
    return torch.softmax(torch.where(column <= row[:, None], x, float("-inf")), -1)


def valid_cols(x, valid):
    column = torch.arange(x.shape[1], device=x.device)
    return torch.softmax(torch.where(column < valid[:, None], x, float("-inf")), -1)


def add(x, mask):
    scores = x.view(mask.shape[0], HEADS, -1, x.shape[1])
    return torch.softmax(scores + mask[:, None], -1).view(x.shape)


def keep(x, mask):
    scores = x.view(mask.shape[0], HEADS, -1, x.shape[1])
    return torch.softmax(torch.where(mask[:, None], scores, float("-inf")), -1).view(x.shape)


def make(cell):
    """Returns the seeded arrays of a masked cell. Masks that only PyTorch needs are made in advance."""
    torch.manual_seed(cell.cols)
    dtype, size, cols = getattr(torch, cell.dtype), SIZES[cell.dtype], cell.cols
    x = torch.randn(cell.rows, cols, device=DEVICE).to(dtype)
    queries = cell.rows // (BATCH * HEADS)
    column = torch.arange(cols, device=DEVICE)

    def seen(rows):  # float64 scores of some rows with a mask per row
        return torch.where(hidden[rows], float("-inf"), x[rows].double())

    def arrays(extra, fields, read, eager, plain, exact):
        return problems.row_arrays(cell, (x,), lambda rows: torch.softmax(exact(rows), -1), extra=extra, fields=fields,
                                   traffic=int(read + cell.rows * cols * size), eager=eager, plain=plain,
                                   plain_inputs=(x, *extra))

    if cell.case in ("causal", "valid_cols"):
        if cell.case == "causal":
            valid = torch.arange(cell.rows, device=DEVICE, dtype=torch.int32) % cols + 1
        else:
            valid = torch.randint(1, cols + 1, (cell.rows,), device=DEVICE, dtype=torch.int32)
        hidden = column >= valid[:, None]
        read = int(valid.sum().item()) * size
        eager = lambda: torch.softmax(x.masked_fill(hidden, float("-inf")), -1)
        if cell.case == "causal":
            return arrays((), {"causal": 1}, read, eager, causal, seen)
        return arrays((valid,), {"valid_cols": 1}, read + valid.numel() * 4, eager, valid_cols, seen)

    mask_rows = 1 if cell.case == "keep_rows" else queries
    kept = torch.rand(BATCH, mask_rows, cols, device=DEVICE) < 0.9
    kept[..., 0] = True
    fields = {"mask": "keep", "mask_inner": queries, "mask_middle": HEADS, "mask_middle_stride": 0,
              "mask_row_stride": 0 if mask_rows == 1 else cols, "mask_outer_stride": mask_rows * cols}
    read = x.numel() * size

    def place(rows):  # index of the mask of each row
        return rows // (HEADS * queries), rows % mask_rows

    scores = x.view(BATCH, HEADS, queries, cols)
    if cell.case == "add":
        bias = torch.where(kept, torch.randn(kept.shape, device=DEVICE), float("-inf")).to(dtype)
        return arrays((bias,), dict(fields, mask="add"), read + bias.numel() * size,
                      lambda: torch.softmax(scores + bias[:, None], -1).view(x.shape), add,
                      lambda rows: x[rows].double() + bias[place(rows)].double())
    dropped = ~kept[:, None]
    made = arrays((kept,), fields, read + kept.numel(),
                  lambda: torch.softmax(scores.masked_fill(dropped, float("-inf")), -1).view(x.shape), keep,
                  lambda rows: torch.where(kept[place(rows)], x[rows].double(), float("-inf")))
    return made
