"""The roof of a problem: what its bytes take when nothing is computed. Tunesmith's `copy`, tuned, moves them; beside it stands
what others have for the same."""
import torch
import triton
import triton.language as tl

import family
import tunesmith

# kind: fields of `copy`, and the arrays that move. A problem says in Arrays.roof which of them it is measured by.
KINDS = {"copy": ({"inputs": 1}, 2),                      # y = a
         "add": ({"inputs": 2}, 3),                       # y = a + b
         "in_place": ({"inputs": 1, "in_place": 1}, 2),   # a = a
         "read": ({"inputs": 1, "write": 0}, 1)}          # a sum per block
MIB = 1 << 20
MOST_BYTES = (2 << 30) - (8 << 20)  # the tuner takes 2 GiB for its arrays, a read's maxima included; what is fastest there is
                                     # fastest beyond
READ_TILES = ((4096, 4), (8192, 4), (8192, 8), (16384, 8), (32768, 16))


@triton.jit
def sum_tiles(sums, x, count, BLOCK: tl.constexpr):
    tile = tl.program_id(0).to(tl.int64)
    place = tile * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float32)
    tl.store(sums + tile, tl.sum(value, 0))


def triton_read(x, timer):
    """Reads all of `x`: the fastest of a few tiles."""
    count = x.numel()
    sums = torch.empty(triton.cdiv(count, READ_TILES[0][0]), dtype=torch.float32, device=x.device)
    flat = x.view(-1)

    def launcher(block, warps):
        def launch():
            sum_tiles[(triton.cdiv(count, block),)](sums, flat, count, block, num_warps=warps)
        return launch

    works = {tile: launcher(*tile) for tile in READ_TILES}
    return works[timer.fastest(works)]


def others(kind, operands, timer):
    """The figure's name and a function that does the same as `copy` without Tunesmith."""
    if kind == "read":
        return "triton_read", triton_read(operands[0], timer)
    if kind == "in_place":
        return "torch_copy", lambda: operands[0].mul_(1)
    if kind == "add":
        return "torch_copy", lambda: torch.add(*operands[:2], out=operands[2])
    return "torch_copy", lambda: operands[1].copy_(operands[0])


def ends(array):
    """Copies of what is compared of an array: its first and its last elements."""
    flat = array.view(-1)
    return torch.cat([flat[:1 << 16], flat[-(1 << 16):]])


def tuned(engine, kind, operands, stream):
    """(launcher, facts) of Tunesmith's copy, tuned whatever the engine's mode is. Raises when it copies wrongly."""
    fields, moved = KINDS[kind]
    x = operands[0]
    elements, per_element = x.numel(), moved * x.element_size()
    fields = dict(fields, dtype=tunesmith.dtype_name(x))
    found = engine.plan("copy", mode=tunesmith.MODES["tune"], elements=min(elements, MOST_BYTES // per_element), **fields)
    plan = engine.plan("copy", config=found.config, elements=elements, **fields)
    if kind == "read":  # a sum per block: more than there are blocks
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
    """(works, bytes they move, facts). `traffic`: bytes that the roof moves on arrays of its own, 0: the problem's. Where
    Tunesmith's copy fails, the others stand in."""
    kind, operands = arrays.roof, arrays.roof_operands
    per_element = KINDS[kind][1] * operands[0].element_size()
    if traffic and traffic != per_element * operands[0].numel():
        operands = [torch.randn(traffic // per_element, device=family.DEVICE).to(operands[0].dtype) for _ in operands]
    moved = per_element * operands[0].numel()
    name, other = others(kind, operands, timer)
    try:
        launch, facts = tuned(engine, kind, operands, stream)
        return {"copy": launch, name: other}, moved, facts
    except RuntimeError as error:
        return {name if kind == "read" else "copy": other}, moved, {"copy_config": "not Tunesmith's: " + family.one_line(error)}
