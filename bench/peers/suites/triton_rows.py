"""Row kernels in Triton as a user would write them: one tile per row, or two passes over the tiles of a row.

Forward: y = softmax(x) or log_softmax(x); backward: dx of either. float32 arithmetic, one program per row, 64-bit row
offsets. The callers in peers.py try several tiles and numbers of warps and keep the fastest.
"""
import triton
import triton.language as tl


@triton.jit
def forward_whole(y, x, stride, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
    value -= tl.max(value, 0)
    power = tl.exp(value)
    total = tl.sum(power, 0)
    if LOG:
        result = value - tl.log(total)
    else:
        result = power / total
    tl.store(y + row * stride + column, result.to(y.dtype.element_ty), mask=column < cols)


@triton.jit
def forward_two_pass(y, x, stride, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = float("-inf")
    total = 0.0
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(value, 0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(value - new_largest), 0)
        largest = new_largest
    log_total = tl.log(total)
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + column, mask=column < cols, other=float("-inf")).to(tl.float32)
        if LOG:
            result = value - largest - log_total
        else:
            result = tl.exp(value - largest) / total
        tl.store(y + row * stride + column, result.to(y.dtype.element_ty), mask=column < cols)


@triton.jit
def backward_whole(dx, dy, y, stride, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    grad = tl.load(dy + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
    out = tl.load(y + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
    if LOG:
        result = grad - tl.exp(out) * tl.sum(grad, 0)
    else:
        result = out * (grad - tl.sum(grad * out, 0))
    tl.store(dx + row * stride + column, result.to(dx.dtype.element_ty), mask=column < cols)


@triton.jit
def backward_two_pass(dx, dy, y, stride, cols, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        grad = tl.load(dy + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
        if LOG:
            sums += grad
        else:
            sums += grad * tl.load(y + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
    total = tl.sum(sums, 0)
    for begin in range(0, cols, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        grad = tl.load(dy + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
        out = tl.load(y + row * stride + column, mask=column < cols, other=0.0).to(tl.float32)
        if LOG:
            result = grad - tl.exp(out) * total
        else:
            result = out * (grad - total)
        tl.store(dx + row * stride + column, result.to(dx.dtype.element_ty), mask=column < cols)


def whole_row_tiles(cols):
    """Returns candidate (tile, warps) for one tile per row: 4 to 32 elements per thread, 64 for the longest; none above
    65536."""
    block = triton.next_power_of_2(cols)
    if block > 65536:
        return []
    tiles = [(block, warps) for warps in (1, 2, 4, 8, 16, 32) if block // (32 * warps) in (4, 8, 16, 32)]
    return tiles or [(block, 32 if block > 32768 else 1)]


def loop_tiles(cols):
    """Returns candidate (tile, warps) for two passes over a row; none if one tile holds the row."""
    tiles = ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (4096, 16), (8192, 8), (8192, 16))
    return [(block, warps) for block, warps in tiles if block < cols]
