"""Implementations that cross-entropy is compared with, each built for one cell (family.Family.peers).

If a peer offers several ways, the fastest that a user can call counts. Where a peer has no function for the gradient, it is
computed through autograd, as in training.
"""
import importlib

import torch
import torch.nn.functional as F
import triton

import family
from suites import triton_cross_entropy
from suites.cross_entropy_problems import BACKWARD, FORWARD


def torch_loss(logits, targets, reduction):
    return F.cross_entropy(logits, targets, reduction=reduction)


def through_autograd(function, arrays, op):
    """Returns a launch of `function(logits)`, which returns a loss, and of autograd if the gradient is measured."""
    if op == FORWARD:
        return lambda: {"loss": function(arrays.logits)}
    leaf = arrays.logits.detach().requires_grad_()  # the same memory
    with torch.enable_grad():
        kept = function(leaf)
    if op == BACKWARD:
        upstream = arrays.dloss.to(kept.dtype)
        return lambda: {"dlogits": torch.autograd.grad(kept, leaf, upstream, retain_graph=True)[0]}
    ones = torch.ones_like(kept)
    kept = None

    def launch():
        return dict(zip(("loss", "dlogits"), family.by_autograd(function, leaf, ones)))

    return launch


def torch_eager(cell, arrays, timer):
    return through_autograd(lambda x: torch_loss(x, arrays.targets, arrays.reduction), arrays, cell.op)


def torch_compile(cell, arrays, timer):
    import torch._functorch.config
    # The backward pass runs more than once, so the graph must keep what it has saved.
    torch._functorch.config.donated_buffer = False
    torch._dynamo.reset()
    compiled = torch.compile(torch_loss, dynamic=False)
    return through_autograd(lambda x: compiled(x, arrays.targets, arrays.reduction), arrays, cell.op)


def triton_rows(cell, arrays, timer):
    x, targets, cols = arrays.logits, arrays.targets, cell.cols
    if cell.op == BACKWARD:
        dx = arrays.outputs["dlogits"]

        def launcher(block, warps):
            grid = (cell.rows, triton.cdiv(cols, block))

            def launch():
                triton_cross_entropy.backward[grid](dx, x, targets, arrays.lse, arrays.dloss, cols, cols, block,
                                                    num_warps=warps)
            return launch

        return family.fastest_tile(timer, triton_cross_entropy.tiles(cols), launcher)
    mean = arrays.reduction == "mean"
    lse = arrays.outputs["lse"]
    losses = torch.empty_like(lse) if mean else arrays.outputs["loss"]

    def launcher(block, warps):
        def launch():
            if cell.op == FORWARD:
                triton_cross_entropy.forward[(cell.rows,)](losses, lse, x, targets, cols, cols, block, num_warps=warps)
                return None
            triton_cross_entropy.fused_in_place[(cell.rows,)](losses, lse, x, targets, cols, cols,
                                                              1.0 / cell.rows if mean else 1.0, block, num_warps=warps)
            return {"loss": losses.sum(), "lse": lse, "dlogits": x} if mean else None
        return launch

    return family.fastest_tile(timer, triton_cross_entropy.row_tiles(cols), launcher, before=arrays.restore)


def liger(cell, arrays, timer):
    """Builds Liger's loss, whose forward pass writes the gradient over the logits.

    Without a reduction autograd is not called: it would only multiply by ones."""
    if cell.op == BACKWARD:
        return None
    module = importlib.import_module("liger_kernel.ops.cross_entropy")

    def loss_of(x):
        return module.LigerCrossEntropyFunction.apply(x, arrays.targets, None, -100, 0.0, 0.0, arrays.reduction)[0]

    if cell.op == FORWARD or arrays.reduction == "mean":
        return through_autograd(loss_of, arrays, cell.op)
    leaf = arrays.logits.detach().requires_grad_()

    def launch():
        with torch.enable_grad():
            return {"loss": loss_of(leaf).detach(), "dlogits": arrays.logits}

    return launch


def quack(cell, arrays, timer):
    module = importlib.import_module("quack.cross_entropy")
    x, targets = arrays.logits, arrays.targets
    if cell.op == FORWARD:
        return lambda: dict(zip(("loss", "lse"), module.cross_entropy_fwd(x, targets, return_lse=True)))
    if cell.op == BACKWARD:
        return lambda: {"dlogits": module.cross_entropy_bwd(x, targets, arrays.dloss, arrays.lse)}
    if arrays.reduction == "mean":
        return through_autograd(lambda leaf: module.cross_entropy(leaf, targets, reduction="mean", inplace_backward=True),
                                arrays, cell.op)
    return lambda: dict(zip(("loss", "lse", "dlogits"),
                            module.cross_entropy_fwd(x, targets, return_lse=True, return_dx=True, inplace_backward=True)))


PEERS = {"torch": torch_eager, "compile": torch_compile, "triton": triton_rows, "quack": quack, "liger": liger}
NEEDS = {"quack": "quack.cross_entropy", "liger": "liger_kernel.ops.cross_entropy"}
