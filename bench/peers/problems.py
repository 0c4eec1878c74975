"""Arrays of a cell of the softmax family: what Tunesmith gets, what PyTorch computes for it, and a float64 reference."""
import dataclasses
import typing

import torch

import family
import grids
import tunesmith
from family import DEVICE


@dataclasses.dataclass(kw_only=True)
class RowArrays(family.Arrays):
    inputs: tuple            # x, or dy and y
    output: torch.Tensor
    eager: typing.Callable   # () -> result, with PyTorch's own operations
    plain: typing.Callable   # (*plain_inputs) -> result, for torch.compile
    plain_inputs: tuple


def row_arrays(cell, inputs, exact, *, extra=(), fields=None, traffic=None, **forms):
    """Returns the arrays of a cell.

    `extra`: Tunesmith's arrays after the output; `exact`: (row numbers) -> those rows of the result in float64; `traffic`:
    minimum bytes, if not all elements move."""
    output = torch.empty_like(inputs[-1])
    return RowArrays(op=cell.op, fields=dict(fields or {}, dtype=tunesmith.dtype_name(output)), inputs=inputs, output=output,
                     operands=(*inputs, output, *extra), outputs={"y": output},
                     bytes=grids.traffic(cell) if traffic is None else traffic,
                     copy_kind="add" if len(inputs) == 2 else "copy",
                     copy_operands=(*inputs, output), exact=lambda rows: {"y": exact(rows)}, **forms)


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax(x):
    return torch.log_softmax(x, -1)


def softmax_backward(dy, y):
    grad, out = dy.float(), y.float()
    return (out * (grad - (grad * out).sum(-1, keepdim=True))).to(y.dtype)


def log_softmax_backward(dy, y):
    grad = dy.float()
    return (grad - torch.exp(y.float()) * grad.sum(-1, keepdim=True)).to(y.dtype)


def exact_backward(op, dy, y):
    if op == "softmax_backward":
        return y * (dy - (dy * y).sum(-1, keepdim=True))
    return dy - torch.exp(y) * dy.sum(-1, keepdim=True)


def make(cell):
    """Returns the seeded arrays of a cell without a mask; masks.make makes the others."""
    torch.manual_seed(cell.rows * 1000003 + cell.cols)
    dtype = getattr(torch, cell.dtype)
    x = torch.randn(cell.rows, cell.cols, device=DEVICE, dtype=torch.float32).to(dtype)
    if cell.op in grids.FORWARD:
        plain = softmax if cell.op == "softmax" else log_softmax
        return row_arrays(cell, (x,), lambda rows: plain(x[rows].double()), eager=lambda: plain(x), plain=plain,
                          plain_inputs=(x,))
    log = cell.op == "log_softmax_backward"
    y = (log_softmax if log else softmax)(x)
    dy = x.normal_()
    eager = torch.ops.aten._log_softmax_backward_data if log else torch.ops.aten._softmax_backward_data
    return row_arrays(cell, (dy, y), lambda rows: exact_backward(cell.op, dy[rows].double(), y[rows].double()),
                      eager=lambda: eager(dy, y, -1, dtype),
                      plain=log_softmax_backward if log else softmax_backward, plain_inputs=(dy, y))
