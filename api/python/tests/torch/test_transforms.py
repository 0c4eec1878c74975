"""vmap, torch.func and forward-mode autograd of everything but softmax and the losses, whose own tests have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn import functional

import tunesmith.torch as tt
from tunesmith.row_programs import over_rows
from tunesmith.torch import vmap as rules

COLS = 24
STARTS = torch.tensor([0, 3, 9], dtype=torch.int32)
PLUS_ROW = "in x : float[row, col]\nout y : float[row, col] = x + row\n"
ROWS_ALONE = (
    "in x : float[row, col]\nin r : float[row]\nsum s = x * r\nout t : f32[row] = s\nout y : float[row, col] = x * s"
)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    return tt.attention(q, k, v, causal=True, **options)


def varlen(q: torch.Tensor) -> torch.Tensor:
    return tt.attention_varlen(q, q, q, STARTS, STARTS, 6, 6)


def later(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + b  # each batch is another problem


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int | None, ...]]] = {
    # name: function, shapes of its inputs with the batch of vmap in front, in_dims
    "rms_norm": (lambda x: tt.rms_norm(x), [(3, 4, COLS)], (0,)),
    "rms_norm of vectors": (lambda x: tt.rms_norm(x), [(3, COLS)], (0,)),
    "rms_norm, one weight": (lambda x, w: tt.rms_norm(x, weight=w), [(3, 4, COLS), (COLS,)], (0, None)),
    "rms_norm, weights": (lambda x, w: tt.rms_norm(x, weight=w), [(3, 4, COLS), (3, COLS)], (0, 0)),
    "rms_norm, weights alone": (lambda x, w: tt.rms_norm(x, weight=w), [(4, COLS), (3, COLS)], (None, 0)),
    "rms_norm, inner batch": (lambda x: tt.rms_norm(x), [(4, 3, COLS)], (1,)),
    "attention": (attention, [(3, 2, 9, 2, 16)] * 3, (0, 0, 0)),
    "attention, one cache": (attention, [(3, 2, 9, 2, 16), (2, 9, 2, 16), (2, 9, 2, 16)], (0, None, None)),
    "attention, inner batch": (attention, [(2, 3, 9, 2, 16)] * 3, (1, 1, 1)),
    "attention, slopes": (
        lambda q, slopes: attention(q, q, q, alibi_slopes=slopes),
        [(3, 2, 9, 2, 16), (3, 2)],
        (0, 0),
    ),
    "attention, a mod": (lambda q: attention(q, q, q, score_mod=later), [(3, 2, 9, 2, 16)], (0,)),
    "attention_varlen": (varlen, [(3, 9, 2, 16)], (0,)),
    "layer_norm": (tt.layer_norm, [(3, 4, COLS), (COLS,), (COLS,)], (0, None, None)),
    "layer_norm, weights": (tt.layer_norm, [(3, 4, COLS), (3, COLS), (3, COLS)], (0, 0, 0)),
    "swiglu": (tt.swiglu, [(3, 4, COLS), (3, 4, COLS)], (0, 0)),
    "swiglu, one gate": (tt.swiglu, [(4, COLS), (3, 4, COLS)], (None, 0)),
    "a program of the row": (lambda x: tt.row_program(PLUS_ROW, x), [(3, 4, COLS)], (0,)),
    "a program with rows alone": (lambda x, r: tt.row_program(ROWS_ALONE, x, r), [(3, 4, COLS), (3, 4)], (0, 0)),
}


def sample(shapes: list[tuple[int, ...]]) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape) for shape in shapes]


@pytest.mark.parametrize("case", CASES)
def test_vmap_is_a_loop(case: str) -> None:
    function, shapes, in_dims = CASES[case]
    inputs = sample(shapes)
    found = torch.vmap(function, in_dims)(*inputs)
    expected = [
        function(*(one if dim is None else one.select(dim, i) for one, dim in zip(inputs, in_dims, strict=True)))
        for i in range(3)
    ]
    if torch.is_tensor(found):
        found, expected = (found,), [(one,) for one in expected]
    for output, each in zip(found, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(output, torch.stack(each))


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        (PLUS_ROW, None),
        (ROWS_ALONE, [True, True]),
        ("in x : float[row, col]\nout y : float[row,col] = x / rows", None),
        ("in x : float[row, col]\nin w : f32[col]\nout y : float[row, col] = x * w # of each row", [True, False]),
        ("in x : float[row, col]\ncolsum s : f32[col] = x", None),
        ("in x : float[row, col]\nnum seed : i32 = 1\nout y : float[row, col] = x * uniform(seed, 0)", None),
    ],
)
def test_programs_that_see_their_row_alone_take_one_launch(program: str, rows: list[bool] | None) -> None:
    assert over_rows(program) == rows


def test_one_launch_for_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, q = torch.randn(3, 4, COLS), torch.randn(3, 2, 9, 2, 16)

    def loop(*_: Any) -> Any:
        raise AssertionError("a loop")

    monkeypatch.setattr(rules, "looped", lambda operator: loop)
    torch.vmap(tt.rms_norm)(x)
    torch.vmap(tt.swiglu)(x, x)
    torch.vmap(torch.func.grad(lambda x, p: tt.cross_entropy(x, p).sum(), (0, 1)))(x, x.softmax(-1))
    torch.vmap(attention)(q, q, q)


@pytest.mark.parametrize("weights", [None, 0])
def test_gradients_of_each_sample(weights: int | None) -> None:
    x, *w = sample([(3, 4, COLS), (COLS,) if weights is None else (3, COLS)])
    upstream = torch.randn(4, COLS)

    def loss(norm: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, w: (norm(x, (COLS,), w, 1e-5) * upstream).sum()

    found = torch.vmap(torch.func.grad(loss(tt.rms_norm), (0, 1)), (0, weights))(x, *w)
    expected = torch.vmap(torch.func.grad(loss(functional.rms_norm), (0, 1)), (0, weights))(x, *w)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_of_each_sample_of_cross_entropy(reduction: str) -> None:
    (x,) = sample([(3, 5, COLS)])
    target = torch.randint(COLS, (3, 5))

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, target: function(x, target, reduction=reduction, label_smoothing=0.1).square().sum()

    found = torch.vmap(torch.func.grad(loss(tt.cross_entropy)))(x, target)
    torch.testing.assert_close(found, torch.vmap(torch.func.grad(loss(functional.cross_entropy)))(x, target))
    of_logits = torch.vmap(torch.func.grad(loss(tt.cross_entropy)), (0, None))(x, target[0])
    exact = torch.vmap(torch.func.grad(loss(functional.cross_entropy)), (0, None))(x, target[0])
    torch.testing.assert_close(of_logits, exact)


@pytest.mark.parametrize("in_dims", [(0, 0, None), (0, None, None), (None, 0, None), (0, 0, 0), (1, 0, None)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_of_each_sample_of_class_probabilities(reduction: str, in_dims: tuple[int | None, ...]) -> None:
    x, p, w = sample([(3, 5, COLS), (3, 5, COLS), (3, COLS)])
    given = [
        one[0] if dim is None else one.movedim(0, dim) for one, dim in zip((x, p.softmax(-1), w.exp()), in_dims, strict=True)
    ]

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        options = {"reduction": reduction, "label_smoothing": 0.1}
        return lambda x, p, w: function(x, p, w, **options).square().sum()

    found = torch.vmap(torch.func.grad(loss(tt.cross_entropy), (0, 1)), in_dims)(*given)
    expected = torch.vmap(torch.func.grad(loss(functional.cross_entropy), (0, 1)), in_dims)(*given)
    torch.testing.assert_close(found, expected)


def test_gradients_of_each_sample_of_class_probabilities_in_images() -> None:
    x, p = sample([(3, 2, COLS, 4), (3, 2, COLS, 4)])
    p = p.softmax(2)

    def loss(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        loss, lse = tt.cross_entropy(x, p, z_loss=0.01, softcap=2.0, scale=1.5, return_lse=True)
        return loss + (lse * lse).sum()

    def exact(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        capped = 2 * torch.tanh(1.5 * x / 2)
        lse = torch.logsumexp(capped, 1)
        return functional.cross_entropy(capped, p) + (0.01 * lse * lse).mean() + (lse * lse).sum()

    found = torch.vmap(torch.func.grad(loss, (0, 1)))(x, p)
    torch.testing.assert_close(found, torch.vmap(torch.func.grad(exact, (0, 1)))(x, p), rtol=1e-4, atol=1e-5)
    values = torch.vmap(loss)(x, p)  # without a gradient
    torch.testing.assert_close(values, torch.vmap(exact)(x, p))
    with pytest.raises(NotImplementedError, match="cross_entropy has no second derivative"):
        torch.vmap(torch.func.grad(lambda x, p: torch.func.grad(loss)(x, p).sum()))(x, p)
    with pytest.raises(NotImplementedError, match="cross_entropy has no forward-mode derivative"):
        torch.func.jvp(lambda x: tt.cross_entropy(x, p[0]), (x[0],), (x[0],))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
        tt.cross_entropy(forward_ad.make_dual(x[0], x[0].clone()), p[0])


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_of_each_sample_of_linear_cross_entropy(reduction: str) -> None:
    x, w, b = sample([(3, 5, 16), (COLS, 16), (COLS,)])
    target = torch.randint(COLS, (3, 5))

    def ours(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return tt.linear_cross_entropy(x, w, target, linear_bias=b, reduction=reduction).square().sum()

    def exact(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional.linear(x, w, b), target, reduction=reduction).square().sum()

    in_dims = (0, None, None, 0)
    found = torch.vmap(torch.func.grad(ours, (0, 1, 2)), in_dims)(x, w, b, target)
    expected = torch.vmap(torch.func.grad(exact, (0, 1, 2)), in_dims)(x, w, b, target)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights", [None, 0])
def test_gradients_of_each_sample_of_a_row_program(weights: int | None) -> None:
    shape = (COLS,) if weights is None else (3, COLS)
    x, *w = sample([(3, 4, COLS), shape, shape])
    upstream = torch.randn(4, COLS)

    def ours(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        return (tt.layer_norm(x, *w, eps=1e-5) * upstream).sum()

    def exact(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        return (functional.layer_norm(x, (COLS,), *w, 1e-5) * upstream).sum()

    in_dims = (0, weights, weights)
    found = torch.vmap(torch.func.grad(ours, (0, 1, 2)), in_dims)(x, *w)
    torch.testing.assert_close(found, torch.vmap(torch.func.grad(exact, (0, 1, 2)), in_dims)(x, *w))


def _masked(function: Callable[..., Any], causal: bool) -> Callable[..., Any]:
    """PyTorch's function, of columns 0 to the row's number if causal."""

    def masked(x: torch.Tensor) -> torch.Tensor:
        hidden = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
        return function(x.masked_fill(hidden, -torch.inf) if causal else x, -1)

    return masked


SOFTMAXES = {
    "softmax": (tt.softmax, _masked(torch.softmax, False)),
    "log_softmax": (tt.log_softmax, _masked(torch.log_softmax, False)),
    "causal": (lambda x: tt.softmax(x, causal=True), _masked(torch.softmax, True)),
    "scaled": (lambda x: tt.log_softmax(x, scale=0.5), lambda x: torch.log_softmax(0.5 * x, -1)),
    "scaled softmax": (lambda x: tt.softmax(x, scale=0.5), lambda x: torch.softmax(0.5 * x, -1)),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_second_and_forward_mode_derivatives_of_softmax(name: str) -> None:
    ours, exact = SOFTMAXES[name]
    x, dx, u = sample([(6, 6), (6, 6), (6, 6)])

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: (function(x).pow(2) * u.to(x.dtype)).sum()

    _, found = torch.func.jvp(ours, (x,), (dx,))
    _, expected = torch.func.jvp(exact, (x.double(),), (dx.double(),))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    with forward_ad.dual_level():
        dual = ours(forward_ad.make_dual(x, dx))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, found)
    hessian = torch.func.hessian(loss(exact))(x.double())
    for forward_over_reverse in (True, False):
        outer = torch.func.jacfwd if forward_over_reverse else torch.func.jacrev
        found = outer(torch.func.jacrev(loss(ours)))(x)
        torch.testing.assert_close(found.double(), hessian, rtol=1e-4, atol=1e-5)
    leaf, exact_leaf = x.clone().requires_grad_(), x.double().requires_grad_()
    for function, one in ((ours, leaf), (exact, exact_leaf)):
        (gradient,) = torch.autograd.grad(loss(function)(one), one, create_graph=True)
        (gradient * dx.to(gradient.dtype)).sum().backward()
    torch.testing.assert_close(leaf.grad.double(), exact_leaf.grad, rtol=1e-4, atol=1e-5)


def test_causal_log_softmax_has_first_derivatives_alone() -> None:
    (x,) = sample([(6, 6)])
    with pytest.raises(NotImplementedError, match="causal log_softmax"):
        torch.func.jvp(lambda x: tt.log_softmax(x, causal=True), (x,), (x,))


def test_row_programs_have_no_forward_mode() -> None:
    (x,) = sample([(4, COLS)])
    with pytest.raises(NotImplementedError, match="row_program has no forward-mode derivative"):
        torch.func.jvp(tt.swiglu, (x, x), (x, x))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="row_program has no forward-mode derivative"):
        tt.swiglu(forward_ad.make_dual(x, x), x)


@pytest.mark.parametrize("function", [lambda q: attention(q, q, q), varlen], ids=["attention", "attention_varlen"])
def test_gradients_of_each_sample_of_attention(function: Callable[..., Any]) -> None:
    (q,) = sample([(3, 9, 2, 16) if function is varlen else (3, 2, 9, 2, 16)])
    gradient = torch.func.grad(lambda q: function(q).square().sum())
    expected = []
    for one in q:
        leaf = one.clone().requires_grad_()
        function(leaf).square().sum().backward()
        assert leaf.grad is not None
        expected.append(leaf.grad)
    torch.testing.assert_close(torch.vmap(gradient)(q), torch.stack(expected))


@pytest.mark.parametrize("weighted", [False, True])
def test_forward_mode_of_rms_norm(weighted: bool) -> None:
    x, dx, w, dw = sample([(4, COLS), (4, COLS), (COLS,), (COLS,)])
    inputs, tangents = ((x, w), (dx, dw)) if weighted else ((x,), (dx,))

    def norm(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, w=None: function(x, (COLS,), w, 1e-5)

    def double(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.double() for tensor in tensors)

    y, dy = torch.func.jvp(norm(tt.rms_norm), inputs, tangents)
    exact, exact_dy = torch.func.jvp(norm(functional.rms_norm), double(inputs), double(tangents))
    torch.testing.assert_close(y.double(), exact, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(dy.double(), exact_dy, rtol=1e-5, atol=1e-5)
    with forward_ad.dual_level():
        dual = norm(tt.rms_norm)(*map(forward_ad.make_dual, inputs, tangents))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, dy)
    jacobian = torch.func.jacfwd(norm(tt.rms_norm))(*inputs)  # vmap of jvp
    torch.testing.assert_close(jacobian, torch.func.jacrev(norm(tt.rms_norm))(*inputs), rtol=1e-4, atol=1e-5)


def test_forward_over_reverse_of_rms_norm() -> None:
    x, dx = sample([(4, COLS), (4, COLS)])

    def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.func.grad(lambda x: function(x, (COLS,), None, 1e-5).pow(3).sum())

    _, found = torch.func.jvp(gradient(tt.rms_norm), (x,), (dx,))
    _, exact = torch.func.jvp(gradient(functional.rms_norm), (x.double(),), (dx.double(),))
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)
    leaf = x.clone().requires_grad_()
    with forward_ad.dual_level():  # without create_graph
        loss = tt.rms_norm(forward_ad.make_dual(leaf, dx), (COLS,), None, 1e-5).pow(3).sum()
        (dual,) = torch.autograd.grad(loss, leaf)
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, found)


@pytest.mark.parametrize("function", [lambda q: attention(q, q, q), varlen], ids=["attention", "attention_varlen"])
def test_attention_has_no_forward_mode_and_says_so(function: Callable[..., Any]) -> None:
    (q,) = sample([(9, 2, 16) if function is varlen else (2, 9, 2, 16)])
    with pytest.raises(NotImplementedError, match=r"attention\w* has no forward-mode derivative"):
        torch.func.jvp(function, (q,), (q,))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=r"attention\w* has no forward-mode derivative"):
        function(forward_ad.make_dual(q, q.clone()))
