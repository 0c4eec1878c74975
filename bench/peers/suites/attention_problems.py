"""Arrays of a cell of attention: what Tunesmith gets, and a float64 reference on sampled queries."""
import dataclasses

import torch

from suites import attention_grids as grids
import family
import results
import tunesmith
from cells import AttentionCell
from family import DEVICE

EXACT_BYTES = 1 << 30  # of float64 keys that the reference holds at once
START = 64             # the first queries are compared separately: their causal rows have few keys and large values
MAX_LOSS_ERROR = 1e-3


@dataclasses.dataclass(kw_only=True)
class AttentionArrays(family.Arrays):
    """q, k, v are views (batch, heads, sequence, head_dim), as PyTorch takes them, of Tunesmith's bshd memory."""
    cell: AttentionCell
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    slopes: torch.Tensor = None  # of ALiBi, one per head

    def allowed(self, part, want, dtype, own):
        # The rounding of probabilities does not affect lse, but its scores may come from an approximate tanh.
        return MAX_LOSS_ERROR if part.startswith("lse") else super().allowed(part, want, dtype, own)


@dataclasses.dataclass(kw_only=True)
class AccuracyArrays(AttentionArrays):
    """Arrays checked by the criterion of FlashAttention's tests.

    The error is at most twice the error of PyTorch's own operations in the problem's dtype, plus rounding. Errors are
    shares of this limit."""

    def worst_error(self, result, rows, want, dtype, own):
        exact = want["o"]
        rounded = exact.to(self.q.dtype)
        plain = place(in_dtype(self), rows, self.q).double()
        most = 2 * (plain - exact).abs().max() + 2 * (rounded + 0.3 - 0.3 - rounded).double().abs().max()
        got = self.observe(result, rows)
        share = ((got["o"] - exact).abs().max() / most).item()
        if own and not share <= 1:
            raise RuntimeError(f"wrong o: {share:.2f} of the error that FlashAttention's criterion allows")
        if "lse" in got:
            error = family.relative_error(got["lse"], want["lse"])
            if not error <= MAX_LOSS_ERROR:
                raise RuntimeError(f"wrong lse: relative error {error:.2e}, allowed {MAX_LOSS_ERROR:.2e}")
        return share


def modified(case, scores, slopes, query, key, cap=grids.SOFTCAP):
    """Returns the scores of a case. `query` and `key`: positions among the keys; `slopes`: of the scores' heads."""
    if case == "softcap":
        return cap * torch.tanh(scores / cap)
    if case == "alibi":
        return scores - slopes * (query - key).abs()
    return scores


