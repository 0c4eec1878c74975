"""Parts of a side-by-side for one family of operations: problems, their arrays, peers.

row_ops.py, cross_entropy.py and attention.py each describe one family; side_by_side.py measures it."""
import dataclasses
import importlib
import typing

import torch

import results
import samples

DEVICE = "cuda"


def all_arrays(outputs, rows):
    """Returns what is compared, by name: the given rows of every array in float64."""
    return {name: array[rows].double() for name, array in outputs.items()}


@dataclasses.dataclass(kw_only=True)
class Arrays:
    """Seeded arrays of a cell and their meaning.

    An implementation is a function that launches. It returns {name: array} of its results, or None if it wrote to
    `outputs`."""
    op: str                  # Tunesmith's name of the operation
    fields: dict             # of Tunesmith's problem, in addition to or instead of the cell's own
    operands: tuple          # in Tunesmith's order
    outputs: dict            # the operands that are results, by name
    bytes: int               # minimum traffic, read plus written
    flops: float = 0         # if arithmetic bounds the problem: speeds are in TFLOP/s and L2 is not flushed before launches
    copy_kind: str = ""      # of copies.KINDS; empty if no simpler kernel moves the same bytes
    copy_operands: tuple = ()  # inputs, then the output if there is one
    baseline: str = ""       # without a copy: the peer by whose speed the others are divided
    also_timed: dict = dataclasses.field(default_factory=dict)  # further problems of Tunesmith: {name: (fields, operands)}
    timed: bool = True       # False: only checked
    exact: typing.Callable   # (row numbers) -> what `observe` returns for those rows of an exact result
    observe: typing.Callable = all_arrays
    in_place: str = ""       # the output that shares its memory with an input
    restore: typing.Callable = None  # with in_place: writes that input again
    first: tuple = ()        # (op, fields, operands) of a problem whose results are inputs
    first_timed: bool = False  # that problem is part of what is timed
    # Allowed relative errors in addition to rounding: Tunesmith's, and the peers' by dtype of the cell.
    own_error: float = 1e-6
    peer_error: dict = dataclasses.field(default_factory=lambda: {"float32": 1e-5, "bfloat16": 1e-2, "float16": 1e-2})
    checked_rows: int = 64

    def allowed(self, part, want, dtype, own):
        """Returns the largest allowed relative error of a part of the result.

        `dtype`: the cell's; `own`: whether the result is Tunesmith's."""
        # Results may be rounded twice. Below the dtype's normal numbers that costs most of their digits.
        rounded = want.to(self.outputs[part.split(".")[0]].dtype if own else getattr(torch, dtype))
        return (self.own_error if own else self.peer_error[dtype]) + 2 * relative_error(rounded.double(), want)

    def worst_error(self, result, rows, want, dtype, own):
        """Returns the largest error of any part of a result; raises if one is too large. `want`: exact(rows)."""
        worst = 0.0
        for part, got in self.observe(result, rows).items():
            error, most = relative_error(got, want[part]), self.allowed(part, want[part], dtype, own)
            if not error <= most:
                raise RuntimeError(f"wrong {part}: relative error {error:.2e}, allowed {most:.2e}")
            worst = max(worst, error)
        return worst

    def reset(self):
        """Prepares a checked launch: NaN in every output, the inputs as they were made."""
        for name, array in self.outputs.items():
            if name != self.in_place:
                array.fill_(float("nan"))
        if self.restore:
            self.restore()


@dataclasses.dataclass(frozen=True)
class Family:
    name: str                # of the JSON file
    ops: tuple
    grids: tuple             # names
    cells: typing.Callable   # (grid, ops or None, dtypes or None) -> [Cell]
    make: typing.Callable    # (cell) -> Arrays
    peers: dict              # name: builder (cell, arrays, timer) -> function that launches, or None without an implementation
    needs: dict              # name of a peer: the module it needs
    sampled: dict = None     # {op: arrays that it reads and writes}; None: no grids that a seed draws (samples.py)
    copies: tuple = results.COPIES  # names of copies that may occur in its table
    figures: str = "GB/s read and written (share of the copy)"
    ahead: typing.Callable = None  # (cell) -> [(op, fields)] that are compiled before the first cell if nothing is tuned

    @property
    def all_grids(self):
        return self.grids + (tuple(samples.BYTES) if self.sampled else ())


def one_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:160]}" if text else type(error).__name__


def available(names, needs):
    """Returns (peers that can be imported, {name: reason why not}). `needs`: the module that a peer needs, by name."""
    found, missing = [], {}
    for name in names:
        try:
            if name in needs:
                importlib.import_module(needs[name])
            found.append(name)
        except Exception as error:  # an import of a foreign package may raise anything
            missing[name] = one_line(error)
    return found, missing


def some_rows(rows, most=64):
    """Returns rising row numbers to check: the first and the last ones, where offsets are largest, and random ones
    between."""
    if rows <= most:
        return torch.arange(rows, device=DEVICE)
    end = most // 4
    between = torch.randint(end, rows - end, (most - 2 * end,), generator=torch.Generator().manual_seed(rows)).unique()
    return torch.cat([torch.arange(end), between, torch.arange(rows - end, rows)]).to(DEVICE)


def relative_error(got, want):
    """Returns the norm of the difference over the norm; inf if infinities or NaN differ. Both arrays are float64."""
    finite = torch.isfinite(want)
    if not bool((torch.where(finite, torch.isfinite(got), got == want)).all()):
        return float("inf")
    difference = torch.where(finite, got - want, torch.zeros_like(want))
    return (difference.norm() / torch.where(finite, want, torch.zeros_like(want)).norm()).item()


def fastest_tile(timer, tiles, launcher, before=None):
    """Returns the fastest of launcher(block, warps) over `tiles`. `before`: see timing.Timer.measure."""
    works = {tile: launcher(*tile) for tile in tiles}
    return works[timer.fastest(works, before=before)]


def by_autograd(function, leaf, upstream=None):
    """Returns (loss, gradient) of `function(leaf)`; `upstream`: the gradient of the loss, ones by default."""
    with torch.enable_grad():
        loss = function(leaf)
        gradient, = torch.autograd.grad(loss, leaf, torch.ones_like(loss) if upstream is None else upstream)
    return loss.detach(), gradient
