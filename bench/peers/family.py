"""What a side-by-side of one family of operations is made of: its problems, their arrays, its peers. row_ops.py and
cross_entropy.py each describe one; side_by_side.py measures it."""
import dataclasses
import importlib
import typing

import torch

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
DEVICE = "cuda"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One problem. `case` names what its shape does not say (a mask, a reduction) or is ""."""
    grid: str
    op: str
    dtype: str
    rows: int
    cols: int
    case: str = ""

    def __str__(self):
        return f"{self.op} {self.dtype} {self.rows}x{self.cols}" + (f" {self.case}" if self.case else "")


def all_of(results, rows):
    """What is compared, by name: the given rows of every array, float64."""
    return {name: array[rows].double() for name, array in results.items()}


@dataclasses.dataclass(kw_only=True)
class Arrays:
    """Seeded arrays of a cell and what they mean.

    An implementation is a function that launches. It returns {name: array} of its own results, or None when it wrote to
    `outputs`."""
    op: str                  # Tunesmith's name of the operation
    fields: dict             # of Tunesmith's problem, beside rows, cols and dtype
    operands: tuple          # in Tunesmith's order
    outputs: dict            # those of them that are results, by name
    bytes: int               # least traffic, read plus written
    roof: str                # of roofs.KINDS
    roof_operands: tuple     # inputs, then the output if there is one
    exact: typing.Callable   # (row numbers) -> what `observe` makes of those rows of an exact result
    observe: typing.Callable = all_of
    in_place: str = ""       # the output that lies in an input
    restore: typing.Callable = None  # with in_place: makes that input anew
    # Relative errors allowed beside that of rounding: Tunesmith's, and any of the peers', by dtype of the cell.
    own_error: float = 1e-6
    peer_error: dict = dataclasses.field(default_factory=lambda: {"float32": 1e-5, "bfloat16": 1e-2, "float16": 1e-2})

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
    """Row numbers to check: the first and the last ones, where offsets are largest."""
    if rows <= most:
        return torch.arange(rows, device=DEVICE)
    half = most // 2
    return torch.cat([torch.arange(half, device=DEVICE), torch.arange(rows - half, rows, device=DEVICE)])


def relative_error(got, want):
    """Norm of the difference over the norm; inf when infinities or NaN differ. Both float64."""
    finite = torch.isfinite(want)
    if not bool((torch.where(finite, torch.isfinite(got), got == want)).all()):
        return float("inf")
    difference = torch.where(finite, got - want, torch.zeros_like(want))
    return (difference.norm() / torch.where(finite, want, torch.zeros_like(want)).norm()).item()
