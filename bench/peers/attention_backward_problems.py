"""Arrays of a cell of attention backward: what Tunesmith gets, and float64 gradients of some key heads."""
import dataclasses

import torch

import attention_backward_grids as grids
import attention_problems
import family
import results
import tunesmith
from cells import AttentionCell
from family import DEVICE

HEADS = 2             # key heads whose gradients are compared, the first and the last of all batch entries
CHUNK_BYTES = 1 << 30  # of float64 scores that the reference has at once
NAMES = ("dq", "dk", "dv")


@dataclasses.dataclass(kw_only=True)
class BackwardArrays(family.Arrays):
    """q, k, v and dout are views (batch, heads, sequence, head_dim), as PyTorch takes them, of Tunesmith's bshd memory."""
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    dout: torch.Tensor
    slopes: torch.Tensor = None  # of ALiBi, one per head

    def allowed(self, part, want, dtype, own):
        """Probabilities and their gradients are rounded to the dtype before the products that follow, and so is o, of which
        delta is computed: three roundings of the terms and one of the result, whose errors are independent."""
        unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-20}[dtype]
        return (2 if own else 4) * unit


@dataclasses.dataclass(kw_only=True)
class AccuracyArrays(BackwardArrays):
    """Arrays checked by the criterion of FlashAttention's tests.

    The error of a gradient is at most twice that of PyTorch's own operations in the problem's dtype, plus rounding.
    Errors are shares of that."""
    cell: AttentionCell

    def worst_error(self, result, rows, want, dtype, own):
        got, plain, worst = self.observe(result, rows), plain_gradients(self.cell, self), 0.0
        for name, exact in want.items():
            rounded = exact.to(self.q.dtype)
            most = 2 * (plain[name] - exact).abs().max() + 2 * (rounded + 0.3 - 0.3 - rounded).double().abs().max()
            share = ((got[name] - exact).abs().max() / most).item()
            if own and not share <= 1:
                raise RuntimeError(f"wrong {name}: {share:.2f} of the error that FlashAttention's criterion allows")
            worst = max(worst, share)
        return worst


def plain_gradients(cell, arrays):
    """Returns what `exact` returns, by PyTorch's plain operations in the dtype of the arrays and its autograd."""
    group, scale = cell.heads // cell.kv_heads, cell.head_dim**-0.5
    at = torch.arange(cell.seq_q, device=DEVICE)[:, None] + attention_problems.shift(cell)
    seen = attention_problems.visible(cell, at, torch.arange(cell.seq_kv, device=DEVICE))
    found = []
    for entry, head in compared_heads(cell):
        heads = slice(head * group, (head + 1) * group)
        with torch.enable_grad():
            inputs = [array.detach().clone().requires_grad_()
                      for array in (arrays.q[entry, heads], arrays.k[entry, head], arrays.v[entry, head])]
            q, k, v = inputs
            # A finite value instead of -inf, so that rows without a visible key have gradients of zero.
            scores = ((q * scale) @ k.T).masked_fill(~seen, torch.finfo(q.dtype).min)
            o = (torch.softmax(scores, -1) * seen) @ v
            found.append(torch.autograd.grad(o, inputs, arrays.dout[entry, heads]))
    return {name: torch.stack([one[index] for one in found]).double() for index, name in enumerate(NAMES)}


def compared_heads(cell):
    """Returns (batch entry, key head) of the heads that are compared."""
    every = [(entry, head) for entry in range(cell.batch) for head in range(cell.kv_heads)]
    return [every[0], every[-1]][:HEADS]