def visible(cell, query, key):
    """Returns which keys a query sees; both are positions among the keys."""
    seen = key >= 0
    if cell.causal != "none":
        seen = seen & (key <= query)
    if cell.kind == "window":
        seen = seen & (query - key <= grids.WINDOW)
    if cell.kind == "document":
        seen = seen & (query // grids.DOCUMENT == key // grids.DOCUMENT)
    return seen


def shift(cell):
    """Returns the distance from a query's index to its position among the keys."""
    return 0 if cell.causal == "top-left" else cell.seq_kv - cell.seq_q


def softmax(scores):
    """Returns the softmax, with zeros for a row of -inf."""
    return torch.softmax(scores, -1).nan_to_num(0.0)


def where(rows, q):
    """Returns (batch entry, head, query) of row numbers; the query changes fastest."""
    _, heads, queries, _ = q.shape
    return rows // (heads * queries), rows // queries % heads, rows % queries


def place(array, rows, q):
    return array[where(rows, q)]


def exact_rows(cell, arrays, rows):
    """Returns (o, lse) of these rows in float64."""
    group, scale, key = cell.heads // cell.kv_heads, cell.head_dim**-0.5, torch.arange(cell.seq_kv, device=DEVICE)
    parts = []
    for some in rows.split(max(1, EXACT_BYTES // (8 * cell.seq_kv * cell.head_dim))):
        entry, head, query = where(some, arrays.q)
        scores = torch.einsum("rd,rkd->rk", arrays.q[entry, head, query].double(),
                              arrays.k[entry, head // group].double()) * scale
        at = (query + shift(cell))[:, None]
        slopes = None if arrays.slopes is None else arrays.slopes[head, None].double()
        scores = modified(cell.kind, scores, slopes, at, key)
        scores = torch.where(visible(cell, at, key), scores, float("-inf"))
        parts.append((torch.einsum("rk,rkd->rd", softmax(scores), arrays.v[entry, head // group].double()),
                      torch.logsumexp(scores, -1)))
    return [torch.cat(part) for part in zip(*parts)]


def in_dtype(arrays):
    """Returns o of PyTorch's plain operations in the dtype of q, k and v."""
    cell, q = arrays.cell, arrays.q
    k, v = (array.repeat_interleave(cell.heads // cell.kv_heads, 1) for array in (arrays.k, arrays.v))
    at = torch.arange(cell.seq_q, device=DEVICE)[:, None] + shift(cell)
    seen = visible(cell, at, torch.arange(cell.seq_kv, device=DEVICE))
    scores = (q * cell.head_dim**-0.5) @ k.transpose(-1, -2)
    return softmax(scores.masked_fill(~seen, float("-inf"))) @ v


def compared(result, rows, q, split):
    """Implements Arrays.observe. An o with infinities or NaN is wrong even in rows that are not sampled."""
    if not bool(torch.isfinite(result["o"]).all()):
        raise RuntimeError("wrong o: it has infinities or NaN")
    found = {name: place(array, rows, q).double() for name, array in result.items()}
    return by_position(found, rows, q) if split else found


def by_position(result, rows, q):
    """Splits o into the first queries and the others."""
    o, query = result.pop("o"), where(rows, q)[2]
    parts = {"o.start": o[query < START], "o.later": o[query >= START]}
    return {**{name: part for name, part in parts.items() if len(part)}, **result}


def extra_arrays(cell):
    """Returns (slopes or None, Tunesmith's arrays between v and o)."""
    if cell.kind == "alibi":
        slopes = torch.exp2(-torch.arange(1, cell.heads + 1, device=DEVICE) * (8.0 / cell.heads))
        return slopes, (slopes,)
    if cell.case == "document":
        starts = torch.arange(0, cell.batch * cell.seq_q + 1, grids.DOCUMENT, device=DEVICE, dtype=torch.int32)
        return None, (starts, starts)
    if cell.kind == "document":
        document = torch.arange(cell.batch * cell.seq_q, device=DEVICE, dtype=torch.int32) // grids.DOCUMENT
        return None, (document, document) + ((document_tiles(cell),) if cell.case == "document snippet" else ())
    return None, ()


def document_tiles(cell):
    """Returns the block mask of tiles of 64 x 64: bits of tiles with a visible pair, then of fully visible ones (equal
    here)."""
    tiles, per_document = cell.seq_kv // 64, grids.DOCUMENT // 64
    row, column = torch.arange(cell.seq_q // 64)[:, None], torch.arange((tiles + 31) // 32 * 32)
    kept = (row // per_document == column // per_document) & (column < tiles)

    def words(bits):
        value = (bits.view(len(row), -1, 32).long() << torch.arange(32)).sum(-1)
        return torch.where(value < 1 << 31, value, value - (1 << 32)).to(torch.int32)

    both = torch.stack((words(kept), words(kept | (column >= tiles))), 1)
    return both.expand(cell.batch, 1, *both.shape).contiguous().to(DEVICE)


def make(cell):
    """Returns the seeded, standard normal arrays of a cell."""
    torch.manual_seed(cell.rows * 1000003 + cell.seq_kv)
    dtype = getattr(torch, cell.dtype)
    q = torch.randn(cell.batch, cell.seq_q, cell.heads, cell.head_dim, device=DEVICE, dtype=dtype)
    kv = torch.randn(2, cell.batch, cell.seq_kv, cell.kv_heads, cell.head_dim, device=DEVICE, dtype=dtype)
    o = torch.empty_like(q)
    lse = torch.empty(cell.batch, cell.heads, cell.seq_q, device=DEVICE)
    views = dict(zip("qkvo", (array.transpose(1, 2) for array in (q, *kv, o))))
    slopes, extra = extra_arrays(cell)
    if cell.case == "document":  # (heads, tokens) for packed sequences
        lse = lse.view(cell.heads, -1)
    fields = dict(grids.own_fields(cell), dtype=tunesmith.dtype_name(q))
    plain = dict(cell.fields, layout="bshd", dtype=fields["dtype"])
    decode, accuracy = cell.grid == "decode", cell.grid == "accuracy"
    q_view = views["q"]

    def exact(rows):
        wanted = dict(zip(("o", "lse"), exact_rows(cell, arrays, rows)))
        return wanted if accuracy else by_position(wanted, rows, q_view)

    moved = q.numel() + o.numel()
    arrays = (AccuracyArrays if accuracy else AttentionArrays)(
        op=grids.OP, fields=fields, operands=(q, *kv, *extra, o, lse),
        outputs={"o": views["o"], "lse": lse.view(cell.heads, cell.batch, -1).transpose(0, 1) if lse.dim() == 2 else lse},
        # For decoding only K and V, as is customary; the queries are a thousandth of them.
        bytes=grids.kv_bytes(cell) if decode else grids.kv_bytes(cell) + moved * q.element_size(),
        flops=0 if decode else grids.flops(cell), copy_kind="read" if decode else "", copy_operands=(kv,),
        baseline="flex" if cell.grid == "mods" else "cudnn", timed=not accuracy,
        also_timed={results.PLAIN: (plain, (q, *kv, o, lse))} if cell.grid == "mods" and cell.kind in grids.MODIFIED else {},
        cell=cell, exact=exact, observe=lambda result, rows: compared(result, rows, q_view, not accuracy),
        # Probabilities are rounded to the dtype before the second product.
        own_error={"float32": 1e-5, "bfloat16": 2e-3, "float16": 3e-4}[cell.dtype],
        checked_rows=cell.rows if accuracy else 512, q=q_view, k=views["k"], v=views["v"], slopes=slopes)
    return arrays
