"""Performance and accuracy targets by family. Needs only Python."""
import dataclasses
import math

from suites import attention_backward_grids
import results
import samples
from results import BUCKET, DEFAULT, HAND_WRITTEN, OWN, PLAIN, SHORT, over, over_best, share

MIB = 1 << 20
SOFTMAX = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
ATTENTION = ("attention",)
ATTENTION_BACKWARD = ("attention_backward",)
ROW_PROGRAMS = ("row_program",)
CROSS_ENTROPY = ("cross_entropy", "cross_entropy_fused", "cross_entropy_backward")


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a target: its lowest value and where, the geometric mean, and whether it is met."""
    title: str
    lowest: str
    mean: str
    met: bool | None  # None: not measured
    verdict: str

    def row(self):
        return f"| {self.title} | {self.lowest} | {self.mean} | {self.verdict} |".replace("|  |", "| |")


class Target:
    """A target: every cell chosen by `applies` reaches `least`, and their geometric mean reaches `mean`."""

    def __init__(self, title, applies, least, value=share, mean=None):
        self.title, self.applies, self.least, self.value, self.mean = title, applies, least, value, mean

    def result(self, cells):
        chosen = [cell for cell in cells if self.applies(cell)]
        if not chosen:
            return Result(self.title, "no cells", "", None, "")
        lost = [cell for cell in chosen if OWN not in cell["error"]]
        known = [(self.value(cell), cell) for cell in chosen if self.value(cell)]
        if not known:
            return Result(self.title, f"no figures in {len(chosen)} cells", "", False if lost else None,
                          "**missed**" if lost else "not measured")
        low, cell = min(known, key=lambda pair: pair[0])
        average = geomean([value for value, _ in known])
        missed = [value for value, _ in known if value < self.least]
        met = not lost and not missed and (self.mean is None or average >= self.mean)
        verdict = "met" if met else "**missed**" + (f", {len(missed)} below" if missed else "") + \
            (f", {len(lost)} without Tunesmith" if lost else "")
        where = f"{cell['op']} {results.title(cell)}"
        return Result(self.title, f"{low:.3f} ({where})", f"{average:.3f}", met, f"{verdict}, {len(known)} cells")


def in_grid(name, *conditions):
    return lambda cell: cell["grid"] == name and all(condition(cell) for condition in conditions)


def columns(least, most):
    return lambda cell: least <= cell["cols"] <= most


def of(field, *values):
    return lambda cell: cell[field] in values


def shape(*allowed):
    return lambda cell: (cell["rows"], cell["cols"]) in allowed


def tuned_over(name):
    """Returns a function of a cell: the time of the tuned configuration over the time of `name`; None without one of them."""
    def value(cell):
        ratio = over(cell, name)
        return 1 / ratio if ratio else None
    return value


def sample_targets():
    """Targets of shapes of at least 32 MiB that a seed draws."""
    sample, wide = in_grid(samples.GRID), 131072
    odd = in_grid(samples.GRID, columns(0, wide), lambda cell: cell["cols"] % 2 == 1)
    even = in_grid(samples.GRID, columns(0, wide), lambda cell: cell["cols"] % 2 == 0)
    return [Target("sample: 0.96 of copy on average", sample, 0.0, mean=0.96),
            Target(f"sample, up to {wide} columns, even: 0.93 of copy", even, 0.93),
            Target(f"sample, up to {wide} columns, odd: 0.88 of copy", odd, 0.88),
            Target(f"sample, above {wide} columns: 0.85 of copy", in_grid(samples.GRID, columns(wide + 1, 1 << 40)), 0.85),
            Target("sample: 0.98 x best peer", sample, 0.98, over_best),
            Target("sample, tuned time over that of the default: 1 / 1.15, 1 / 1.04 on average", sample, 1 / 1.15, tuned_over(DEFAULT),
                   mean=1 / 1.04),
            Target("sample, untuned kernel of the bucket: tuned time over its time", sample, 0.0, tuned_over(BUCKET))]


def small_targets():
    """Targets of shapes of at most 8 MiB that a seed draws."""
    return [Target("small: 0.97 x best peer", in_grid(samples.SMALL), 0.97, over_best)]


def softmax_targets():
    main = in_grid("main", columns(128, 32768), lambda cell: cell["bytes"] >= 32 * MIB)
    lines = [Target("forward, 128 to 32768 columns: 0.96 of copy, 0.985 on average", main, 0.96, mean=0.985)]
    for cols, least in ((65536, 0.975), (131072, 0.96), (262144, 0.96)):
        lines.append(Target(f"forward, {cols} columns: {least} of copy", in_grid("long", of("cols", cols)), least))
    lines.append(Target("forward, 65536 columns and more: 1.45 x best peer", in_grid("long"), 1.45, over_best))
    for dtype, least in (("float32", 0.95), ("bfloat16", 0.92)):
        lines.append(Target(f"unaligned, {SHORT[dtype]}: {least} of copy", in_grid("unaligned", of("dtype", dtype)), least))
    lines.append(Target("unaligned: 1.0 x best peer", in_grid("unaligned"), 1.0, over_best))
    lines.append(Target("forward, 128 to 32768 columns: 1.0 x best peer", main, 1.0, over_best))
    lines.append(Target("backward, up to 32768 columns: 0.95 of y = a + b",
                        in_grid("backward", columns(0, 32768)), 0.95))
    lines.append(Target("backward, above 32768 columns: 0.93 of y = a + b",
                        in_grid("backward", columns(32769, 1 << 40)), 0.93))
    for rows, cols, dtype, least in ((8, 131072, "float32", 0.80), (8, 131072, "bfloat16", 0.80),
                                     (16, 262144, "float32", 0.86), (16, 262144, "bfloat16", 0.80),
                                     (1, 1048576, "float32", 0.72), (1, 1048576, "bfloat16", 0.68)):
        lines.append(Target(f"{rows} x {cols}, {SHORT[dtype]}: {least} of copy",
                            in_grid("few", of("rows", rows), of("cols", cols), of("dtype", dtype)), least))
    return lines


def cross_entropy_targets():
    long = shape((8192, 32000), (8192, 128256), (4096, 262144))
    wide, main = shape((32768, 4096)), shape((8192, 32000), (8192, 128256), (4096, 262144), (32768, 4096))
    lines = []
    for name, chosen, least in (("32000 classes and more", long, {"float32": 0.98, "bfloat16": 0.96}),
                                ("32768 x 4096", wide, {"float32": 0.96, "bfloat16": 0.92})):
        for dtype, value in least.items():
            lines.append(Target(f"loss, {name}, {SHORT[dtype]}: {value} of the fastest read",
                                in_grid("forward", chosen, of("dtype", dtype)), value))
    fused = in_grid("fused", main, of("case", ""))
    lines.append(Target("loss and gradient in place, 4096 classes and more: 0.97 of the copy in place", fused, 0.97))
    lines.append(Target("the same: 1.5 x best peer", fused, 1.5, over_best))
    lines.append(Target("the same, 8192 x 128256, bf16: at most 1 ms (1 ms over the time)",
                        in_grid("fused", shape((8192, 128256)), of("dtype", "bfloat16"), of("case", "")), 1.0,
                        lambda cell: 1000 / cell["us"][OWN] if OWN in cell["us"] else None))
    lines.append(Target("gradient alone, 4096 classes and more: 0.95 of copy", in_grid("backward", main), 0.95))
    lines.append(Target("loss, 16384 x 1024, 64 x 128256, 1 x 262144: 1.0 x best peer",
                        in_grid("forward", shape((16384, 1024), (64, 128256), (1, 262144))), 1.0, over_best))
    lines.append(Target("loss and gradient in place, 16384 x 1024: 1.0 x best peer",
                        in_grid("fused", shape((16384, 1024))), 1.0, over_best))
    return lines


def against(name):
    return lambda cell: over(cell, name)


def margin(cell):
    """Returns the error that FlashAttention's criterion allows over Tunesmith's, at most 100. Recorded errors are shares of
    what is allowed."""
    return min(100.0, 1 / max(cell["error"][OWN], 0.01)) if OWN in cell["error"] else None


def attention_targets():
    forward, mods, decode = in_grid("forward"), in_grid("mods"), in_grid("decode")
    modified = in_grid("mods", of("case", "alibi", "softcap", "document", "alibi snippet", "softcap snippet",
                                  "document snippet"))
    return [Target("forward: 1.0 x cuDNN, 1.15 on average", forward, 1.0, against("cudnn"), mean=1.15),
            Target("forward: 1.8 x FlashAttention-2 on average", forward, 0.0, against("flash2"), mean=1.8),
            Target("modifications: 1.4 x flex_attention", mods, 1.4, against("flex")),
            Target("ALiBi, softcap, document mask: 0.8 of the plain kernel's speed (1.25 x its time)", modified, 0.8,
                   against(PLAIN)),
            Target("decode: 1.0 x cuDNN", decode, 1.0, against("cudnn")),
            Target("decode, 256 MiB of K and V and more: 0.9 of the read",
                   in_grid("decode", lambda cell: cell["bytes"] >= 256 * MIB), 0.9),
            Target("accuracy: error that FlashAttention's criterion allows over the error, 1.0", in_grid("accuracy"), 1.0,
                   margin)]


def over_pairs_left(cell):
    """Returns the plain kernel's time times the share of the pairs that the mask leaves, over the time; None without one of
    them. 1 is a time in proportion to the pairs left."""
    ratio = over(cell, PLAIN)
    return ratio * attention_backward_grids.pairs_left(results.key(cell)) if ratio else None


def attention_backward_targets():
    backward, deterministic = in_grid("backward"), in_grid("deterministic")
    flash4 = in_grid("backward", lambda cell: "flash4" in cell["us"])
    return [Target("backward: 1.0 x FlashAttention-4, 1.05 on average", flash4, 1.0, against("flash4"), mean=1.05),
            Target("backward: 1.0 x cuDNN, 1.25 on average", backward, 1.0, against("cudnn"), mean=1.25),
            Target("deterministic: 1.0 x FlashAttention-4's deterministic mode", deterministic, 1.0, against("flash4")),
            Target("deterministic: 0.92 of the speed without", deterministic, 0.92, against(PLAIN)),
            Target("grouped heads, 64 to 8: 1.1 x best peer",
                   in_grid("options", lambda cell: cell["heads"] != cell["kv_heads"]), 1.1, over_best),
            Target("ALiBi, softcap: 1 / 1.2 of the plain kernel's speed", in_grid("options", of("case", "alibi", "softcap")),
                   1 / 1.2, against(PLAIN)),
            Target("score_mod: 1 / 1.5 of the plain kernel's speed",
                   in_grid("options", of("case", *attention_backward_grids.SCORE_MODS)), 1 / 1.5, against(PLAIN)),
            Target("document mask: the plain kernel's time times the share of pairs left, over the time, 1.0",
                   in_grid("options", of("case", "document mask")), 1.0, over_pairs_left),
            Target("options: 1.5 x flex_attention", in_grid("options"), 1.5, against("flex")),
            Target("forward and backward: 1.0 x best peer", in_grid("pair"), 1.0, over_best),
            Target("accuracy: error that FlashAttention's criterion allows over the error, 1.0", in_grid("accuracy"), 1.0,
                   margin)]


def row_program_targets():
    norm = of("case", "rms_norm", "layer_norm")
    lines = [Target(f"RMSNorm, LayerNorm, {low} to {high} columns: {least} of copy",
                    in_grid("norms", norm, columns(low, high)), least)
             for low, high, least in ((64, 256, 0.95), (1024, 32768, 0.97), (65536, 262144, 0.93))]
    for title, applies in (("add + norm", in_grid("norms", of("case", "add_rms_norm", "add_layer_norm"))),
                           ("norm to fp8", in_grid("norms_quantized", lambda cell: "_e4m3" in cell["case"])),
                           ("SwiGLU", in_grid("activations", of("case", "swiglu"))),
                           ("row quantization", in_grid("row_quantize"))):
        lines.append(Target(f"{title}: 0.95 of copy", applies, 0.95))
    lines.append(Target("all programs: 0.98 x best peer, 1.2 on average", lambda cell: True, 0.98, over_best, mean=1.2))
    lines.append(Target("softmax as a program: 0.98 of the hand-written kernel's speed",
                        in_grid("softmax", of("case", "softmax")), 0.98, against(HAND_WRITTEN)))
    return lines


FAMILIES = {"softmax": (SOFTMAX, softmax_targets), "cross_entropy": (CROSS_ENTROPY, cross_entropy_targets),
            "row_program": (ROW_PROGRAMS, row_program_targets), "attention": (ATTENTION, attention_targets),
            "attention_backward": (ATTENTION_BACKWARD, attention_backward_targets)}


def target_results(cells):
    """Returns a result per target of the families and grids that were measured."""
    found = []
    for family, (ops, targets) in FAMILIES.items():
        measured = [cell for cell in cells if cell["op"] in ops]
        if measured:
            if any(cell["grid"] not in samples.BYTES for cell in measured):
                found += [target.result(measured) for target in targets()]
                found += cliff_results(measured) if family == "softmax" else []
            for grid, drawn_targets in ((samples.GRID, sample_targets), (samples.SMALL, small_targets)):
                if any(cell["grid"] == grid for cell in measured):
                    found += [target.result(measured) for target in drawn_targets()]
    return found


def target_lines(cells):
    """Returns target_results() as rows of a table."""
    return [result.row() for result in target_results(cells)]


def cliff_results(cells):
    """Returns a result per sweep for the target on cliffs: neighbours lose at most 5% of the share."""
    found = []
    for (op, dtype), sweep in results.sweeps(cells).items():
        drops = results.drops(sweep)
        if drops:
            drop, before, after = max(drops, key=lambda entry: entry[0])
            above = sum(1 for entry in drops if entry[0] > results.CLIFF)
            mean = geomean([share(cell) for cell in sweep])
            verdict = "met" if not above else f"**missed**, {above} above"
            found.append(Result(f"cliffs, {op} {SHORT[dtype]}: at most 5% between neighbours",
                                f"{100 * drop:.1f}% ({before['cols']} to {after['cols']})", f"{mean:.3f}", not above,
                                f"{verdict}, {len(drops)} pairs"))
    return found or [Result("cliffs: at most 5% between neighbours", "no cells", "", None, "")]
