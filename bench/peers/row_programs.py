"""Compares shipped row programs with copies of the same arrays, PyTorch, torch.compile, Liger, QuACK, FlashInfer,
TransformerEngine and our hand-written kernels.

    python3 bench/peers/row_programs.py --library build/release/api/libtunesmith.so [--cells SUBSTRING...]
                                        [--peers NAME...] [--effort quick] [--budget 2] [--jobs 12] [--out FOLDER]

Everything runs in one process on the same arrays and is timed interleaved, with L2 flushed before every launch; figures are
medians. The copy is a row program, too: it reads the same arrays and writes arrays of the same types without any reduction,
and is tuned in the same way. `own` is Tunesmith's hand-written operation where there is one. A peer's results are compared
with the program's, which the tuner has compared with float64; one whose result differs is left out. PyTorch's time of a
gradient includes the forward pass, which autograd needs; QuACK's does not, and reads what its forward pass has saved.
row_program_peers.py says which programs a peer has. Whatever fails is left out and named. --jobs compiles the peers' kernels in
several processes before anything is measured. Writes row_programs.json after every cell, and a table. Needs torch and triton.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "8")

import torch
import torch.nn.functional as F

import compile_ahead
import family
import machine
import row_program_peers
import timing
import tunesmith
from cells import SHORT
from family import DEVICE

BF16, F32 = "bfloat16", "float32"
E4M3 = torch.float8_e4m3fn


def rms(x, w, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], w, eps)


def quantized(y, type="e4m3", group=None):
    """Returns y in e4m3 or i8 with a scale per row, or per `group` columns."""
    most = {"e4m3": 448, "i8": 127}[type]
    parts = y.float().unflatten(-1, (-1, group or y.shape[-1]))
    scale = parts.abs().amax(-1, keepdim=True).clamp(min=1e-12) / most
    z = (parts / scale).flatten(-2)
    return z.to(E4M3) if type == "e4m3" else z.round().to(torch.int8), scale.flatten(1) if group else scale.flatten()


def layer(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def add_rms(x, r, w):
    h = x + r
    return h, rms(h, w)


def add_layer(x, r, w, b):
    h = x + r
    return h, layer(h, w, b)


def add_rms_quantized(x, r, w):
    z, scale = quantized(rms(x + r, 1 + w))
    return x + r, scale, z


def rms_backward(x, w, dy):
    with torch.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(rms(x, w), (x, w), dy)


def layer_backward(x, w, b, dy):
    with torch.enable_grad():
        x, w, b = (array.detach().requires_grad_() for array in (x, w, b))
        return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], w, b), (x, w, b), dy)


def gumbel(x):
    return torch.argmax(x.float() - torch.log(-torch.log(torch.rand_like(x, dtype=torch.float32))), -1).int()


def gate(x):
    values, experts = torch.topk(x, 8, -1)
    return torch.softmax(values.float(), -1), experts.int()


def gate_softmax(x):
    values, experts = torch.topk(torch.softmax(x.float(), -1), 8, -1)
    return values, experts.int()


def gate_sigmoid(x, bias):
    s = torch.sigmoid(x.float())
    _, experts = torch.topk(s + bias, 8, -1)
    chosen = s.gather(1, experts)
    return chosen / chosen.sum(-1, keepdim=True), experts.int()


def loss(x, targets):
    return F.cross_entropy(x.float(), targets.long(), reduction="none"), torch.logsumexp(x.float(), -1)


def soft_loss(x, probabilities):
    return F.cross_entropy(x.float(), probabilities.float(), reduction="none"), torch.logsumexp(x.float(), -1)


def norm_programs(name, inputs, norm):
    """Returns the programs of a norm that quantize its result."""
    return {f"{name}_{type}{blocks}": (inputs, [type, "f32g" if blocks else "f32s"],
                                       lambda *arrays, type=type, group=128 if blocks else None:
                                       quantized(norm(*arrays), type, group))
            for type in ("e4m3", "i8") for blocks in ("", "_blocks")}


# program: (its inputs, "r" of rows and columns, "p" such probabilities, "c" of columns, "b" float32 of columns, "t" a class for
# each row; its outputs with their types; the same in PyTorch). "" is the type of the cell; after a type, "s" is a value for each
# row, "c" one for each column, "k" eight for each row, "g" one for each 128 columns of a row.
PROGRAMS = {
    "rms_norm": ("rc", [""], rms),
    "rms_norm_unit_offset": ("rc", [""], lambda x, w: rms(x, 1 + w)),
    **norm_programs("rms_norm", "rc", rms),
    "layer_norm": ("rcc", [""], layer),
    "layer_norm_unit_offset": ("rcc", [""], lambda x, w, b: layer(x, 1 + w, b)),
    **norm_programs("layer_norm", "rcc", layer),
    "add_rms_norm": ("rrc", ["", ""], add_rms),
    "add_layer_norm": ("rrcc", ["", ""], add_layer),
    "add_rms_norm_e4m3": ("rrc", ["", "f32s", "e4m3"], add_rms_quantized),
    "swiglu": ("rr", [""], lambda gate, up: F.silu(gate) * up),
    "geglu": ("rr", [""], lambda gate, up: F.gelu(gate) * up),
    "row_quantize": ("r", ["e4m3", "f32s"], quantized),
    "softmax": ("r", [""], lambda x: torch.softmax(x, -1)),
    "softmin": ("r", [""], lambda x: F.softmin(x, -1)),
    "log_softmax": ("r", [""], lambda x: torch.log_softmax(x, -1)),
    "softmax_dropout": ("r", [""], lambda x: F.dropout(torch.softmax(x, -1), 0.1)),
    "cosine_similarity": ("rr", ["f32s"], lambda a, b: F.cosine_similarity(a.float(), b.float(), -1)),
    "gumbel_sampling": ("r", ["i32s"], gumbel),
    "cross_entropy": ("rt", ["f32s", "f32s"], loss),
    "soft_cross_entropy": ("rp", ["f32s", "f32s"], soft_loss),
    "topk_gate": ("r", ["f32k", "i32k"], gate),
    "topk_gate_softmax": ("r", ["f32k", "i32k"], gate_softmax),
    "topk_gate_sigmoid": ("rb", ["f32k", "i32k"], gate_sigmoid),
    "rms_norm_gradient": ("rcr", ["", "c"], rms_backward),
    "layer_norm_gradient": ("rcr", ["", "c", "c"], lambda x, w, dy: layer_backward(x, w, torch.zeros_like(w), dy)),
}
PEERS = ("torch", "compile", *row_program_peers.BUILDERS)
# Results are rounded to the output's type, and peers round in between: norms of differences over norms.
MOST_ERROR, MOST_QUANTIZED_ERROR = 2e-2, 5e-2
FULL, QUANTIZED = ("", "e4m3", "i8"), ("e4m3", "i8")  # types of outputs of rows and columns
NUMBERS = {"softmax_dropout": "seed=7", "gumbel_sampling": "seed=7"}  # their random numbers are not a peer's
OF_HAND_WRITTEN = ("softmax", "log_softmax", "rms_norm", "cross_entropy")  # operations that have the name of a shipped program
HAND_WRITTEN = {"softmax": ("softmax", {}), "log_softmax": ("log_softmax", {}),
                "rms_norm": ("rms_norm", {"weight": 1, "eps": 1e-6}),
                "rms_norm_unit_offset": ("rms_norm", {"weight": 1, "weight_offset": 1, "eps": 1e-6}),
                "cross_entropy": ("cross_entropy", {"reduction": "none", "target_dtype": "i32"})}
LONG = [(512, 65536), (256, 131072), (128, 262144)]
CELLS = (
    [("rms_norm", *shape, BF16) for shape in
     [(524288, 64), (262144, 128), (131072, 256), (32768, 1024), (8192, 4096), (4096, 8192), (1024, 32768), *LONG]]
    + [("layer_norm", *shape, BF16) for shape in [(32768, 1024), (8192, 4096), (1024, 32768), (256, 131072)]]
    + [("add_rms_norm", *shape, BF16) for shape in [(8192, 4096), (2048, 16384)]]
    + [(program, 8192, 4096, BF16) for program in ("add_rms_norm_e4m3", "rms_norm_e4m3", "row_quantize")]
    + [("swiglu", 8192, 8192, BF16), ("geglu", 8192, 8192, BF16)]
    + [(program, 8192, 4096, BF16) for program in ("log_softmax", "softmax_dropout", "cosine_similarity")]
    + [(program, 8192, 4096, BF16) for program in
       ("add_layer_norm", "rms_norm_unit_offset", "layer_norm_unit_offset", "layer_norm_e4m3", "rms_norm_i8", "layer_norm_i8",
        "rms_norm_e4m3_blocks", "layer_norm_e4m3_blocks", "rms_norm_i8_blocks", "layer_norm_i8_blocks", "softmin")]
    + [(program, 8192, 32000, BF16) for program in ("cross_entropy", "soft_cross_entropy")]
    + [("gumbel_sampling", 2048, 32000, BF16)]
    + [(program, 65536, 256, F32) for program in ("topk_gate", "topk_gate_softmax", "topk_gate_sigmoid")]
    + [("softmax", *shape, BF16) for shape in [(32768, 1024), (8192, 4096), (1024, 32768), (512, 65536), (256, 131072)]]
    + [("softmax", *shape, F32) for shape in [(16384, 1024), (4096, 4096), (1024, 32768), (256, 131072)]]
    + [(program, *shape, BF16) for program in ("rms_norm_gradient", "layer_norm_gradient")
       for shape in [(262144, 128), (32768, 1024), (8192, 4096), (1024, 32768)]]
)


def title(cell):
    program, rows, cols, dtype = cell
    return f"{program} {SHORT[dtype]} {rows}x{cols}"


def torch_type(name, dtype):
    return {"": getattr(torch, dtype), "e4m3": E4M3, "i8": torch.int8, "f32": torch.float32, "i32": torch.int32}[name]


def copy_program(inputs, outputs):
    """Returns the text of a program that reads and writes the same arrays [row, col], or sums what it reads if there are
    none to write. It has no scales of groups, 1% of the bytes of a norm that has them."""
    reads = [f"x{i}" for i, kind in enumerate(inputs) if kind in "rp"]
    writes = [f"y{i} : {type or 'float'}" for i, type in enumerate(outputs) if type in FULL]
    lines = [f"in {', '.join(reads)} : float[row, col]"]
    lines += [f"out {write}[row, col] = {' + '.join(reads)}" for write in writes]
    if not writes:
        lines += [f"sum s = {' + '.join(reads)}", "out y : f32[row] = s"]
    return "\n".join(lines) + "\n"


def make_arrays(cell):
    program, rows, cols, dtype = cell
    kinds, types, _ = PROGRAMS[program]
    torch.manual_seed(rows + cols)
    inputs = []
    for kind in kinds:
        if kind == "t":
            inputs.append(torch.randint(0, cols, (rows,), device=DEVICE, dtype=torch.int32))
            continue
        array = torch.randn((rows, cols) if kind in "rp" else (cols,), device=DEVICE)
        if kind == "p":
            array = torch.softmax(array, -1)
        elif kind in "bc":
            array = (kind == "c") + array / 4
        inputs.append(array if kind == "b" else array.to(getattr(torch, dtype)))
    outputs = []
    for type in types:
        shape = {"s": (rows,), "c": (cols,), "k": (rows, 8), "g": (rows, cols // 128)}.get(type[-1:], (rows, cols))
        outputs.append(torch.empty(shape, dtype=torch_type(type.rstrip("sckg"), dtype), device=DEVICE))
    return inputs, outputs


def different(got, want):
    """Returns the largest relative error of a result's arrays."""
    got, want = ([array] if torch.is_tensor(array) else list(array) for array in (got, want))
    return max(family.relative_error(g[:64].double(), w[:64].double()) for g, w in zip(got, want, strict=True))


