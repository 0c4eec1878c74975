"""The implementations that the softmax family is compared with, each built for one cell (family.Family.peers)."""
import importlib

import torch

import grids
import triton_rows


def of(result):
    """What an implementation returns that makes its own output."""
    return {"y": result}


def torch_eager(cell, arrays, timer):
    return lambda: of(arrays.eager())


def torch_compile(cell, arrays, timer):
    # Dropping earlier shapes keeps the guards short that every call checks.
    torch._dynamo.reset()
    function, inputs = torch.compile(arrays.plain, dynamic=False), arrays.plain_inputs
    return lambda: of(function(*inputs))


def _triton(cell, arrays, timer, kernel, tiles):
    """The fastest of a kernel's tiles and warps."""
    if cell.case or not tiles:
        return None
    log, grid, cols = cell.op.startswith("log"), (cell.rows,), cell.cols
    operands = (arrays.output, *arrays.inputs)

    def launcher(block, warps):
        return lambda: void(kernel[grid](*operands, cols, cols, log, block, num_warps=warps))

    works = {tile: launcher(*tile) for tile in tiles}
    return works[timer.fastest(works)]


def void(_):
    """Triton's launches return the compiled kernel, which is no result."""


def triton_whole(cell, arrays, timer):
    kernel = triton_rows.forward_whole if cell.op in grids.FORWARD else triton_rows.backward_whole
    return _triton(cell, arrays, timer, kernel, triton_rows.whole_row_tiles(cell.cols))


def triton_loop(cell, arrays, timer):
    kernel = triton_rows.forward_online if cell.op in grids.FORWARD else triton_rows.backward_two_pass
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
