"""Relative errors of cross-entropy against float64: of the loss, and of the gradient at the target, p - 1. If computed as
differences of nearly equal numbers, both lose all their digits on rows whose target is nearly certain.

Inputs: normal; offset, the same plus 1e4; sure_10, sure_15, sure_20.7: the target's logit exceeds the logarithm of the sum
of the other exponentials by that much, up to p = 1 - 1e-9. All are rounded to the dtype first, so that only the arithmetic
has errors.
"""
import torch
import torch.nn.functional as F

from suites import cross_entropy_problems as problems
import family
from suites import triton_cross_entropy
import tunesmith
from family import DEVICE

INPUTS = ("normal", "offset", "sure_10", "sure_15", "sure_20.7")
NAMES = ("tunesmith", "torch", "compile", "triton")
DTYPES = ("float32", "bfloat16")


def inputs_of(kind, rows, cols, dtype):
    """Returns seeded (logits of the dtype, targets)."""
    torch.manual_seed(cols)
    x, t = torch.randn(rows, cols, device=DEVICE), torch.randint(0, cols, (rows,), device=DEVICE)
    if kind == "offset":
        x += 1e4
    elif kind != "normal":
        others = x.scatter(1, t[:, None], float("-inf")).double()
        x.scatter_(1, t[:, None], (torch.logsumexp(others, -1, keepdim=True) + float(kind.removeprefix("sure_"))).float())
    return x.to(dtype), t


def exact(x, t):
    """Returns (loss, p - 1) of every row in float64, without a difference of nearly equal numbers."""
    wide, column = x.double(), t[:, None]
    picked = wide.gather(1, column)
    odds = torch.logsumexp((wide - picked).scatter(1, column, float("-inf")), -1).exp()  # (1 - p) / p
    return torch.log1p(odds), -odds / (1 + odds)


def by_autograd(function, x, t):
    return family.by_autograd(lambda leaf: function(leaf, t), x.detach().requires_grad_())


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
    """Returns [cell] with the largest relative errors of loss and p - 1 per implementation. Failures are left out and
    named."""
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
