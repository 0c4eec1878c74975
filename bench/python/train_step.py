"""One training step of a 1.3B-parameter transformer: Tunesmith against torch.compile with SDPA on cuDNN, and against Liger.

    python bench/python/train_step.py [--peers tunesmith,torch,liger] [--mode replay|tune] [--json FILE]

bf16, 8 x 4096 tokens, vocabulary 128256: 24 layers of causal attention (16 heads of 128) and SwiGLU, 1.31B parameters in
the layers and 0.26B each in embedding and head; AdamW; nothing is recomputed. Peers run one after the other in this process,
from the same weights on the same tokens, and their losses are compared.

    tunesmith  attention, rms_norm and linear_cross_entropy of tunesmith.torch; the rest of a layer by torch.compile
    torch      everything by torch.compile; scaled_dot_product_attention on cuDNN
    liger      Liger's rms_norm, rope, swiglu and linear cross-entropy, not compiled, as its models use them; SDPA on cuDNN

Layers are compiled one by one, so the first step takes seconds instead of minutes. A figure is the median over --steps steps
after --warmup steps, by CUDA events; peak memory is PyTorch's allocator's in the timed steps, and `outside` is the
process's other device memory. Takes about two minutes on an H200. On a CPU (--device cpu) sizes are small: a test.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

EPS = 1e-6


@dataclass(frozen=True)
class Shape:
    """The model and the batch."""

    layers: int = 24
    dim: int = 2048
    heads: int = 16
    ffn: int = 6144
    vocabulary: int = 128256
    batch: int = 8
    seq: int = 4096

    @property
    def layer_parameters(self) -> int:
        """Weights of all layers' matrices."""
        return self.layers * (4 * self.dim**2 + 3 * self.dim * self.ffn)

    @property
    def flops(self) -> float:
        """Of one step: 6 for each weight of a matrix and token, and causal attention with a backward of 2.5 forwards."""
        tokens = self.batch * self.seq
        matrices = 6.0 * tokens * (self.layer_parameters + self.vocabulary * self.dim)
        return matrices + 3.5 * self.layers * 2.0 * tokens * self.seq * self.dim


TOY = Shape(layers=2, dim=64, heads=2, ffn=96, vocabulary=160, batch=2, seq=24)


@dataclass(frozen=True)
class Peer:
    """The operations that peers do in their own ways. q, k and v are (batch, seq, heads, head_dim)."""

    norm: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    rope: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    attention: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    swiglu: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    loss: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    compiled: bool


def torch_rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate halves of the heads; cos and sin are (seq, head_dim)."""

    def rotated(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]

    return rotated(q), rotated(k)


def torch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Call SDPA, whose backend main() chooses."""
    first = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return functional.scaled_dot_product_attention(*first, is_causal=True).transpose(1, 2)


def torch_swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up."""
    return functional.silu(gate) * up


def torch_loss(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Compute the logits and their loss."""
    return functional.cross_entropy((hidden @ weight.t()).float(), targets)


def torch_peer(compiled: bool) -> Peer:
    """Return PyTorch's operations."""
    loss = torch.compile(torch_loss, dynamic=False) if compiled else torch_loss
    return Peer(
        lambda x, w: functional.rms_norm(x, x.shape[-1:], w, EPS), torch_rope, torch_attention, torch_swiglu, loss, compiled
    )


def tunesmith_peer(device: str, mode: str, compiled: bool) -> Peer:
    """Return Tunesmith's operations, with a compiler's help for the others."""
    import tunesmith
    import tunesmith.torch as tt

    tt.use_engine(tunesmith.Engine("host" if device == "cpu" else "cuda:0", mode=mode))
    return Peer(
        lambda x, w: tt.rms_norm(x, weight=w, eps=EPS),
        torch_rope,
        lambda q, k, v: tt.attention(q, k, v, causal=True),
        torch_swiglu,
        lambda hidden, weight, targets: tt.linear_cross_entropy(hidden, weight, targets),
        compiled,
    )


