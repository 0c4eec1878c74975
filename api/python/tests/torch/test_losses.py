"""cross_entropy against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tunesmith.torch as tt
from tunesmith.torch.layouts import classes_of
from tunesmith.torch.losses import BACKWARD, FORWARD

COLS = 24
# Losses of about 4 and gradients below 1: a few roundings of float32 in sums of at most 40 terms.
CLOSE = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"ignore_index": 3},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.2, "reduction": "sum"},
]


def targets() -> torch.Tensor:
    return torch.tensor([3, 0, -100, COLS - 1, 7])


def options_with_weight(options: dict[str, Any], classes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    if "weight" not in options:
        return options, options
    weight = torch.rand(classes) + 0.5
    return {**options, "weight": weight}, {**options, "weight": weight.double()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_cross_entropy_and_its_gradient(options: dict[str, Any]) -> None:
    logits = torch.randn(5, COLS, requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    ours, theirs = options_with_weight(options, COLS)
    target = targets().where(targets() >= 0, torch.tensor(ours.get("ignore_index", -100)))
    loss = tt.cross_entropy(logits, target, **ours)
    reference = torch.nn.functional.cross_entropy(exact, target, **theirs)
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    upstream = torch.randn_like(loss)
    loss.backward(upstream)
    reference.backward(upstream.double())
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)


@pytest.mark.parametrize("used", ["both", "lse alone", "loss alone"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_gradient_flows_through_lse(options: dict[str, Any], used: str) -> None:
    logits = torch.randn(5, COLS, requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    ours, theirs = options_with_weight(options, COLS)
    target = targets().where(targets() >= 0, torch.tensor(ours.get("ignore_index", -100)))
    loss, lse = tt.cross_entropy(logits, target, return_lse=True, **ours)
    reference = torch.nn.functional.cross_entropy(exact, target, **theirs)
    exact_lse = torch.logsumexp(exact, -1)
    torch.testing.assert_close(lse.detach().double(), exact_lse.detach(), **CLOSE)
    factors = torch.randn(5)  # of ignored rows, too
    for part, total, weights in ((loss, lse, factors), (reference, exact_lse, factors.double())):
        terms = [part.sum()] if used != "lse alone" else []
        terms += [(total * weights).sum()] if used != "loss alone" else []
        sum(terms).backward()
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)


SHAPES = [(COLS,), (3, COLS), (2, COLS, 3), (2, COLS, 3, 4), (2, COLS, 3, 2, 5), (1, COLS, 1, 7)]


def classes_out(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:1] + shape[2:] if len(shape) > 1 else ()


def gradients(loss: torch.Tensor, reference: torch.Tensor) -> None:
    upstream = torch.randn_like(loss)
    loss.backward(upstream)
    reference.backward(upstream.double())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logits_of_any_dimensions(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    logits = torch.randn(shape, requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    ours, theirs = options_with_weight(options, COLS)
    target = torch.randint(COLS, classes_out(shape))
    if target.dim():
        target.view(-1)[0] = ours.get("ignore_index", -100)
    loss = tt.cross_entropy(logits, target, **ours)
    reference = torch.nn.functional.cross_entropy(exact, target, **theirs)
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    gradients(loss, reference)
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)


LAYOUTS: dict[str, Any] = {
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "batch_inside": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3))[..., :-3, 1:-2],
    "every_second": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logits_of_any_layout(layout: str) -> None:
    logits = LAYOUTS[layout](torch.randn(2, COLS, 3, 5)).detach().requires_grad_()
    exact = logits.detach().double().requires_grad_()
    target = torch.randint(COLS, (2, 3, 5))
    loss, lse = tt.cross_entropy(logits, target, reduction="none", return_lse=True)
    reference = torch.nn.functional.cross_entropy(exact, target, reduction="none")
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    torch.testing.assert_close(lse.detach().double(), torch.logsumexp(exact, 1).detach(), **CLOSE)
    assert loss.shape == lse.shape == target.shape
    gradients(loss, reference)
    torch.testing.assert_close(logits.grad.double(), exact.grad, **CLOSE)
    # Targets in another order of memory, and a transposed matrix.
    other = target.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(tt.cross_entropy(logits, other, reduction="none"), loss)
    matrix, classes = torch.randn(COLS, 6), torch.randint(COLS, (6,))
    torch.testing.assert_close(tt.cross_entropy(matrix.t(), classes), tt.cross_entropy(matrix.t().contiguous(), classes))


def test_logits_are_not_copied() -> None:
    logits, target = torch.randn(2, COLS, 64, 64), torch.randint(COLS, (2, 64, 64))
    for layout in ("channels_last", "batch_inside"):
        assert classes_of(LAYOUTS[layout](logits).movedim(1, -1), target) is not None
    assert classes_of(logits.movedim(1, -1), target) == {
        "rows": 2,
        "cols": COLS,
        "inner": 64 * 64,
        "logits_row_stride": COLS * 64 * 64,
        "logits_col_stride": 64 * 64,
        "logits_inner_stride": 1,
    }
    gradient = torch.ops.tunesmith.cross_entropy_backward(
        logits.movedim(1, -1), target, torch.zeros(2, 64, 64), torch.ones(()), None, None, None, *BACKWARD.values()
    )
    assert gradient.stride() == logits.movedim(1, -1).stride()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_of_more_dimensions(dtype: torch.dtype) -> None:
    logits = torch.randn(2, COLS, 3, 8).to(dtype).requires_grad_()
    exact = logits.detach().double().requires_grad_()
    target = torch.randint(COLS, (2, 3, 8))
    loss = tt.cross_entropy(logits, target, reduction="sum")
    reference = torch.nn.functional.cross_entropy(exact, target, reduction="sum")
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    gradients(loss, reference)
    # Half a unit in the last place of the result.
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=torch.finfo(dtype).eps, atol=2.0**-20)


@pytest.mark.parametrize("shape", [(2, COLS, 3, 4), (5, COLS)], ids=str)
def test_operators_of_strided_logits(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape).movedim(1, -1).requires_grad_()
    target = torch.randint(COLS, classes_out(shape))
    torch.library.opcheck(torch.ops.tunesmith.cross_entropy.default, (logits, target, None, *FORWARD.values(lse_low=True)))
    rest = (torch.full(target.shape, 4.0), torch.ones(()), torch.rand(target.shape), None, torch.randn(target.shape))
    operator = torch.ops.tunesmith.cross_entropy_backward.default
    torch.library.opcheck(operator, (logits.detach(), target, *rest, *BACKWARD.values()))


@pytest.mark.parametrize("offset", [1e4, 1e6])
@pytest.mark.parametrize("soft", [False, True], ids=["indices", "probabilities"])
@pytest.mark.parametrize("way", ["eager", "compiled", "torch.func"])
def test_gradients_of_large_logits(offset: float, soft: bool, way: str) -> None:
    """The probabilities are as accurate as the logits, although float32 cannot hold their lse."""
    logits = (torch.randn(6, COLS) * 3 + offset).requires_grad_()
    target = torch.rand(6, COLS).softmax(1) if soft else torch.tensor([0, 1, 2, 3, 4, -100])
    exact = logits.detach().double().requires_grad_()
    torch.nn.functional.cross_entropy(exact, target.double() if soft else target).backward()
    if way == "torch.func":
        found = torch.func.grad(tt.cross_entropy)(logits.detach(), target)
    else:
        loss = torch.compile(tt.cross_entropy, backend="aot_eager") if way == "compiled" else tt.cross_entropy
        loss(logits, target).backward()
        found = logits.grad
    # A few units of each probability.
    torch.testing.assert_close(found.double(), exact.grad, rtol=2e-6, atol=2e-8 if soft else 0)


SOFT: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.2, "reduction": "sum"},
]


@pytest.mark.parametrize("options", SOFT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_class_probabilities(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    logits = torch.randn(shape, requires_grad=True)
    target = torch.rand(shape).softmax(min(1, len(shape) - 1)).requires_grad_()
    exact = [tensor.detach().double().requires_grad_() for tensor in (logits, target)]
    ours, theirs = options_with_weight(options, COLS)
    loss = tt.cross_entropy(logits, target, **ours)
    reference = torch.nn.functional.cross_entropy(*exact, **theirs)
    assert loss.shape == reference.shape
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    gradients(loss, reference)
    torch.testing.assert_close(logits.grad.double(), exact[0].grad, **CLOSE)
    torch.testing.assert_close(target.grad.double(), exact[1].grad, **CLOSE)


def test_class_probabilities_with_z_loss_and_softcap() -> None:
    logits = torch.randn(5, COLS)
    logits[2, 3] = -torch.inf
    logits.requires_grad_()
    target = torch.rand(5, COLS).softmax(-1)
    target[2, 3] = 0
    exact = logits.detach().double().requires_grad_()
    loss, lse = tt.cross_entropy(logits, target, z_loss=0.01, softcap=2.0, scale=1.5, return_lse=True)
    capped = torch.where(exact == -torch.inf, exact, 2 * torch.tanh(1.5 * exact / 2))
    exact_lse = torch.logsumexp(capped, -1)
    # A masked class of probability 0 gives 0 * inf, as in torch.
    rows = [0, 1, 3, 4]
    torch.testing.assert_close(lse.detach().double(), exact_lse.detach(), **CLOSE)
    assert loss.isnan()
    separate = tt.cross_entropy(logits, target, z_loss=0.01, softcap=2.0, scale=1.5, reduction="none")[rows]
    terms = torch.nn.functional.cross_entropy(capped[rows], target[rows].double(), reduction="none")
    reference = terms + 0.01 * exact_lse[rows] ** 2
    torch.testing.assert_close(separate.detach().double(), reference.detach(), **CLOSE)
    (separate.sum() + lse[:2].sum()).backward()
    (reference.sum() + exact_lse[:2].sum()).backward()
    torch.testing.assert_close(logits.grad[rows].double(), exact.grad[rows], **CLOSE)


def test_class_probabilities_of_several_dtypes() -> None:
    logits = torch.randn(4, COLS).bfloat16().requires_grad_()
    target = torch.rand(4, COLS).softmax(-1)
    exact = logits.detach().double().requires_grad_()
    loss = tt.cross_entropy(logits, target.double())
    reference = torch.nn.functional.cross_entropy(exact, target.double())
    torch.testing.assert_close(loss.detach().double(), reference.detach(), **CLOSE)
    gradients(loss, reference)
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=2.0**-8, atol=2.0**-20)
    one_hot = torch.nn.functional.one_hot(torch.arange(4), COLS).bfloat16()
    torch.testing.assert_close(tt.cross_entropy(logits, one_hot), tt.cross_entropy(logits, torch.arange(4)), **CLOSE)


@pytest.mark.parametrize("probabilities", [False, True])
def test_functional_gradients_of_any_target(probabilities: bool) -> None:
    logits = torch.randn(2, COLS, 3)
    target = torch.rand(2, COLS, 3).softmax(1) if probabilities else torch.randint(COLS, (2, 3))
    ours = torch.func.grad(lambda x: tt.cross_entropy(x, target))(logits)
    exact = torch.func.grad(lambda x: torch.nn.functional.cross_entropy(x, target))(logits)
    torch.testing.assert_close(ours, exact, **CLOSE)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(tt.cross_entropy(logits, target), logits, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        gradient.sum().backward()


def test_compiled_losses_of_any_target() -> None:
    def losses(logits: torch.Tensor, classes: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
        return tt.cross_entropy(logits, classes) + tt.cross_entropy(logits, probabilities, label_smoothing=0.1)

    classes, probabilities = torch.randint(COLS, (2, 3, 4)), torch.rand(2, COLS, 3, 4).softmax(1)
    found = []
    torch.manual_seed(5)
    for function in (losses, torch.compile(losses, backend="aot_eager", fullgraph=True)):
        logits = torch.linspace(-3, 3, 2 * COLS * 12).reshape(2, COLS, 3, 4).requires_grad_()
        function(logits, classes, probabilities).backward()
        found.append(logits.grad)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_logits_without_classes_or_positions(reduction: str) -> None:
    empty = torch.zeros(3, 0)
    for shape, target in [
        ((3, 0), torch.full((3,), -100)),
        ((0, 0), torch.zeros(0, dtype=torch.int64)),
        ((3, 0), empty),
        ((0, COLS), torch.zeros(0, dtype=torch.int64)),
        ((0, COLS), torch.zeros(0, COLS)),
        ((2, COLS, 0), torch.zeros(2, 0, dtype=torch.int64)),
        ((2, COLS, 0), torch.zeros(2, COLS, 0)),
    ]:
        logits = torch.zeros(shape, requires_grad=True)
        loss = tt.cross_entropy(logits, target, reduction=reduction)
        reference = torch.nn.functional.cross_entropy(torch.zeros(shape), target, reduction=reduction)
        torch.testing.assert_close(loss.detach(), reference, equal_nan=True)
        loss.sum().backward()
        assert logits.grad.shape == shape
    loss, lse = tt.cross_entropy(torch.zeros(2, 0, 3), torch.full((2, 3), -100), reduction="none", return_lse=True)
    assert loss.eq(0).all() and loss.shape == lse.shape == (2, 3) and lse.eq(-torch.inf).all()
    with pytest.raises(ValueError, match="target has the shape"):
        tt.cross_entropy(torch.zeros(2, 0, 3), torch.zeros(2, dtype=torch.int64), reduction=reduction)
    with pytest.raises(IndexError, match="out of bounds"):
        tt.cross_entropy(empty, torch.zeros(3, dtype=torch.int64), reduction=reduction)


def test_z_loss_and_softcap() -> None:
    logits, target = torch.randn(5, COLS), targets()
    loss = tt.cross_entropy(logits, target, z_loss=0.01, softcap=2.0)
    capped = 2 * torch.tanh(logits.double() / 2)
    z = (torch.logsumexp(capped, -1)[target >= 0] ** 2).mean()
    torch.testing.assert_close(loss.double(), torch.nn.functional.cross_entropy(capped, target) + 0.01 * z, **CLOSE)


def test_what_cross_entropy_rejects() -> None:
    with pytest.raises(ValueError, match="ignore_index is 3"):
        tt.cross_entropy(torch.randn(5, COLS), torch.randn(5, COLS), ignore_index=3)
    with pytest.raises(ValueError, match="expected that of input"):
        tt.cross_entropy(torch.randn(5, COLS), torch.randn(5, COLS - 1))
    with pytest.raises(ValueError, match="label_smoothing is 2"):
        tt.cross_entropy(torch.randn(5, COLS), torch.randn(5, COLS), label_smoothing=2)
    with pytest.raises(ValueError, match="no dimensions"):
        tt.cross_entropy(torch.randn(()), torch.zeros((), dtype=torch.int64))
    with pytest.raises(ValueError, match="target has the shape"):
        tt.cross_entropy(torch.randn(5, COLS), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="label_smoothing is 2"):
        tt.cross_entropy(torch.randn(5, COLS), targets(), label_smoothing=2)


def test_class_weights_have_no_gradient() -> None:
    logits, weight = torch.randn(3, 7, requires_grad=True), torch.rand(7, requires_grad=True)
    for target in (torch.tensor([1, 2, 3]), torch.rand(3, 7)):
        with pytest.raises(NotImplementedError, match="cross_entropy has no gradient of weight"):
            tt.cross_entropy(logits, target, weight)
        with torch.no_grad():
            tt.cross_entropy(logits, target, weight)
    with pytest.raises(NotImplementedError, match="linear_cross_entropy has no gradient of weight"):
        tt.linear_cross_entropy(torch.randn(3, 8), torch.randn(7, 8), torch.tensor([1, 2, 3]), weight=weight)
