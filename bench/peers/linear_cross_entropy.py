"""Compares the last linear layer and its cross-entropy, forward and backward: time, and memory besides inputs and results.

    python3 bench/peers/linear_cross_entropy.py --library build/release/api/libtunesmith.so [--tokens 8192] [--hidden 4096]
                                                [--vocab 128256] [--dtype bf16] [--memory-mib 1024] [--out FOLDER]

loss = mean cross-entropy of hidden @ weight^T; results are loss, dhidden and dweight. Measured interleaved in one process:
the three matrix products alone at full size, which every implementation needs, PyTorch, torch.compile, Liger, Apple's cut
cross-entropy and Tunesmith. Cut cross-entropy is measured twice: by default it leaves out probabilities below 2^-12, which
are nearly all of them on random logits, so that it skips work that exact gradients need; `cce_exact` computes all of them.

Memory is the peak of PyTorch's allocator during a call, beyond what it held before and the results; for Tunesmith it is the
reported scratch memory. Errors are relative to float32 products with float64 sums, on 64 tokens, and on classes that are the
target of some token or of none. Writes linear_cross_entropy.json and a table. Needs torch and triton.
"""
import argparse
import importlib
import os
import sys

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch.nn.functional as F

import family
import kernels
import machine
import results
import side_by_side
import tables
import timing
import tunesmith
from cells import SIZES
from family import DEVICE

CHUNK = 512  # tokens whose logits the reference holds at once
PEERS = ("torch", "compile", "liger", "cce", "cce_exact")
ALLOWED = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 3e-2}


class Inputs:
    """Seeded inputs. The logits' standard deviation is near 1.3, as in a model that has learnt little."""

    def __init__(self, tokens, hidden, vocab, dtype):
        torch.manual_seed(tokens + hidden + vocab)
        self.dtype = getattr(torch, dtype)
        self.hidden = torch.randn(tokens, hidden, device=DEVICE).to(self.dtype)
        self.weight = (torch.randn(vocab, hidden, device=DEVICE) * (1.28 / hidden**0.5)).to(self.dtype)
        self.targets = torch.randint(0, vocab, (tokens,), device=DEVICE)

    def probabilities(self):
        """Yields chunks of (first token, float64 loss per token, float32 dlogits of the sum of the losses)."""
        wide = self.weight.float()
        for begin in range(0, len(self.targets), CHUNK):
            targets = self.targets[begin:begin + CHUNK, None]
            logits = self.hidden[begin:begin + CHUNK].float() @ wide.T
            lse = torch.logsumexp(logits.double(), -1)
            losses = lse - logits.gather(1, targets)[:, 0]
            dlogits = torch.exp(logits - lse[:, None].float())
            yield begin, losses, dlogits.scatter_add_(1, targets, torch.full_like(targets, -1, dtype=torch.float32))


class Reference:
    """The exact results, and the gradient of the logits for the products."""

    def __init__(self, inputs):
        tokens, vocab = len(inputs.targets), len(inputs.weight)
        self.tokens = family.some_rows(tokens)
        is_target = torch.zeros(vocab, dtype=torch.bool, device=DEVICE).scatter_(0, inputs.targets, True)
        self.classes = {"dweight.targets": is_target.nonzero()[:32, 0], "dweight.others": (~is_target).nonzero()[:32, 0]}
        self.classes = {name: classes for name, classes in self.classes.items() if len(classes)}
        self.dlogits = torch.empty(tokens, vocab, dtype=inputs.dtype, device=DEVICE)
        total = torch.zeros((), dtype=torch.float64, device=DEVICE)
        columns = {name: torch.empty(tokens, len(classes), dtype=torch.float64, device=DEVICE)
                   for name, classes in self.classes.items()}
        some = torch.empty(len(self.tokens), vocab, device=DEVICE)
        for begin, losses, dlogits in inputs.probabilities():
            part = slice(begin, begin + len(losses))
            total += losses.sum()
            self.dlogits[part] = dlogits
            for name, classes in self.classes.items():
                columns[name][part] = dlogits[:, classes].double()
            inside = (self.tokens >= begin) & (self.tokens < begin + len(losses))
            some[inside] = dlogits[self.tokens[inside] - begin]
        hidden = inputs.hidden.double()
        self.want = {"loss": (total / tokens).reshape(1), "dhidden": (some @ inputs.weight.float()).double() / tokens,
                     **{name: column.T @ hidden / tokens for name, column in columns.items()}}

    def errors(self, result):
        """Returns the relative error of each part of {loss, dhidden, dweight}."""
        got = {"loss": result["loss"].reshape(1), "dhidden": result["dhidden"][self.tokens],
               **{name: result["dweight"][classes] for name, classes in self.classes.items()}}
        return {name: family.relative_error(array.double(), self.want[name]) for name, array in got.items()}


def by_autograd(function, inputs):
    """Returns a launch of `function(hidden, weight, targets)`, which returns the mean loss, and of its gradient."""
    leaves = [array.detach().requires_grad_() for array in (inputs.hidden, inputs.weight)]

    def launch():
        with torch.enable_grad():
            loss = function(*leaves, inputs.targets)
            dhidden, dweight = torch.autograd.grad(loss, leaves)
        return {"loss": loss.detach(), "dhidden": dhidden, "dweight": dweight}

    return launch


def plain(hidden, weight, targets):
    return F.cross_entropy(F.linear(hidden, weight), targets)