def liger_peer() -> Peer:
    """Return Liger's operations."""
    from liger_kernel.transformers import functional as liger

    def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k = liger.liger_rope(q.transpose(1, 2), k.transpose(1, 2), cos[None], sin[None])
        return q.transpose(1, 2), k.transpose(1, 2)

    return Peer(
        lambda x, w: liger.liger_rms_norm(x, w, EPS),
        rope,
        torch_attention,
        liger.liger_swiglu,
        lambda hidden, weight, targets: liger.liger_fused_linear_cross_entropy(hidden, weight, targets),
        compiled=False,
    )


class Layer(nn.Module):
    """Causal attention and SwiGLU, each after a norm."""

    def __init__(self, shape: Shape, peer: Peer) -> None:
        super().__init__()
        self.heads, self.peer = shape.heads, peer
        self.attention_norm, self.ffn_norm = nn.Parameter(torch.ones(shape.dim)), nn.Parameter(torch.ones(shape.dim))
        self.qkv, self.out = matrix(3 * shape.dim, shape.dim), matrix(shape.dim, shape.dim)
        self.gate_up, self.down = matrix(2 * shape.ffn, shape.dim), matrix(shape.dim, shape.ffn)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: (batch, seq, dim)."""
        normed = self.peer.norm(x, self.attention_norm)
        q, k, v = functional.linear(normed, self.qkv).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = self.peer.rope(q, k, cos, sin)
        x = x + functional.linear(self.peer.attention(q, k, v).flatten(2), self.out)
        gate, up = functional.linear(self.peer.norm(x, self.ffn_norm), self.gate_up).chunk(2, -1)
        return x + functional.linear(self.peer.swiglu(gate, up), self.down)


def matrix(rows: int, cols: int) -> nn.Parameter:
    """Return weights with a standard deviation of 0.02."""
    return nn.Parameter(torch.empty(rows, cols).normal_(0, 0.02))


class Model(nn.Module):
    """Embedding, layers, norm and loss."""

    def __init__(self, shape: Shape, peer: Peer) -> None:
        super().__init__()
        self.peer = peer
        self.embedding, self.head = matrix(shape.vocabulary, shape.dim), matrix(shape.vocabulary, shape.dim)
        self.layers = nn.ModuleList(Layer(shape, peer) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.dim))
        head_dim = shape.dim // shape.heads
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angles = torch.outer(torch.arange(shape.seq, dtype=torch.float32), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos().to(self.norm.dtype))
        self.register_buffer("sin", angles.sin().to(self.norm.dtype))
        if peer.compiled:
            for layer in self.layers:
                layer.compile(dynamic=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss."""
        x = functional.embedding(tokens, self.embedding)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.peer.loss(self.peer.norm(x, self.norm).flatten(0, 1), self.head, targets.flatten())


def step_times(step: Callable[[], Any], device: str, steps: int) -> list[float]:
    """Return the milliseconds of each step."""
    times = []
    for _ in range(steps):
        if device == "cpu":
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
            continue
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        step()
        events[1].record()
        torch.cuda.synchronize()
        times.append(events[0].elapsed_time(events[1]))
    return times


