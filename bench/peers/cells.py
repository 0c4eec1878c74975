"""The problems that side-by-sides measure, as plain values: what identifies one, and how it is called. Needs nothing but
Python, so that what reads results runs anywhere."""
import dataclasses

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


class Problem:
    """What all cells share: `grid`, `op`, `dtype`, and `case`, which names what a shape does not say (a mask, a reduction) or
    is ""."""

    @property
    def title(self):
        return f"{SHORT[self.dtype]} {self.shape}" + (f" {self.case}" if self.case else "")

    def __str__(self):
        return f"{self.op} {self.title}"


@dataclasses.dataclass(frozen=True)
class Cell(Problem):
    """A problem of an operation on rows."""
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
        """Of Tunesmith's problem, what the shape says."""
        return {"rows": self.rows, "cols": self.cols}


@dataclasses.dataclass(frozen=True)
class AttentionCell(Problem):
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
    case: str = ""        # a modification, and "text" where the user's text makes it

    @property
    def kind(self):
        """What the case means, however it is made."""
        return self.case.split(" ")[0]

    @property
    def in_text(self):
        return "text" in self.case

    @property
    def rows(self):
        """Rows of the result: queries of all heads."""
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
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "causal")
        return {name: getattr(self, name) for name in names}


def of_record(record):
    """The cell that a record of a JSON file is of."""
    kind = AttentionCell if "seq_kv" in record else Cell
    return kind(**{field.name: record[field.name] for field in dataclasses.fields(kind)})