def exact_gradients(cell, arrays, entry, kv_head):
    """Returns dq of the group's heads, dk and dv in float64."""
    group, scale = cell.heads // cell.kv_heads, cell.head_dim**-0.5
    k, v = arrays.k[entry, kv_head].double(), arrays.v[entry, kv_head].double()
    dk, dv, dqs = torch.zeros_like(k), torch.zeros_like(v), []
    key = torch.arange(cell.seq_kv, device=DEVICE)
    chunk = max(1, CHUNK_BYTES // (8 * cell.seq_kv))
    for head in range(kv_head * group, (kv_head + 1) * group):
        parts = []
        for first in range(0, cell.seq_q, chunk):
            some = slice(first, first + chunk)
            q, dout = arrays.q[entry, head, some].double(), arrays.dout[entry, head, some].double()
            at = (torch.arange(cell.seq_q, device=DEVICE)[some] + attention_problems.shift(cell))[:, None]
            slope = None if arrays.slopes is None else arrays.slopes[head].double()
            scores = attention_problems.modified(cell.kind, q @ k.T * scale, slope, at, key)
            inner = 1 - (scores / grids.SOFTCAP)**2 if cell.kind == "softcap" else 1
            p = attention_problems.softmax(scores.masked_fill(~attention_problems.visible(cell, at, key), float("-inf")))
            dp = dout @ v.T
            ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * inner * scale
            dv += p.T @ dout
            dk += ds.T @ q
            parts.append(ds @ k)
        dqs.append(torch.cat(parts))
    return {"dq": torch.stack(dqs), "dk": dk, "dv": dv}


def make(cell):
    """Returns the seeded, standard normal arrays of a cell."""
    torch.manual_seed(cell.rows * 1000003 + cell.seq_kv)
    dtype = getattr(torch, cell.dtype)
    q, dout = torch.randn(2, cell.batch, cell.seq_q, cell.heads, cell.head_dim, device=DEVICE, dtype=dtype)
    k, v = torch.randn(2, cell.batch, cell.seq_kv, cell.kv_heads, cell.head_dim, device=DEVICE, dtype=dtype)
    o, dq, dk, dv = (torch.empty_like(array) for array in (q, q, k, v))
    lse = torch.empty(cell.batch, cell.heads, cell.seq_q, device=DEVICE)
    slopes = torch.exp2(-torch.arange(1, cell.heads + 1, device=DEVICE) * (8.0 / cell.heads)) if cell.case == "alibi" else None
    extra = () if slopes is None else (slopes,)
    fields = dict(grids.own_fields(cell), dtype=tunesmith.dtype_name(q))
    plain = dict(cell.fields, layout="bshd", dtype=fields["dtype"])
    heads, group = compared_heads(cell), cell.heads // cell.kv_heads

    def chosen(found):
        """Returns the compared heads of whole gradients (batch, heads, sequence, head_dim)."""
        return {name: torch.stack([found[name][entry, head * group:(head + 1) * group] if name == "dq"
                                   else found[name][entry, head] for entry, head in heads]).double() for name in NAMES}

    def observe(result, rows):
        if not all(bool(torch.isfinite(result[name]).all()) for name in NAMES):
            raise RuntimeError("wrong gradients: they have infinities or NaN")
        return chosen(result)

    def exact(rows):
        found = [exact_gradients(cell, arrays, entry, head) for entry, head in heads]
        return {name: torch.stack([one[name] for one in found]) for name in NAMES}

    def view(array):
        return array.transpose(1, 2)

    operands = (q, k, v, *extra, o, lse, dout, dq, dk, dv)
    moved = sum(array.numel() * array.element_size() for array in (q, k, v, o, dout, dq, dk, dv))
    accuracy = cell.grid == "accuracy"
    arrays = (AccuracyArrays if accuracy else BackwardArrays)(
        **({"cell": cell} if accuracy else {}), timed=not accuracy, op=grids.OP, fields=fields, operands=operands, outputs={"dq": view(dq), "dk": view(dk), "dv": view(dv)}, bytes=moved,
        flops=grids.flops(cell), baseline="cudnn",
        also_timed={results.PLAIN: (plain, (q, k, v, o, lse, dout, dq, dk, dv))}
        if cell.grid == "deterministic" or cell.case in ("softcap", "alibi") else {},
        first=("attention", {name: value for name, value in fields.items() if name != "deterministic"},
               (q, k, v, *extra, o, lse)), first_timed=cell.grid == "pair",
        exact=exact, observe=observe, q=view(q), k=view(k), v=view(v), dout=view(dout), slopes=slopes)
    return arrays