def peer(name, program, inputs):
    """Returns a call of a peer on these inputs, or None if it has no such function."""
    function = PROGRAMS[program][2]
    if name == "torch":
        return lambda: function(*inputs)
    if name == "compile":
        compiled = torch.compile(function, dynamic=False)
        return lambda: compiled(*inputs)
    build = row_program_peers.BUILDERS[name].get(program)
    return build(*inputs) if build else None


def compile_peers(cells, peers):
    """Compiles the peers' kernels, in a process of compile_ahead.run()."""
    for cell in cells:
        try:
            inputs, _ = make_arrays(cell)
            for name in peers:
                try:
                    work = peer(name, cell[0], inputs)
                    if work:
                        work()
                        torch.cuda.synchronize()
                except Exception:  # it is named when it is measured
                    continue
        except Exception:  # out of memory because of the other processes
            pass
        inputs = work = None
        torch.cuda.empty_cache()
    return 0


def launcher(plan, tensors, stream):
    """Returns a launch on these tensors; raises if one of them is not as large as the plan's array."""
    for name, size, tensor in zip(plan.arrays, plan.sizes, tensors, strict=True):
        if tensor.numel() * tensor.element_size() != size:
            raise ValueError(f"{name} has {tensor.numel() * tensor.element_size()} bytes; expected {size}")
    return plan.launcher(*tensors, stream=stream)


