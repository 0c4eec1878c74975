"""Cross-entropy in Triton as a user would write it: one program per row and an online pass over tiles for lse.

With the gradient a second pass overwrites the logits: two reads and one write. float32 arithmetic, 64-bit row offsets,
targets are class indices. cross_entropy_peers.py tries several tiles and numbers of warps and keeps the fastest.
"""
import triton
import triton.language as tl

LONGEST_TILE = 32768


@triton.jit
def largest_and_sum(x, cols, BLOCK: tl.constexpr):
    """Returns the maximum of the row at `x` and the sum of exp(element - maximum)."""
    largest = float("-inf")
    total = 0.0
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(value - new_largest), 0)
        largest = new_largest
    return largest, total


@triton.jit
def forward(loss, lse, x, targets, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    picked = tl.load(x + tl.load(targets + row)).to(tl.float32)
    largest, total = largest_and_sum(x, cols, BLOCK)
    result = largest + tl.log(total)
    tl.store(lse + row, result)
    tl.store(loss + row, result - picked)


@triton.jit
def fused_in_place(loss, lse, x, targets, stride, cols, factor, BLOCK: tl.constexpr):
    """Multiplies gradient and loss by `factor`."""
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    target = tl.load(targets + row)
    picked = tl.load(x + target).to(tl.float32)
    largest, total = largest_and_sum(x, cols, BLOCK)
    result = largest + tl.log(total)
    tl.store(lse + row, result)
    tl.store(loss + row, (result - picked) * factor)
    tl.debug_barrier()  # all threads read the target's logit before one overwrites it
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(value - largest) / total - tl.where(column == target, 1.0, 0.0)
        tl.store(x + column, (gradient * factor).to(x.dtype.element_ty), mask=column < cols)


@triton.jit
def backward(dx, x, targets, lse, dloss, stride, cols, BLOCK: tl.constexpr):
    """Runs one program per row and tile."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
    gradient = tl.exp(value - tl.load(lse + row)) - tl.where(column == tl.load(targets + row), 1.0, 0.0)
    gradient *= tl.load(dloss + row)
    tl.store(dx + row * stride + column, gradient.to(dx.dtype.element_ty), mask=column < cols)


def row_tiles(cols):
    """Returns candidate (tile, warps) for one program per row; training libraries take the longest with 32 warps."""
    longest = min(LONGEST_TILE, triton.next_power_of_2(cols))
    tiles = ((1024, 1), (1024, 4), (2048, 4), (4096, 4), (4096, 8), (4096, 16), (8192, 8), (8192, 16), (16384, 16),
             (16384, 32))
    return [(block, warps) for block, warps in tiles if block <= longest] + [(longest, 32)]


def tiles(cols):
    """Returns candidate (tile, warps) for one program per tile."""
    longest = triton.next_power_of_2(cols)
    return [(block, warps) for block, warps in ((1024, 4), (2048, 4), (4096, 4), (4096, 8), (8192, 8), (16384, 16))
            if block <= longest]
