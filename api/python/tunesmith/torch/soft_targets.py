"""Cross-entropy of class probabilities: row programs, with their gradients."""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import DTYPES
from .texts import one_line
from .transforms import is_compiling, is_transformed, needs_grad, no_forward_mode, no_second_derivative

__all__ = ["soft_cross_entropy"]


def soft_cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    label_smoothing: float,
    z_loss: float,
    softcap: float,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss and lse of logits and class probabilities of equal shape, the classes in the last dimension."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}; allowed: 'mean', 'sum', 'none'")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing is {label_smoothing}; allowed: 0 to 1")
    for name, value, least in (
        ("scale", scale, 1e-6),
        ("softcap", softcap, 1e-3),
        ("z_loss", z_loss, 0.0),
    ):  # as for indices
        if not least <= value <= 1e6 and not (value == 0 and name == "softcap"):
            raise ValueError(f"{name} is {value}; allowed: {'0, or ' if name == 'softcap' else ''}{least} to 1e+06")
    leading, classes = logits.shape[:-1], logits.shape[-1]
    if target.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        target = target.float()
    options = (label_smoothing, z_loss, softcap, scale)
    arguments = (logits.reshape(-1, classes), target.reshape(-1, classes), weight, options)
    if needs_grad(logits, target):
        function = _SoftCrossEntropyInTransforms if is_transformed() else _SoftCrossEntropy
        loss, lse, _ = function.apply(*arguments)
    else:
        loss, lse, _ = _SoftCrossEntropy.forward(*arguments)
    loss = loss.reshape(leading) if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()
    return loss, lse.reshape(leading)


class _SoftCrossEntropy(torch.autograd.Function):
    """The loss of each row, its lse, and what rounding lse lost."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: tuple[float, ...]) -> Any:
        return tuple(_run("forward", logits, target, weight, [], options))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        logits, target, weight, ctx.options = inputs
        ctx.save_for_backward(logits, target, weight, *output[1:])
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor | None, dlse: torch.Tensor | None, _: torch.Tensor | None) -> Any:
        logits, target, weight, lse, lse_low = ctx.saved_tensors
        dloss = torch.zeros_like(lse) if dloss is None else dloss.contiguous()
        dlse = torch.zeros_like(lse) if dlse is None else dlse.contiguous()
        dlogits = dtarget = None
        if ctx.needs_input_grad[0]:
            (dlogits,) = _run("dlogits", logits, target, weight, [lse, lse_low, dloss, dlse], ctx.options)
        if ctx.needs_input_grad[1]:
            (dtarget,) = _run("dtarget", logits, target, weight, [lse, lse_low, dloss], ctx.options)
        return dlogits, dtarget, None, None


class _SoftCrossEntropyInTransforms(_SoftCrossEntropy):
    """Names what is missing; torch.compile takes no function with a jvp."""

    jvp = staticmethod(no_forward_mode("cross_entropy"))


def _run(
    what: str,
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    rows: list[torch.Tensor],
    options: tuple[float, ...],
) -> Any:
    label_smoothing, z_loss, softcap, scale = options
    present = (weight is not None, bool(z_loss), bool(softcap), scale != 1)
    if logits.dtype == torch.float64:
        raise ValueError("logits are torch.float64; expected torch.float32, torch.float16 or torch.bfloat16")
    text = _program(what, DTYPES[logits.dtype], DTYPES[target.dtype], *present)
    numbers = {"label_smoothing": label_smoothing, "z_loss": z_loss, "softcap": softcap, "scale": scale}
    values = ";".join(f"{name}={float(numbers[name])!r}" for name in numbers if f"num {name} " in text)
    text = one_line(text)
    targets = [] if what == "dtarget" else [target]
    inputs = [logits, *targets, *([] if weight is None else [weight]), *rows]
    # torch.func does not see registered gradients, and a gradient's gradient has too many arrays for a program.
    if is_transformed() or (rows and torch.is_grad_enabled() and not is_compiling()):
        return _WithoutDerivative.apply(text, values, *inputs)
    return torch.ops.tunesmith.row_program(inputs, text, values)


class _WithoutDerivative(torch.autograd.Function):
    """A row program whose derivative would be a second one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(text: str, values: str, *inputs: torch.Tensor) -> Any:
        return tuple(torch.ops.tunesmith.row_program(list(inputs), text, values))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    backward = staticmethod(no_second_derivative("cross_entropy"))
    jvp = staticmethod(no_forward_mode("cross_entropy"))


def _program(what: str, dtype: str, target_dtype: str, weight: bool, z_loss: bool, softcap: bool, scale: bool) -> str:
    """Return a row program: the loss and lse ("forward"), or a gradient from lse ("dlogits", "dtarget")."""
    gradient = what != "forward"
    lines = [f"in logits : {dtype}[row, col]"]
    lines += [f"in target : {target_dtype}[row, col]"] if what != "dtarget" else []
    lines += ["in weight : f32[col]"] if weight else []
    lines += ["in lse_in, lse_low, dloss : f32[row]"] if gradient else []
    lines += ["in dlse : f32[row]"] if what == "dlogits" else []
    lines += ["num label_smoothing : f32"]
    lines += ["num z_loss : f32"] if z_loss and what != "dtarget" else []
    lines += ["num softcap : f32"] if softcap else []
    lines += ["num scale : f32"] if scale else []
    scaled = "logits * scale" if scale else "logits"
    # Masked logits stay -inf.
    lines += [f"x = select(logits == -inf, -inf, softcap * tanh({scaled} / softcap))" if softcap else f"x = {scaled}"]
    factor = "weight * " if weight else ""
    if what == "dtarget":
        lines += [f"out dtarget : {target_dtype}[row, col] = dloss * (1 - label_smoothing) * {factor}(lse_in - x + lse_low)"]
        return "\n".join(lines)
    lines += [f"q = {factor}(target * (1 - label_smoothing) + label_smoothing / f32(cols))"]
    if what == "forward":
        lines += ["lse l, m, e = x", "sum s = q * (l - x)"]
        lines += ["out loss : f32[row] = " + ("s + z_loss * l * l" if z_loss else "s"), "out lse_out : f32[row] = l"]
        lines += ["out lse_low : f32[row] = select(abs(m) == inf, 0, m - l + log(e))"]
        return "\n".join(lines)
    lines += ["sum total = q", "p = exp(x - lse_in - lse_low)"]
    lines += ["share = total + 2 * z_loss * lse_in" if z_loss else "share = total"]
    lines += ["slope = " + " * ".join((["scale"] if scale else []) + (["(1 - square(x / softcap))"] if softcap else ["1"]))]
    slope = "select(logits == -inf, 0, slope)" if softcap else "slope"
    lines += [f"out dlogits : {dtype}[row, col] = (dloss * (p * share - q) + dlse * p) * {slope}"]
    return "\n".join(lines)
