"""Relative errors of cross-entropy against float64: of the loss, and of the gradient at the target, p - 1. Both lose all their
digits on the rows that a model is sure of, when they are differences of nearly equal numbers.

Inputs: normal; offset, the same plus 1e4; sure_10, sure_15, sure_20.7: the target's logit above the logarithm of the sum of all
other powers by that much, up to p = 1 - 1e-9. All are rounded to the dtype first: the error is that of the arithmetic alone.
"""
import torch
import torch.nn.functional as F

import cross_entropy_problems as problems
import family
import triton_cross_entropy
import tunesmith
from family import DEVICE

INPUTS = ("normal", "offset", "sure_10", "sure_15", "sure_20.7")
NAMES = ("tunesmith", "torch", "compile", "triton")
DTYPES = ("float32", "bfloat16")


def inputs_of(kind, rows, cols, dtype):
    """(logits of the dtype, targets), seeded."""
    torch.manual_seed(cols)
    x, t = torch.randn(rows, cols, device=DEVICE), torch.randint(0, cols, (rows,), device=DEVICE)
    if kind == "offset":
        x += 1e4
    elif kind != "normal":
        others = x.scatter(1, t[:, None], float("-inf")).double()
        x.scatter_(1, t[:, None], (torch.logsumexp(others, -1, keepdim=True) + float(kind.removeprefix("sure_"))).float())
    return x.to(dtype), t


def exact(x, t):
    """(loss, p - 1) of every row, float64, without a difference of nearly equal numbers."""
    wide, column = x.double(), t[:, None]
    picked = wide.gather(1, column)
    odds = torch.logsumexp((wide - picked).scatter(1, column, float("-inf")), -1).exp()  # (1 - p) / p
    return torch.log1p(odds), -odds / (1 + odds)


def by_autograd(function, x, t):
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = function(leaf, t)
        gradient, = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
    return loss.detach(), gradient


def plain(x, t):
    return F.cross_entropy(x, t, reduction="none")


def by_triton(x, t):
    gradient, loss = x.clone(), torch.empty(len(x), device=DEVICE)
    block = min(triton_cross_entropy.LONGEST_TILE, 1 << (x.shape[1] - 1).bit_length())
    triton_cross_entropy.fused_in_place[(len(x),)](loss, torch.empty_like(loss), gradient, t, x.shape[1], x.shape[1], 1.0, block,
                                                   num_warps=32)
    return loss, gradient


def by_tunesmith(engine, stream):
    def run(x, t):
        loss, gradient = torch.full((len(x),), float("nan"), device=DEVICE), torch.full_like(x, float("nan"))
        plan = engine.plan("cross_entropy", rows=x.shape[0], cols=x.shape[1], dtype=tunesmith.dtype_name(x), target_dtype="i64",
                           reduction="none", gradient="separate")
        plan.launcher(x, t, loss, torch.empty_like(loss), gradient, stream=stream)()
        torch.cuda.synchronize()
        return loss, gradient
    return run


def largest(got, want):
    return ((got.double() - want).abs() / want.abs()).max().item()


def measure(engine, stream, shapes, with_compile, say):
    """[cell]: per implementation the largest relative errors of loss and p - 1. Whatever fails is left out and named."""
    works = {"tunesmith": by_tunesmith(engine, stream), "torch": lambda x, t: by_autograd(plain, x, t), "triton": by_triton}
    cells = []
    for dtype in DTYPES:
        for rows, cols in shapes:
            if with_compile:
                torch._dynamo.reset()
                compiled = torch.compile(plain, dynamic=False)
                works["compile"] = lambda x, t: by_autograd(compiled, x, t)
            for kind in INPUTS:
                x, t = inputs_of(kind, rows, cols, getattr(torch, dtype))
                wanted = exact(x, t)
                cell = {"op": problems.FUSED, "dtype": dtype, "rows": rows, "cols": cols, "inputs": kind, "relative": {},
                        "left_out": {}}
                for name in (name for name in NAMES if name in works):
                    try:
                        loss, gradient = works[name](x, t)
                        at_target = gradient.gather(1, t[:, None])[:, 0]
                        cell["relative"][name] = [largest(loss, wanted[0]), largest(at_target, wanted[1])]
                    except Exception as error:
                        cell["left_out"][name] = family.one_line(error)
                        say(f"cross-entropy {dtype} {rows}x{cols} {kind}: {name} left out: {cell['left_out'][name]}")
                cells.append(cell)
    return cells


def summary(cells):
    """Markdown: the largest errors over all shapes, loss / p - 1, per dtype and kind of input."""
    names = [name for name in NAMES if any(name in cell["relative"] for cell in cells)]
    lines = ["| relative error of loss / of p - 1 | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for dtype, kind in dict.fromkeys((cell["dtype"], cell["inputs"]) for cell in cells):
        row = []
        for name in names:
            found = [cell["relative"][name] for cell in cells
                     if (cell["dtype"], cell["inputs"]) == (dtype, kind) and name in cell["relative"]]
            row.append(" / ".join(f"{max(values):.1e}" for values in zip(*found)) if found else "-")
        lines.append(f"| {dtype} {kind} | " + " | ".join(row) + " |")
    return lines
