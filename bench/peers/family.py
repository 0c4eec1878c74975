"""What a side-by-side of one family of operations is made of: its problems, their arrays, its peers. row_ops.py,
cross_entropy.py and attention.py each describe one; side_by_side.py measures it."""
import dataclasses
import importlib
import typing

import torch

import results

DEVICE = "cuda"


def all_of(results, rows):
    """What is compared, by name: the given rows of every array, float64."""
    return {name: array[rows].double() for name, array in results.items()}


@dataclasses.dataclass(kw_only=True)
class Arrays:
    """Seeded arrays of a cell and what they mean.

    An implementation is a function that launches. It returns {name: array} of its own results, or None when it wrote to
    `outputs`."""
    op: str                  # Tunesmith's name of the operation
    fields: dict             # of Tunesmith's problem, beside or instead of the cell's own
    operands: tuple          # in Tunesmith's order
    outputs: dict            # those of them that are results, by name
    bytes: int               # least traffic, read plus written
    flops: float = 0         # where these bound the problem: its speed is in TFLOP/s, and L2 is not flushed before launches
    roof: str = ""           # of roofs.KINDS; none where nothing simpler moves the same bytes
    roof_operands: tuple = ()  # inputs, then the output if there is one
    baseline: str = ""       # without a roof: the peer by whose speed the others are divided
    beside: dict = dataclasses.field(default_factory=dict)  # other problems of Tunesmith's to time: {name: (fields, operands)}
    timed: bool = True       # or only checked
    exact: typing.Callable   # (row numbers) -> what `observe` makes of those rows of an exact result
    observe: typing.Callable = all_of
    in_place: str = ""       # the output that lies in an input
    restore: typing.Callable = None  # with in_place: makes that input anew
    # Relative errors allowed beside that of rounding: Tunesmith's, and any of the peers', by dtype of the cell.
    own_error: float = 1e-6
    peer_error: dict = dataclasses.field(default_factory=lambda: {"float32": 1e-5, "bfloat16": 1e-2, "float16": 1e-2})
    checked_rows: int = 64

    def allowed(self, part, want, dtype, own):
        """The largest relative error of a part of the result. `dtype`: the cell's; `own`: Tunesmith's result."""
        # Beside its error it may round twice, which of values below the dtype's normal numbers costs most of their digits.
        rounded = want.to(self.outputs[part.split(".")[0]].dtype if own else getattr(torch, dtype))
        return (self.own_error if own else self.peer_error[dtype]) + 2 * relative_error(rounded.double(), want)

    def worst_error(self, result, rows, want, dtype, own):
        """The largest error of any part of a result; raises when one is too large. `want`: exact(rows)."""
        worst = 0.0
        for part, got in self.observe(result, rows).items():
            error, most = relative_error(got, want[part]), self.allowed(part, want[part], dtype, own)
            if not error <= most:
                raise RuntimeError(f"wrong {part}: relative error {error:.2e}, allowed {most:.2e}")
            worst = max(worst, error)
        return worst

    def reset(self):
        """Before a checked launch: NaN in every output, the inputs as they were made."""
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
    peers: dict              # name: builder (cell, arrays, timer) -> function that launches, or None: nothing to offer
    needs: dict              # name of a peer: the module without which it is left out
    roofs: tuple = results.ROOFS  # those that may stand in its table
    figures: str = "GB/s of bytes read and written (share of the roof)"

    def available(self, names):
        """(peers that can be imported, {name: why not})."""
        found, missing = [], {}
        for name in names:
            try:
                if name in self.needs:
                    importlib.import_module(self.needs[name])
                found.append(name)
            except Exception as error:  # whatever an import of somebody else's package raises
                missing[name] = one_line(error)
        return found, missing


def one_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:160]}" if text else type(error).__name__


def some_rows(rows, most=64):
    """Row numbers to check, rising: the first and the last ones, where offsets are largest, and as many between them."""
    if rows <= most:
        return torch.arange(rows, device=DEVICE)
    end = most // 4
    between = torch.randint(end, rows - end, (most - 2 * end,), generator=torch.Generator().manual_seed(rows)).unique()
    return torch.cat([torch.arange(end), between, torch.arange(rows - end, rows)]).to(DEVICE)


def relative_error(got, want):
    """Norm of the difference over the norm; inf when infinities or NaN differ. Both float64."""
    finite = torch.isfinite(want)
    if not bool((torch.where(finite, torch.isfinite(got), got == want)).all()):
        return float("inf")
    difference = torch.where(finite, got - want, torch.zeros_like(want))
    return (difference.norm() / torch.where(finite, want, torch.zeros_like(want)).norm()).item()