def measure(engine, cell, peers, timer, stream):
    program, rows, cols, dtype = cell
    kinds, types, _ = PROGRAMS[program]
    inputs, outputs = make_arrays(cell)
    fields = {"rows": rows, "cols": cols, "dtype": SHORT[dtype]}
    begin = time.perf_counter()
    op = program if program not in OF_HAND_WRITTEN else "row_program"
    more = {"program": SOURCES[program]} if op == "row_program" else {}
    more.update({"numbers": NUMBERS[program]} if program in NUMBERS else {})
    plan = engine.plan(op, **fields, **more)
    works = {"tunesmith": launcher(plan, inputs + outputs, stream)}
    full_in = [array for array, kind in zip(inputs, kinds) if kind in "rp"]
    full_out = [array for array, type in zip(outputs, types) if type in FULL]
    copy = engine.plan("row_program", program=copy_program(kinds, types), **fields)
    copied = [torch.empty_like(array) for array in full_out] or [torch.empty(rows, device=DEVICE)]
    works["copy"] = launcher(copy, full_in + copied, stream)
    facts = {"config": plan.config, "tune_s": plan.tune_s, "copy_config": copy.config, "errors": {}, "left_out": {}}
    if program in HAND_WRITTEN:
        name, more = HAND_WRITTEN[program]
        more = dict(more, **({"weight_dtype": SHORT[dtype]} if name == "rms_norm" else {}))
        own = engine.plan(name, **fields, **more)
        results = [torch.empty_like(array) for array in outputs]
        by_name = {"x": inputs[0], "y": results[0], "weight": inputs[-1], "logits": inputs[0], "targets": inputs[-1],
                   "loss": results[0], "lse": results[-1]}
        works["own"] = launcher(own, [by_name[array] for array in own.arrays], stream)
        facts["own_config"] = own.config
    facts["prepare_s"] = time.perf_counter() - begin
    works["tunesmith"]()
    torch.cuda.synchronize()
    for name in peers:
        try:
            work = peer(name, program, inputs)
            if work:
                facts["errors"][name] = error = 0.0 if program in NUMBERS else different(work(), outputs)
                if not error <= (MOST_QUANTIZED_ERROR if set(types) & set(QUANTIZED) else MOST_ERROR):
                    raise RuntimeError(f"wrong: relative error {error:.2e}")
                works[name] = work
        except Exception as error:  # of a foreign package
            facts["left_out"][name] = family.one_line(error)
    facts["works"] = timer.measure(works)
    facts["bytes"] = sum(array.numel() * array.element_size() for array in full_in + full_out)
    return facts


