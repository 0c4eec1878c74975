"""The implementations that Tunesmith is compared with, each built for one cell.

A builder takes (cell, arrays, timer) and returns a function that launches; the function returns its result, or None when it
writes to arrays.output. A builder returns None when it has nothing to offer for a cell, and raises when it fails: the caller
leaves it out and says so.
"""
import importlib

import torch

import grids
import triton_rows


def torch_eager(cell, arrays, timer):
    return arrays.eager


def torch_compile(cell, arrays, timer):
    # Dropping earlier shapes keeps the guards short that every call checks.
    torch._dynamo.reset()
    function, inputs = torch.compile(arrays.plain, dynamic=False), arrays.plain_inputs
    return lambda: function(*inputs)


def _triton(cell, arrays, timer, kernel, tiles):
    """The fastest of a kernel's tiles and warps."""
    if cell.mask or not tiles:
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
    if cell.mask or not cell.op.startswith("softmax"):
        return None
    module = importlib.import_module("quack.softmax")
    if cell.op == "softmax":
        return lambda: module.softmax_fwd(*arrays.inputs)
    return lambda: module.softmax_bwd(*arrays.inputs)


def liger(cell, arrays, timer):
    if cell.mask or not cell.op.startswith("softmax"):
        return None
    module = importlib.import_module("liger_kernel.ops.softmax")
    if cell.op == "softmax":
        return lambda: module.LigerSoftmaxFunction.apply(*arrays.inputs)
    dy, y = arrays.inputs
    settings = module._softmax_forward(y)[1:]
    return lambda: module._softmax_backward(dy, y, *settings)


PEERS = {"torch": torch_eager, "compile": torch_compile, "triton_whole": triton_whole, "triton_loop": triton_loop,
         "quack": quack, "liger": liger}
OPTIONAL = {"quack": "quack.softmax", "liger": "liger_kernel.ops.softmax"}


def available(names):
    """(names that can be imported, {name: why not})."""
    found, missing = [], {}
    for name in names:
        try:
            if name in OPTIONAL:
                importlib.import_module(OPTIONAL[name])
            found.append(name)
        except Exception as error:  # whatever an import of somebody else's package raises
            missing[name] = one_line(error)
    return found, missing


def one_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:160]}" if text else type(error).__name__