def peer(name, inputs):
    if name == "torch":
        return by_autograd(plain, inputs)
    if name == "compile":
        return by_autograd(torch.compile(plain, dynamic=False), inputs)
    if name == "liger":
        module = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
        return by_autograd(lambda *given: module.LigerFusedLinearCrossEntropyFunction.apply(*given)[0], inputs)
    # The package's function has the name of its module and hides it.
    function = importlib.import_module("cut_cross_entropy").linear_cross_entropy
    more = {"filter_eps": None} if name == "cce_exact" else {}
    return by_autograd(lambda hidden, weight, targets: function(hidden, weight, targets, **more), inputs)


def own(engine, inputs, memory_bytes, **fields):
    """Returns Tunesmith's (launch, facts). fields: such as fused=1."""
    loss = torch.empty(1, device=DEVICE)
    arrays = {"loss": loss, "dhidden": torch.empty_like(inputs.hidden), "dweight": torch.empty_like(inputs.weight)}
    launch, scratch, chunk = engine.linear(inputs.hidden, inputs.weight, inputs.targets, memory_bytes=memory_bytes,
                                           lse=torch.empty(len(inputs.targets), device=DEVICE), fields=fields, **arrays,
                                           stream=torch.cuda.current_stream().cuda_stream)

    def run():
        launch()
        return arrays

    return run, {"scratch_bytes": scratch, "chunk_tokens": chunk}


def products(inputs, dlogits):
    """Returns the three matrix products of a forward and a backward pass, one by one and together."""
    logits, dhidden, dweight = torch.empty_like(dlogits), torch.empty_like(inputs.hidden), torch.empty_like(inputs.weight)
    works = {"logits": lambda: torch.mm(inputs.hidden, inputs.weight.T, out=logits),
             "dhidden": lambda: torch.mm(dlogits, inputs.weight, out=dhidden),
             "dweight": lambda: torch.mm(dlogits.T, inputs.hidden, out=dweight)}
    return dict(works, products=lambda: [work() for work in works.values()])


def extra_bytes(work, owned):
    """Returns the peak of PyTorch's allocator during a call beyond what it held before and the results.

    `owned`: the results were allocated before."""
    work()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    return peak if owned else peak - sum(array.numel() * array.element_size() for array in result.values())


def add(record, works, name, build, reference, dtype):
    """Builds an implementation, checks it and measures its memory. Failures are left out and named. Peers may be inexact."""
    try:
        work, facts = build()
        errors = reference.errors(work())
        record["errors"][name] = errors
        bad = [f"{part} {error:.1e}" for part, error in errors.items() if not error <= ALLOWED[dtype]]
        if bad and name == results.OWN:
            raise RuntimeError("wrong: " + ", ".join(bad))
        record["extra_bytes"][name] = extra_bytes(work, name == results.OWN) + facts.get("scratch_bytes", 0)
        record.update(facts)
        works[name] = work
    except Exception as error:
        record["left_out"][name] = family.one_line(error)
        side_by_side.say(f"{tables.LINEAR_NAMES[name]} left out: {record['left_out'][name]}")
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtunesmith.so")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--dtype", choices=SIZES, type=side_by_side.dtype_name, default="bfloat16")
    parser.add_argument("--memory-mib", type=int, default=0, help="limit of Tunesmith's scratch memory; 0: its default")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--effort", choices=("quick", "full"), default="full", help="of Tunesmith's tuning")
    parser.add_argument("--mode", choices=tunesmith.MODES, default="tune")
    parser.add_argument("--cache", default="", help="file that keeps tuned configurations; default: none")
    parser.add_argument("--tune-budget", type=float, default=10, help="seconds per kernel")
    parser.add_argument("--out", default=".")
    parser.add_argument("--quick-check", action="store_true", help="a small problem, three rounds")
    args = parser.parse_args()
    if args.quick_check:
        args.tokens, args.hidden, args.vocab, args.rounds, args.effort = 640, 256, 2000, 3, "quick"
    return args


def main():
    args = arguments()
    with torch.no_grad():
        inputs = Inputs(args.tokens, args.hidden, args.vocab, args.dtype)
        reference = Reference(inputs)
        torch.cuda.empty_cache()
        engine = tunesmith.Engine(args.library, effort=args.effort, mode=args.mode, cache_file=args.cache, system_caches="",
                                  tune_budget_s=args.tune_budget)
        record = {"tokens": args.tokens, "hidden": args.hidden, "vocab": args.vocab, "dtype": args.dtype, "errors": {},
                  "extra_bytes": {}, "left_out": {}}
        works = products(inputs, reference.dlogits)
        add(record, works, results.OWN, lambda: own(engine, inputs, args.memory_mib << 20), reference, args.dtype)
        for name in args.peers:
            add(record, works, name, lambda: (peer(name, inputs), {}), reference, args.dtype)
        measured = timing.Timer().measure(works, args.rounds, args.rounds)
    for fact in ("us", "spread", "samples"):
        record[fact] = {name: value[fact] for name, value in measured.items()}
    flops = 6 * args.tokens * args.hidden * args.vocab
    run = {**machine.facts(engine.version), "kernels": kernels.recorded(args.library, ["cross_entropy"]), "cells": [record]}
    os.makedirs(args.out, exist_ok=True)
    results.write(os.path.join(args.out, "linear_cross_entropy.json"), run)
    side_by_side.say(f"{run['gpu']}, PyTorch {run['torch']}: {args.tokens} tokens, {args.hidden} hidden, {args.vocab} classes, "
                     f"{args.dtype}; the products reach {flops / record['us']['products'] * 1e-6:.0f} TFLOP/s\n")
    side_by_side.say("\n".join(tables.linear(record)))
    return 0 if results.OWN in works or not args.quick_check else 1


if __name__ == "__main__":
    sys.exit(main())