def table(cells):
    names = [name for name in ("tunesmith", "own", *PEERS) if any(name in facts["works"] for facts in cells.values())]
    lines = ["| problem | copy GB/s | " + " | ".join(f"{name} share" for name in names) + " |"]
    lines += ["|" + "-|" * (len(names) + 2)]
    for name, facts in cells.items():
        us = {work: found["us"] for work, found in facts["works"].items()}
        shares = [f"{us['copy'] / us[work]:.3f}" if work in us else "" for work in names]
        lines.append(f"| {name} | {facts['bytes'] / us['copy'] / 1e3:.0f} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


SOURCES = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--cells", nargs="*", default=[""], help="parts of the titles of cells")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile the peers' kernels in advance")
    parser.add_argument("--jobs-limit", type=float, default=60, help="their seconds at most")
    parser.add_argument("--cache", default="", help="file that keeps tuned configurations; default: none, everything is tuned")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of tuning for each kernel")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no cell is begun")
    parser.add_argument("--out", default=".")
    parser.add_argument("--compile-slice", help=argparse.SUPPRESS)  # I/N: a process of --jobs
    args = parser.parse_args()
    cells = [cell for cell in CELLS if any(part in title(cell) for part in args.cells)]
    peers, missing = family.available(args.peers, row_program_peers.NEEDS)
    if args.compile_slice:
        index, count = map(int, args.compile_slice.split("/"))
        return compile_peers(cells[index::count], peers)
    for name, reason in missing.items():
        print(f"{name} left out: {reason}", flush=True)
    if args.jobs:
        print(f"compiled ahead: {compile_ahead.run(args.jobs, args.jobs_limit):.1f} s", flush=True)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../templates/row_program/programs")
    for name in PROGRAMS:
        path = os.path.join(folder, name + ".row")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                SOURCES[name] = file.read()
    engine = tunesmith.Engine(args.library, mode="tune", effort=args.effort, tune_budget_s=args.budget, system_caches="",
                              cache_file=args.cache)
    timer, stream = timing.Timer(), torch.cuda.current_stream().cuda_stream
    run = {"machine": machine.facts(engine.version), "missing": missing, "cells": {}}
    begin = time.perf_counter()
    for cell in cells:
        if time.perf_counter() - begin > args.limit:
            break
        try:
            found = measure(engine, cell, peers, timer, stream)
            run["cells"][title(cell)] = found
            us = {name: round(work["us"], 1) for name, work in found["works"].items()}
            print(f"{title(cell)}: {us} {found['prepare_s']:.1f} s {found['left_out'] or ''} {found['errors'] or ''}\n"
                  f"    {found['config']}", flush=True)
            if "own_config" in found:
                print(f"    own {found['own_config']}", flush=True)
        except Exception as error:
            print(f"{title(cell)}: {family.one_line(error)}", flush=True)
        with open(os.path.join(args.out, "row_programs.json"), "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
        torch.cuda.empty_cache()
    print(table(run["cells"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
