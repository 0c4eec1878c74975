"""Arrays and meaning of a cell: what Tunesmith is given, what PyTorch computes for it, and a float64 reference."""
import dataclasses
import typing

import torch

import grids

DEVICE = "cuda"


@dataclasses.dataclass
class Arrays:
    inputs: tuple            # in Tunesmith's order, before the output
    output: torch.Tensor
    extra: tuple             # after the output: mask, valid_cols
    fields: dict             # of Tunesmith's problem, beside rows, cols and dtype
    bytes: int               # least traffic, read plus written
    eager: typing.Callable   # () -> result, with PyTorch's own operations
    plain: typing.Callable   # (*plain_inputs) -> result, for torch.compile
    plain_inputs: tuple
    exact: typing.Callable   # (row numbers) -> those rows of the result, float64


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
    """Seeded arrays for a cell without a mask (masks.make for the others)."""
    torch.manual_seed(cell.rows * 1000003 + cell.cols)
    dtype = getattr(torch, cell.dtype)
    x = torch.randn(cell.rows, cell.cols, device=DEVICE, dtype=torch.float32).to(dtype)
    if cell.op in grids.FORWARD:
        plain = softmax if cell.op == "softmax" else log_softmax
        return Arrays((x,), torch.empty_like(x), (), {}, cell.bytes, lambda: plain(x), plain, (x,),
                      lambda rows: plain(x[rows].double()))
    log = cell.op == "log_softmax_backward"
    y = (log_softmax if log else softmax)(x)
    dy = x.normal_()
    eager = torch.ops.aten._log_softmax_backward_data if log else torch.ops.aten._softmax_backward_data
    return Arrays((dy, y), torch.empty_like(y), (), {}, cell.bytes, lambda: eager(dy, y, -1, dtype),
                  log_softmax_backward if log else softmax_backward, (dy, y),
                  lambda rows: exact_backward(cell.op, dy[rows].double(), y[rows].double()))


def some_rows(rows, most=64):
    """Row numbers to check: the first and the last ones, where offsets are largest."""
    if rows <= most:
        return torch.arange(rows, device=DEVICE)
    half = most // 2
    return torch.cat([torch.arange(half, device=DEVICE), torch.arange(rows - half, rows, device=DEVICE)])


def relative_error(got, want):
    """Norm of the difference over the norm; inf when infinities or NaN differ. Both float64."""
    finite = torch.isfinite(want)
    if not bool((torch.where(finite, torch.isfinite(got), got == want)).all()):
        return float("inf")
    difference = torch.where(finite, got - want, torch.zeros_like(want))
    return (difference.norm() / torch.where(finite, want, torch.zeros_like(want)).norm()).item()


def bound(want, dtype, own):
    """Largest relative error allowed. Tunesmith: 1e-6 and twice what rounding the exact result to its dtype costs; peers:
    1e-5 for float32 and 1e-2 for 16 bits, so that none is left out for its approximations."""
    if own:
        return 1e-6 + 2 * relative_error(want.to(dtype).double(), want)
    return 1e-5 if dtype == torch.float32 else 1e-2
