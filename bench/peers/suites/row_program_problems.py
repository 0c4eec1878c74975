"""Arrays of the cells of row programs, and the programs in PyTorch: a peer, and in float64 the reference."""
import re

import torch
import torch.nn.functional as F

from suites import row_program_grids as grids
from family import DEVICE, relative_error

E4M3 = torch.float8_e4m3fn
QUANTIZED = {"e4m3": (E4M3, 448), "i8": (torch.int8, 127)}  # type and its largest value
TYPES = {"e4m3": E4M3, "i8": torch.int8, "f32": torch.float32, "i32": torch.int32}
CHECKED_ROWS = 64
# Results are rounded to the output's type, and peers round in between: norms of differences over norms.
MAX_ERROR, MAX_QUANTIZED_ERROR = 2e-2, 5e-2


def rms(x, w, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], w, eps)


def layer(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def quantized(y, type="e4m3", group=None):
    """Returns y in e4m3 or i8 with a scale per row, or per `group` columns."""
    to, most = QUANTIZED[type]
    parts = y.float().unflatten(-1, (-1, group or y.shape[-1]))
    scale = parts.abs().amax(-1, keepdim=True).clamp(min=1e-12) / most
    z = (parts / scale).flatten(-2)
    return z.to(to) if type == "e4m3" else z.round().to(to), scale.flatten(1) if group else scale.flatten()


def add_rms(x, r, w):
    h = x + r
    return h, rms(h, w)


def add_layer(x, r, w, b):
    h = x + r
    return h, layer(h, w, b)


def add_rms_quantized(x, r, w):
    z, scale = quantized(rms(x + r, 1 + w))
    return x + r, scale, z


def rms_backward(x, w, dy):
    with torch.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(rms(x, w), (x, w), dy)


def layer_backward(x, w, dy):
    b = torch.zeros_like(w)
    with torch.enable_grad():
        x, w, b = (array.detach().requires_grad_() for array in (x, w, b))
        return torch.autograd.grad(layer(x, w, b), (x, w, b), dy)


def gumbel(x):
    return torch.argmax(x.float() - torch.log(-torch.log(torch.rand_like(x, dtype=torch.float32))), -1).int()


def gate(x):
    values, experts = torch.topk(x, 8, -1)
    return torch.softmax(values.float(), -1), experts.int()


def gate_softmax(x):
    values, experts = torch.topk(torch.softmax(x.float(), -1), 8, -1)
    return values, experts.int()


def gate_sigmoid(x, bias):
    s = torch.sigmoid(x.float())
    _, experts = torch.topk(s + bias, 8, -1)
    chosen = s.gather(1, experts)
    return chosen / chosen.sum(-1, keepdim=True), experts.int()


def merge(o0, o1, lse0, lse1):
    lse = torch.logaddexp(lse0, lse1)
    return torch.exp(lse0 - lse)[:, None] * o0 + torch.exp(lse1 - lse)[:, None] * o1, lse


def loss(x, targets):
    return F.cross_entropy(x.float(), targets.long(), reduction="none"), torch.logsumexp(x.float(), -1)


def soft_loss(x, probabilities):
    return F.cross_entropy(x.float(), probabilities.float(), reduction="none"), torch.logsumexp(x.float(), -1)


FUNCTIONS = {
    "rms_norm": rms,
    "rms_norm_unit_offset": lambda x, w: rms(x, 1 + w),
    "layer_norm": layer,
    "layer_norm_unit_offset": lambda x, w, b: layer(x, 1 + w, b),
    "add_rms_norm": add_rms,
    "add_layer_norm": add_layer,
    "add_rms_norm_e4m3": add_rms_quantized,
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "geglu": lambda gate, up: F.gelu(gate) * up,
    "row_quantize": quantized,
    "softmax": lambda x: torch.softmax(x, -1),
    "softmin": lambda x: F.softmin(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "softmax_dropout": lambda x: F.dropout(torch.softmax(x, -1), 0.1),
    "cosine_similarity": lambda a, b: F.cosine_similarity(a.float(), b.float(), -1),
    "gumbel_sampling": gumbel,
    "merge_attention": merge,
    "cross_entropy": loss,
    "soft_cross_entropy": soft_loss,
    "topk_gate": gate,
    "topk_gate_softmax": gate_softmax,
    "topk_gate_sigmoid": gate_sigmoid,
    "rms_norm_gradient": rms_backward,
    "layer_norm_gradient": layer_backward,
}


def function(program):
    """Returns a program in PyTorch."""
    if program in FUNCTIONS:
        return FUNCTIONS[program]
    name, type, blocks = re.fullmatch(r"(\w+?)_(e4m3|i8)(_blocks)?", program).groups()
    norm, group = FUNCTIONS[name], grids.GROUP if blocks else None
    return lambda *arrays: quantized(norm(*arrays), type, group)


def make(cell):
    """Returns (inputs, outputs): seeded inputs, and outputs that nothing has written."""
    kinds, types = grids.PROGRAMS[cell.case]
    torch.manual_seed(cell.rows + cell.cols)
    dtype, inputs = getattr(torch, cell.dtype), []
    for kind in kinds:
        if kind == "t":
            inputs.append(torch.randint(0, cell.cols, (cell.rows,), device=DEVICE, dtype=torch.int32))
            continue
        array = torch.randn({"b": (cell.cols,), "c": (cell.cols,), "l": (cell.rows,)}.get(kind, (cell.rows, cell.cols)), device=DEVICE)
        if kind == "p":
            array = torch.softmax(array, -1)
        elif kind in "bc":
            array = (kind == "c") + array / 4
        inputs.append(array if kind in "bl" else array.to(dtype))
    shapes = {"s": (cell.rows,), "c": (cell.cols,), "k": (cell.rows, 8), "g": (cell.rows, cell.cols // grids.GROUP)}
    outputs = [torch.empty(shapes.get(type[-1:], (cell.rows, cell.cols)), dtype=TYPES.get(type.rstrip("sckg"), dtype),
                           device=DEVICE) for type in types]
    return inputs, outputs


def full(cell, inputs, outputs):
    """Returns the inputs and the outputs of rows and columns, which the copy reads and writes."""
    kinds, types = grids.PROGRAMS[cell.case]
    return ([array for array, kind in zip(inputs, kinds) if kind in "rp"],
            [array for array, type in zip(outputs, types) if type in grids.FULL])


def reference(cell, inputs):
    """Returns the results of the first rows in float64; of a gradient, all rows, which its sums need. None for random
    results."""
    if cell.case in grids.NUMBERS:
        return None
    kinds, rows = grids.PROGRAMS[cell.case][0], cell.rows if cell.case in grids.GRADIENTS else CHECKED_ROWS
    exact = [array[:rows] if kind in "rptl" else array for array, kind in zip(inputs, kinds)]
    return arrays_of(function(cell.case)(*(array.double() if array.is_floating_point() else array for array in exact)))


def arrays_of(result):
    return [result] if torch.is_tensor(result) else list(result)


def checked(cell, result, want):
    """Returns the largest relative error of a result's arrays; raises if it is too large. None if there is no reference."""
    if want is None:
        return None
    error = max(relative_error(got[:len(exact)].double(), exact.double())
                for got, exact in zip(arrays_of(result), want, strict=True))
    most = MAX_QUANTIZED_ERROR if set(grids.PROGRAMS[cell.case][1]) & set(QUANTIZED) else MAX_ERROR
    if not error <= most:
        raise RuntimeError(f"wrong: relative error {error:.2e}, allowed {most:.2e}")
    return error
