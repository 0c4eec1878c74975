"""Implementations that the softmax family is compared with, each built for one cell (family.Family.peers)."""
import importlib

import torch

import family
import grids
from suites import triton_rows


def of(result):
    """Returns the result of an implementation that allocates its output."""
    return {"y": result}


def torch_eager(cell, arrays, timer):
    return lambda: of(arrays.eager())


def torch_compile(cell, arrays, timer):
    # Without earlier shapes, a call has fewer guards to check.
    torch._dynamo.reset()
    function, inputs = torch.compile(arrays.plain, dynamic=False), arrays.plain_inputs
    return lambda: of(function(*inputs))


def _triton(cell, arrays, timer, kernel, tiles):
    """Builds a kernel with its fastest tile and number of warps."""
    if cell.case or not tiles:
        return None
    log, grid, cols = cell.op.startswith("log"), (cell.rows,), cell.cols
    operands = (arrays.output, *arrays.inputs)

    def launcher(block, warps):
        return lambda: void(kernel[grid](*operands, cols, cols, log, block, num_warps=warps))

    return family.fastest_tile(timer, tiles, launcher)


def void(_):
    """Drops the compiled kernel that Triton's launches return."""


def triton_whole(cell, arrays, timer):
    kernel = triton_rows.forward_whole if cell.op in grids.FORWARD else triton_rows.backward_whole
    return _triton(cell, arrays, timer, kernel, triton_rows.whole_row_tiles(cell.cols))


def triton_loop(cell, arrays, timer):
    kernel = triton_rows.forward_two_pass if cell.op in grids.FORWARD else triton_rows.backward_two_pass
    return _triton(cell, arrays, timer, kernel, triton_rows.loop_tiles(cell.cols))


def quack(cell, arrays, timer):
    if cell.case or not cell.op.startswith("softmax"):
        return None
    module = importlib.import_module("quack.softmax")
    if cell.op == "softmax":
        return lambda: of(module.softmax_fwd(*arrays.inputs))
    return lambda: of(module.softmax_bwd(*arrays.inputs))


def liger(cell, arrays, timer):
    if cell.case or not cell.op.startswith("softmax"):
        return None
    module = importlib.import_module("liger_kernel.ops.softmax")
    if cell.op == "softmax":
        return lambda: of(module.LigerSoftmaxFunction.apply(*arrays.inputs))
    dy, y = arrays.inputs
    settings = module._softmax_forward(y)[1:]
    return lambda: of(module._softmax_backward(dy, y, *settings))


PEERS = {"torch": torch_eager, "compile": torch_compile, "triton_whole": triton_whole, "triton_loop": triton_loop,
         "quack": quack, "liger": liger}
NEEDS = {"quack": "quack.softmax", "liger": "liger_kernel.ops.softmax"}
