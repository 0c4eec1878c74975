"""Arrays of a cell of attention backward: what Tunesmith gets, and float64 gradients of some key heads."""
import dataclasses

import torch

from suites import attention_backward_grids as grids
from suites import attention_grids
from suites import attention_problems
import family
import results
import tunesmith
from cells import SHORT, AttentionCell
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
    bias: torch.Tensor = None    # of relative positions: (heads, seq_q + seq_kv - 1)

    def allowed(self, part, want, dtype, own):
        """Probabilities and their gradients are rounded to the dtype before the products that follow, and so is o, from
        which delta is computed: three roundings of the terms and one of the result, with independent errors."""
        unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-20}[dtype]
        return (2 if own else 4) * unit


@dataclasses.dataclass(kw_only=True)
class AccuracyArrays(BackwardArrays):
    """Arrays checked by the criterion of FlashAttention's tests.

    The error of a gradient is at most twice the error of PyTorch's own operations in the problem's dtype, plus rounding.
    Errors are shares of this limit. With one key, dq and dk are zeros, and PyTorch's too: differences of float32 sums may
    remain."""
    cell: AttentionCell

    def cancelled(self):
        """Returns the allowed error of a gradient that is zero because equal sums are subtracted."""
        products = (self.dout.abs().float().amax((0, 1, 2)) * self.v.abs().float().amax((0, 1, 2))).sum()
        factor = torch.maximum(self.q.abs().max(), self.k.abs().max()).float() * self.cell.head_dim**-0.5
        return 2.0**-20 * products * factor * (self.cell.seq_q * self.cell.heads // self.cell.kv_heads)**0.5

    def worst_error(self, result, rows, want, dtype, own):
        got, plain, worst = self.observe(result, rows), plain_gradients(self.cell, self), 0.0
        for name, exact in want.items():
            rounded = exact.to(self.q.dtype)
            most = 2 * (plain[name] - exact).abs().max() + 2 * (rounded + 0.3 - 0.3 - rounded).double().abs().max()
            share = ((got[name] - exact).abs().max() / (most if most > 0 else self.cancelled())).item()
            if own and not share <= 1:
                raise RuntimeError(f"wrong {name}: {share:.2f} of the error that FlashAttention's criterion allows")
            worst = max(worst, share)
        return worst


def visible(cell, query, key):
    """Returns which keys a query sees; both are positions among the keys."""
    if cell.kind != "window":
        return attention_problems.visible(cell, query, key)
    left, right = grids.ACCURACY_WINDOW
    return (query - key <= left) & (key - query <= (right if cell.causal == "none" else 0))


def modified(cell, arrays, head, scores, query, key):
    """Returns the scores of a query head. `query` and `key`: positions among the keys."""
    if cell.kind == "relative":
        return scores + arrays.bias[head][key - query + cell.seq_kv - 1].to(scores.dtype)
    slope = None if arrays.slopes is None else arrays.slopes[head].to(scores.dtype)
    return attention_problems.modified(cell.kind, scores, slope, query, key, grids.cap(cell))


def plain_gradients(cell, arrays):
    """Returns what `exact` returns, by PyTorch's plain operations in the dtype of the arrays and its autograd."""
    group, scale = cell.heads // cell.kv_heads, cell.head_dim**-0.5
    at = torch.arange(cell.seq_q, device=DEVICE)[:, None] + attention_problems.shift(cell)
    key = torch.arange(cell.seq_kv, device=DEVICE)
    seen = visible(cell, at, key)
    found = []
    for entry, head in compared_heads(cell):
        heads = slice(head * group, (head + 1) * group)
        with torch.enable_grad():
            inputs = [array.detach().clone().requires_grad_()
                      for array in (arrays.q[entry, heads], arrays.k[entry, head], arrays.v[entry, head])]
            q, k, v = inputs
            # A finite value instead of -inf, so that rows without a visible key have gradients of zero.
            scores = torch.stack([modified(cell, arrays, number, part, at, key)
                                  for number, part in zip(range(heads.start, heads.stop), (q * scale) @ k.T)])
            scores = scores.masked_fill(~seen, torch.finfo(q.dtype).min)
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
            scores = modified(cell, arrays, head, q @ k.T * scale, at, key)
            inner = 1 - (scores / grids.cap(cell))**2 if cell.kind == "softcap" else 1
            p = attention_problems.softmax(scores.masked_fill(~visible(cell, at, key), float("-inf")))
            dp = dout @ v.T
            ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * inner * scale
            dv += p.T @ dout
            dk += ds.T @ q
            parts.append(ds @ k)
        dqs.append(torch.cat(parts))
    return {"dq": torch.stack(dqs), "dk": dk, "dv": dv}


def extra_arrays(cell):
    """Returns (slopes or None, bias or None, Tunesmith's arrays between v and o)."""
    if cell.kind == "relative":
        bias = torch.randn(cell.heads, cell.seq_q + cell.seq_kv - 1, device=DEVICE)
        return None, bias, (bias,)
    if cell.kind == "document":
        document = torch.arange(cell.batch * cell.seq_q, device=DEVICE, dtype=torch.int32) // attention_grids.DOCUMENT
        return None, None, (document, document, attention_problems.document_tiles(cell))
    slopes, extra = attention_problems.extra_arrays(cell)
    return slopes, None, extra


def first_fields(fields):
    """Returns the fields of the forward pass."""
    return {name: value for name, value in fields.items() if name != "deterministic"}


def ahead(cell):
    """Returns the problems of a cell, for family.Family.ahead."""
    fields = dict(grids.own_fields(cell), dtype=SHORT[cell.dtype])
    return [(grids.OP, {**cell.fields, **fields}), ("attention", first_fields(fields))]


def make(cell):
    """Returns the seeded arrays of a cell, standard normal ones."""
    torch.manual_seed(cell.rows * 1000003 + cell.seq_kv)
    dtype = getattr(torch, cell.dtype)
    q, dout = torch.randn(2, cell.batch, cell.seq_q, cell.heads, cell.head_dim, device=DEVICE, dtype=dtype)
    k, v = torch.randn(2, cell.batch, cell.seq_kv, cell.kv_heads, cell.head_dim, device=DEVICE, dtype=dtype)
    if cell.grid == "accuracy" and cell.kind == "softcap":
        q *= grids.cap(cell)  # as FlashAttention's tests, so that scores reach the cap
    o, dq, dk, dv = (torch.empty_like(array) for array in (q, q, k, v))
    lse = torch.empty(cell.batch, cell.heads, cell.seq_q, device=DEVICE)
    slopes, bias, extra = extra_arrays(cell)
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
        if cell.grid == "deterministic" or cell.case in grids.MODIFIED else {},
        first=("attention", first_fields(fields), (q, k, v, *extra, o, lse)), first_timed=cell.grid == "pair",
        exact=exact, observe=observe, q=view(q), k=view(k), v=view(v), dout=view(dout), slopes=slopes, bias=bias)
    return arrays
