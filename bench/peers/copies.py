"""The copy baseline of a problem: how long its bytes take when nothing is computed.

Tunesmith's tuned `copy` moves the bytes; what PyTorch or Triton offers for the same is timed with it."""
import torch
import triton
import triton.language as tl

import family
import tunesmith

# kind: (fields of `copy`, number of arrays that move). A problem chooses its kind in Arrays.copy_kind.
KINDS = {"copy": ({"inputs": 1}, 2),                      # y = a
         "add": ({"inputs": 2}, 3),                       # y = a + b
         "in_place": ({"inputs": 1, "in_place": 1}, 2),   # a = a
         "read": ({"inputs": 1, "write": 0}, 1)}          # one sum per block
MIB = 1 << 20
# The tuner's arrays take at most 2 GiB, including the maxima of a read. The fastest there is the fastest for more bytes.
MAX_BYTES = (2 << 30) - (8 << 20)
READ_TILES = ((4096, 4), (8192, 4), (8192, 8), (16384, 8), (32768, 16))


@triton.jit
def sum_tiles(sums, x, count, BLOCK: tl.constexpr):
    tile = tl.program_id(0).to(tl.int64)
    place = tile * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float32)
    tl.store(sums + tile, tl.sum(value, 0))


def triton_read(x, timer):
    """Returns a function that reads all of `x`: the fastest of a few tiles."""
    count = x.numel()
    sums = torch.empty(triton.cdiv(count, READ_TILES[0][0]), dtype=torch.float32, device=x.device)
    flat = x.view(-1)

    def launcher(block, warps):
        def launch():
            sum_tiles[(triton.cdiv(count, block),)](sums, flat, count, block, num_warps=warps)
        return launch

    return family.fastest_tile(timer, READ_TILES, launcher)


def alternative(kind, operands, timer):
    """Returns a name and a function that does the same as `copy` without Tunesmith."""
    if kind == "read":
        return "triton_read", triton_read(operands[0], timer)
    if kind == "in_place":
        return "torch_copy", lambda: operands[0].mul_(1)
    if kind == "add":
        return "torch_copy", lambda: torch.add(*operands[:2], out=operands[2])
    return "torch_copy", lambda: operands[1].copy_(operands[0])


def ends(array):
    """Returns copies of the first and last elements of an array, which are compared."""
    flat = array.view(-1)
    return torch.cat([flat[:1 << 16], flat[-(1 << 16):]])


def tuned(engine, kind, operands, stream):
    """Returns (launcher, facts) of Tunesmith's copy, tuned in every mode of the engine. Raises if it copies wrongly."""
    fields, moved = KINDS[kind]
    x = operands[0]
    elements, per_element = x.numel(), moved * x.element_size()
    fields = dict(fields, dtype=tunesmith.dtype_name(x))
    found = engine.plan("copy", mode=tunesmith.MODES["tune"], elements=min(elements, MAX_BYTES // per_element), **fields)
    plan = engine.plan("copy", config=found.config, elements=elements, **fields)
    if kind == "read":  # room for more sums than there are blocks
        output = torch.empty(max(1, elements // 32), dtype=torch.float32, device=x.device)
        return plan.launcher(x, output, stream=stream), {"copy_config": plan.config, "copy_tune_s": found.tune_s}
    inputs, output = (operands, x) if kind == "in_place" else (operands[:-1], operands[-1])
    launch = plan.launcher(*inputs, output, stream=stream)
    want = sum(ends(array) for array in inputs)
    launch()
    torch.cuda.synchronize()
    if not torch.equal(ends(output), want):
        raise RuntimeError("the copy differs from its source")
    return launch, {"copy_config": plan.config, "copy_tune_s": found.tune_s}


def make(engine, arrays, timer, stream, traffic=0):
    """Returns (works, bytes that they move, facts).

    `traffic`: bytes to move on arrays of their own; 0: the problem's. If Tunesmith's copy fails, the alternative replaces
    it."""
    kind, operands = arrays.copy_kind, arrays.copy_operands
    per_element = KINDS[kind][1] * operands[0].element_size()
    if traffic and traffic != per_element * operands[0].numel():
        operands = [torch.randn(traffic // per_element, device=family.DEVICE).to(operands[0].dtype) for _ in operands]
    moved = per_element * operands[0].numel()
    name, other = alternative(kind, operands, timer)
    try:
        launch, facts = tuned(engine, kind, operands, stream)
        return {"copy": launch, name: other}, moved, facts
    except RuntimeError as error:
        return {name if kind == "read" else "copy": other}, moved, {"copy_config": "not Tunesmith's: " + family.one_line(error)}