def measure(shape: Shape, peer: Peer, device: str, dtype: torch.dtype, warmup: int, steps: int) -> dict[str, Any]:
    """Train `warmup` + `steps` steps and return losses, times and memory."""
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Model(shape, peer)
            tokens = torch.randint(shape.vocabulary, (shape.batch, shape.seq + 1))
    finally:
        torch.set_default_dtype(default)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device != "cpu")
    losses = []

    def step() -> None:
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())

    start = time.perf_counter()
    step()
    synchronize(device)
    first_s = time.perf_counter() - start
    step_times(step, device, warmup - 1)
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    times = step_times(step, device, steps)
    result: dict[str, Any] = {"first_step_s": first_s, "step_ms": statistics.median(times), "all_ms": times}
    result["tflops"] = shape.flops / result["step_ms"] / 1e9
    if device != "cpu":
        free, total = torch.cuda.mem_get_info()
        result["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        result["outside_gib"] = (total - free - torch.cuda.memory_reserved()) / 2**30
    result["losses"] = [loss.item() for loss in losses]
    return result


def synchronize(device: str) -> None:
    """Wait for the device."""
    if device != "cpu":
        torch.cuda.synchronize()


def release(device: str) -> None:
    """Give memory and compiled code of a peer back."""
    torch.compiler.reset()
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


def report(results: dict[str, dict[str, Any]], shape: Shape) -> None:
    """Print the table."""
    print(f"{shape.layer_parameters / 1e9:.2f}B parameters in layers; {shape.batch} x {shape.seq} tokens; {shape}")
    print(f"{'peer':12}{'ms a step':>10}{'spread':>8}{'TFLOP/s':>9}{'peak GiB':>10}{'outside':>9}{'first s':>9}{'loss':>9}")
    for name, row in results.items():
        spread = (max(row["all_ms"]) - min(row["all_ms"])) / row["step_ms"]
        print(
            f"{name:12}{row['step_ms']:10.1f}{spread:8.1%}{row['tflops']:9.1f}{row.get('peak_gib', 0):10.2f}"
            f"{row.get('outside_gib', 0):9.2f}{row['first_step_s']:9.1f}{row['losses'][-1]:9.4f}"
        )
    ours = results.get("tunesmith")
    for name, row in results.items():
        if ours is not None and name != "tunesmith":
            memory = f", peak memory {ours['peak_gib'] / row['peak_gib']:.3f} of it" if "peak_gib" in row else ""
            print(f"tunesmith is {row['step_ms'] / ours['step_ms']:.3f} times as fast as {name}{memory}")


def differing(results: dict[str, dict[str, Any]], tolerance: float) -> list[str]:
    """Return the peers whose losses differ from the first one's by more than a relative tolerance."""
    expected = next(iter(results.values()))["losses"]
    return [
        name
        for name, row in results.items()
        if any(not abs(a - b) <= tolerance * b for a, b in zip(row["losses"], expected, strict=True))
    ]


def main() -> None:
    """Measure the peers and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="tunesmith,torch,liger", help="of tunesmith, torch, liger; in this order")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--compile", default="layers", choices=("layers", "none"), help="what torch.compile gets")
    parser.add_argument("--mode", default="replay", choices=("replay", "tune"), help="tune: measure in the first step")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, help="fewer layers, for a quick look")
    parser.add_argument("--json", help="also write the figures to a file")
    options = parser.parse_args()
    shape = Shape() if options.device == "cuda" else TOY
    if options.layers:
        shape = Shape(**{**vars(shape), "layers": options.layers})
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    compiled = options.compile == "layers"
    make: dict[str, Callable[[], Peer]] = {
        "tunesmith": lambda: tunesmith_peer(options.device, options.mode, compiled),
        "torch": lambda: torch_peer(compiled),
        "liger": liger_peer,
    }
    if options.device == "cuda":
        torch._inductor.config.force_disable_caches = True  # whose key lacks the backend of SDPA (pytorch#185449)
    results: dict[str, dict[str, Any]] = {}
    for name in options.peers.split(","):
        if name not in make:
            parser.error(f"--peers is '{name}'; allowed: {', '.join(make)}")
        try:
            peer = make[name]()
        except ModuleNotFoundError as error:
            if name != "liger":
                raise
            print(f"liger is left out: {error}", file=sys.stderr)
            continue
        on_cudnn = sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if options.device == "cuda" else contextlib.nullcontext()
        with on_cudnn:
            results[name] = measure(shape, peer, options.device, dtype, options.warmup, options.steps)
        print(f"{name}: {results[name]['step_ms']:.1f} ms", file=sys.stderr, flush=True)
        release(options.device)
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{machine}, torch {torch.__version__}")
    report(results, shape)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {"machine": machine, "torch": torch.__version__, "shape": vars(shape), "peers": results}, file, indent=1
            )
    # A hidden element has 8 bits in bf16, and a loss near 12 is a mean over many tokens: 1%. In float32, rounding of
    # gradients near zero turns steps of AdamW around, each of the learning rate, 1e-4.
    different = differing(results, 1e-2 if options.device == "cuda" else 1e-4)
    if different:
        sys.exit(f"train_step.py: the losses of {', '.join(different)} differ from those of {next(iter(results))}")


if __name__ == "__main__":
    main()
