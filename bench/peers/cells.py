"""Problems that the side-by-sides measure, as plain values. Needs only Python, so that results can be read anywhere."""
import dataclasses

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


class Problem:
    """Common part of all cells.

    `grid`, `op` and `dtype` identify a cell together with its shape. `case` names what the shape does not say, such as a
    mask or a reduction; it may be empty."""

    @property
    def title(self):
        return f"{SHORT[self.dtype]} {self.shape}" + (f" {self.case}" if self.case else "")

    def __str__(self):
        return f"{self.op} {self.title}"


@dataclasses.dataclass(frozen=True)
class Cell(Problem):
    """A problem of a row operation."""
    grid: str
    op: str
    dtype: str
    rows: int
    cols: int
    case: str = ""

    @property
    def shape(self):
        return f"{self.rows}x{self.cols}"

    @property
    def fields(self):
        """Fields of Tunesmith's problem that follow from the shape."""
        return {"rows": self.rows, "cols": self.cols}


@dataclasses.dataclass(frozen=True)
class ProgramCell(Cell):
    """A problem of the operation row_program. `case` is the program."""

    @property
    def title(self):
        return f"{self.case} {SHORT[self.dtype]} {self.shape}"

    def __str__(self):
        return self.title


@dataclasses.dataclass(frozen=True)
class AttentionCell(Problem):
    """A problem of attention."""
    grid: str
    op: str
    dtype: str
    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    causal: str = "none"  # none, top-left or bottom-right
    case: str = ""        # a modification; "snippet" follows if it is user source

    @property
    def kind(self):
        """The modification, built in or as a snippet."""
        return self.case.split(" ")[0]

    @property
    def is_snippet(self):
        return "snippet" in self.case

    @property
    def rows(self):
        """Rows of the result: the queries of all heads."""
        return self.batch * self.heads * self.seq_q

    @property
    def square(self):
        return self.seq_q == self.seq_kv

    @property
    def shape(self):
        heads = f"{self.heads}" + (f"/{self.kv_heads}" if self.kv_heads != self.heads else "")
        length = f"{self.seq_q}" + (f":{self.seq_kv}" if not self.square else "")
        causal = "" if self.causal == "none" else " causal" if self.square else f" {self.causal}"
        return f"d{self.head_dim} {self.batch}x{heads}x{length}{causal}"

    @property
    def fields(self):
        """Fields of Tunesmith's problem that follow from the shape."""
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "causal")
        return {name: getattr(self, name) for name in names}


def of_record(record):
    """Returns the cell of a JSON record."""
    kind = AttentionCell if "seq_kv" in record else ProgramCell if record["op"] == "row_program" else Cell
    return kind(**{field.name: record[field.name] for field in dataclasses.fields(kind)})
