"""Checks and times the explored kernels next to cuDNN.

bench.py check NAME...            errors against float32 and cuDNN's own errors
bench.py time D SEQ CAUSAL NAME...  interleaved, TFLOP/s with five products counted
A NAME may carry options: name:section=4:rotate=2:parts=2
"""
import ctypes, os, sys
import torch
from torch.nn.attention import sdpa_kernel, SDPBackend

lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libbwd.so"))
P = ctypes.c_void_p


class Call(ctypes.Structure):
    _fields_ = [(n, P) for n in "q k v o lse d_o dq dk dv lse2 delta dq_acc".split()] + [
        (n, ctypes.c_int) for n in "bh seq heads_per_section rotate".split()] + [("scale", ctypes.c_float), ("parts", ctypes.c_int)]


class Problem:
    def __init__(self, b, h, s, d, causal, seed=0):
        torch.manual_seed(seed)
        self.b, self.h, self.s, self.d, self.causal = b, h, s, d, causal
        self.scale = d ** -0.5
        shape = (b, h, s, d)
        self.q, self.k, self.v, self.do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        for x in (self.q, self.k, self.v):
            x.requires_grad_(True)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            self.o = torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=causal)
        r = torch.ops.aten._scaled_dot_product_cudnn_attention(self.q.detach(), self.k.detach(), self.v.detach(), None, True, 0.0, causal)
        self.lse = r[1].float().reshape(b, h, s).contiguous()
        self.plain_o = self.o.detach().contiguous()
        f = dict(device="cuda", dtype=torch.float32)
        self.lse2, self.delta = torch.empty(b, h, s, **f), torch.empty(b, h, s, **f)
        self.acc = torch.full((b * h * s * d,), float("nan"), **f)
        self.out = [torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def run(self, name):
        parts = name.split(":")
        options = dict(x.split("=") for x in parts[1:])
        at = lambda x: P(x.data_ptr())
        c = Call(at(self.q), at(self.k), at(self.v), at(self.plain_o), at(self.lse), at(self.do), *(at(x) for x in self.out),
                 at(self.lse2), at(self.delta), at(self.acc), self.b * self.h, self.s,
                 int(options.get("section", max(1, 32 * 2**20 // (self.s * self.d * 8)))), int(options.get("rotate", 0)),
                 self.scale, int(options.get("parts", 7)))
        r = getattr(lib, parts[0])(ctypes.byref(c), P(torch.cuda.current_stream().cuda_stream))
        assert r == 0, (name, r)

    def cudnn(self):
        return torch.autograd.grad(self.o, (self.q, self.k, self.v), self.do, retain_graph=True)

    def reference(self):
        grads = [[], [], []]
        for b in range(self.b):
            for h in range(self.h):
                q, k, v = (x[b, h].detach().float() for x in (self.q, self.k, self.v))
                do = self.do[b, h].float()
                x = q @ k.T * self.scale
                if self.causal:
                    x = x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), float("-inf"))
                p = torch.softmax(x, -1)
                o = p @ v
                ds = p * (do @ v.T - (o * do).sum(-1, keepdim=True))
                for g, value in zip(grads, (ds @ k * self.scale, ds.T @ q * self.scale, p.T @ do)):
                    g.append(value)
        return [torch.stack(g).reshape(self.b, self.h, self.s, self.d) for g in grads]


def check(names):
    torch.backends.cuda.matmul.allow_tf32 = False
    ok = []
    for d in (64, 128):
        for s in (256, 1152):
            for causal in (False, True):
                mine = [n for n in names if n.startswith(f"d{d}_") and ("causal" in n) == causal and "no" not in n]
                if not mine:
                    continue
                p = Problem(2, 3, s, d, causal)
                ref = p.reference()
                norm = lambda x, r: float((x.float() - r).norm() / r.norm())
                most = lambda x, r: float((x.float() - r).abs().max())
                theirs = p.cudnn()
                print(f"d{d} s{s} causal {causal} cudnn   ", *(f"{norm(a, r):.2e}/{most(a, r):.2e}" for a, r in zip(theirs, ref)))
                for n in mine:
                    for x in p.out:
                        x.fill_(float("nan"))
                    p.acc.fill_(float("nan"))
                    p.run(n)
                    torch.cuda.synchronize()
                    e = [norm(a, r) for a, r in zip(p.out, ref)]
                    good = all(x < 1.5 * norm(a, r) + 1e-4 for x, a, r in zip(e, theirs, ref))
                    print(f"   {n:36s}", *(f"{norm(a, r):.2e}/{most(a, r):.2e}" for a, r in zip(p.out, ref)), "ok" if good else "WRONG", flush=True)


def time(d, s, causal, names, rounds=7):
    p = Problem(max(1, 16384 // s), 2048 // d, s, d, causal)
    flop = 10 * p.b * p.h * s * s * d * (0.5 if causal else 1)
    calls = {"cudnn": p.cudnn, **{n: (lambda n=n: p.run(n)) for n in names}}
    times = {n: [] for n in calls}
    each = max(2, min(20, int(6e12 / flop)))
    for f in calls.values():
        f()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for n, f in calls.items():
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            f()
            a.record()
            for _ in range(each):
                f()
            b.record()
            b.synchronize()
            times[n].append(a.elapsed_time(b) / each)
    base = sorted(times["cudnn"])[rounds // 2]
    for n, t in times.items():
        t.sort()
        m = t[rounds // 2]
        print(f"d{d} {s} {'causal' if causal else 'full'} {n:44s} {m:8.3f} ms {flop / m / 1e9:7.1f} TFLOP/s  x{base / m:.3f}", flush=True)


if sys.argv[1] == "check":
    check(sys.argv[2:])
elif sys.argv[1] == "once":
    problem = Problem(max(1, 16384 // int(sys.argv[3])), 2048 // int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[2]), sys.argv[4] == "1")
    for n in sys.argv[5:]:
        problem.run(n)
    torch.cuda.synchronize()
else:
    time(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1", sys.argv[5:])
