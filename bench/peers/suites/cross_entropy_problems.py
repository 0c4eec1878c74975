"""Arrays of a cell of cross-entropy: what Tunesmith gets, and a float64 reference."""
import dataclasses

import torch

import family
import tunesmith
from cells import SIZES
from family import DEVICE

FORWARD, FUSED, BACKWARD = "cross_entropy", "cross_entropy_fused", "cross_entropy_backward"
OPS = (FORWARD, FUSED, BACKWARD)
EXACT_ROWS = 64  # rows that the float64 reference holds at once


@dataclasses.dataclass(kw_only=True)
class LossArrays(family.Arrays):
    logits: torch.Tensor
    targets: torch.Tensor
    reduction: str               # none or mean
    lse: torch.Tensor = None     # backward: from the forward pass
    dloss: torch.Tensor = None   # backward: one per row


def exact_loss(logits, targets):
    """Returns (loss, lse) of every row in float64."""
    parts = []
    for begin in range(0, len(logits), EXACT_ROWS):
        x = logits[begin:begin + EXACT_ROWS].double()
        lse = torch.logsumexp(x, -1)
        parts.append((lse - x.gather(1, targets[begin:begin + EXACT_ROWS, None])[:, 0], lse))
    return [torch.cat(part) for part in zip(*parts)]


def exact_gradient(logits, targets, factor):
    """Returns factor * (softmax(logits) - one_hot(targets)) in float64. `factor`: a number, or (rows, 1)."""
    x = logits.double()
    # 1 - p of the target is the sum of the other probabilities; the difference would lose its digits if p is almost 1.
    gradient = torch.softmax(x, -1).scatter_(1, targets[:, None], 0.0)
    gradient.scatter_(1, targets[:, None], -gradient.sum(-1, keepdim=True))
    return gradient * factor


def by_target(dlogits, targets):
    """Splits the gradient: near -1 at the targets, near 0 elsewhere. A norm of both would hide errors of the second part."""
    column = targets[:, None]
    return {"dlogits.target": dlogits.gather(1, column), "dlogits.others": dlogits.scatter(1, column, 0.0)}


def observer(targets):
    """Returns Arrays.observe of a cell with these targets."""
    def observe(results, rows):
        parts = {}
        for name, array in results.items():
            if name == "dlogits":
                parts.update(by_target(array[rows].double(), targets[rows]))
            else:
                parts[name] = (array.reshape(1) if array.numel() == 1 else array[rows]).double()
        return parts
    return observe


def random_logits(rows, cols, dtype):
    """Returns standard normal logits, made in parts: a float32 copy would be twice as large as a 16-bit array."""
    x = torch.empty(rows, cols, device=DEVICE, dtype=dtype)
    for part in x.split(1024):
        part.copy_(torch.randn(part.shape, device=DEVICE))
    return x


def make(cell):
    """Returns the seeded arrays of a cell."""
    torch.manual_seed(cell.rows * 1000003 + cell.cols)
    x = random_logits(cell.rows, cell.cols, getattr(torch, cell.dtype))
    t = torch.randint(0, cell.cols, (cell.rows,), device=DEVICE)
    reduction = cell.case or "none"
    matrix, per_row = cell.rows * cell.cols * SIZES[cell.dtype], cell.rows * 4
    fields = {"dtype": tunesmith.dtype_name(x), "target_dtype": "i64", "reduction": reduction}
    common = {"logits": x, "targets": t, "reduction": reduction, "observe": observer(t),
              # A logarithm near 10 has a rounding error of 5e-7 in float32; so have exponentials of differences with it.
              "own_error": 4e-6,
              # PyTorch rounds the logarithms of a 16-bit softmax to 16 bits before it takes their exponentials.
              "peer_error": {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-2}}
    if cell.op == BACKWARD:
        return backward(x, t, fields, common, 2 * matrix + 4 * per_row)
    loss = torch.empty(1 if reduction == "mean" else cell.rows, device=DEVICE, dtype=torch.float32)
    lse = torch.empty(cell.rows, device=DEVICE, dtype=torch.float32)
    if cell.op == FORWARD:
        def exact(rows):
            return dict(zip(("loss", "lse"), exact_loss(x[rows], t[rows])))

        return LossArrays(op="cross_entropy", fields=fields, operands=(x, t, loss, lse), outputs={"loss": loss, "lse": lse},
                          bytes=matrix + 4 * per_row, copy_kind="read", copy_operands=(x,), exact=exact, **common)
    return fused(x, t, loss, lse, fields, common, 2 * matrix + 4 * per_row)


def fused(x, t, loss, lse, fields, common, traffic):
    """Returns arrays whose gradient replaces the logits. A copy restores the logits between launches, outside of the timed
    part."""
    original, mean = x.clone(), common["reduction"] == "mean"

    def exact(rows):
        losses, all_lse = exact_loss(original, t) if mean else exact_loss(original[rows], t[rows])
        wanted = exact_gradient(original[rows], t[rows], 1 / len(t) if mean else 1.0)
        return {"loss": losses.mean().reshape(1) if mean else losses, "lse": all_lse[rows] if mean else all_lse,
                **by_target(wanted, t[rows])}

    return LossArrays(op="cross_entropy", fields=dict(fields, gradient="in_place"), operands=(x, t, loss, lse, x),
                      outputs={"loss": loss, "lse": lse, "dlogits": x}, in_place="dlogits", restore=lambda: x.copy_(original),
                      bytes=traffic, copy_kind="in_place", copy_operands=(x,), exact=exact, **common)


def backward(x, t, fields, common, traffic):
    lse = torch.cat([torch.logsumexp(part.double(), -1) for part in x.split(EXACT_ROWS)]).float()
    dloss = torch.rand(len(t), device=DEVICE) + 0.5
    dlogits = torch.empty_like(x)
    return LossArrays(op="cross_entropy_backward", fields=dict(fields, dloss="row"), operands=(x, t, lse, dloss, dlogits),
                      outputs={"dlogits": dlogits}, bytes=traffic, copy_kind="copy", copy_operands=(x, dlogits),
                      exact=lambda rows: by_target(exact_gradient(x[rows], t[rows], dloss[rows, None].double()), t[rows]),
                      lse=lse, dloss=dloss, **common)
