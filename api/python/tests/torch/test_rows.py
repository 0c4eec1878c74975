"""softmax, log_softmax and rms_norm against PyTorch in float64: one table of samples through all ways of calling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tunesmith.torch as tt
from tunesmith.torch.softmax import FORWARD

# Half a unit in the last place, relative.
EPS = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
COLS = 24

LAYOUTS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "contiguous": lambda dtype: torch.randn(4, COLS, dtype=dtype),
    "strided rows": lambda dtype: torch.randn(8, 2 * COLS, dtype=dtype)[::2, :COLS],
    "misaligned": lambda dtype: torch.randn(4, COLS + 1, dtype=dtype)[:, 1:],
    "transposed": lambda dtype: torch.randn(COLS, 4, dtype=dtype).t(),
    "expanded": lambda dtype: torch.randn(1, COLS, dtype=dtype).expand(4, COLS),
    "three dimensions": lambda dtype: torch.randn(2, 2, COLS, dtype=dtype),
    "one dimension": lambda dtype: torch.randn(COLS, dtype=dtype),
    "empty": lambda dtype: torch.randn(0, COLS, dtype=dtype),
}


def close(actual: torch.Tensor, exact: torch.Tensor, roundings: int = 1) -> None:
    """Compare with float64: `roundings` of the result's dtype, and 32 of float32 for what is computed in it."""
    tolerance = roundings * EPS[actual.dtype] + 32 * EPS[torch.float32]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_softmax_of_every_layout(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    y = tt.softmax(x)
    assert y.dtype == dtype
    close(y, torch.softmax(x.double(), -1))


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_any_dimension_and_its_gradient(function: str, dim: int) -> None:
    x = torch.randn(4, COLS, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    weights = torch.randn(4, COLS)
    y = getattr(tt, function)(x, dim)
    reference = getattr(torch, function)(exact, dim)
    close(y.detach(), reference.detach())
    (y * weights).sum().backward()
    (reference * weights).sum().backward()
    close(x.grad, exact.grad)


IMAGES: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "contiguous": lambda dtype: torch.randn(2, 5, 4, 3, dtype=dtype),
    "channels last": lambda dtype: torch.randn(2, 5, 4, 3, dtype=dtype).to(memory_format=torch.channels_last),
    "padded": lambda dtype: torch.randn(2, 5, 4, 8, dtype=dtype)[..., :3],
    "every second row": lambda dtype: torch.randn(4, 5, 4, 3, dtype=dtype)[::2],
    "misaligned": lambda dtype: torch.randn(2, 5, 4, 3 + 1, dtype=dtype).flatten()[1:121].view(2, 5, 4, 3),
    "permuted": lambda dtype: torch.randn(3, 2, 4, 5, dtype=dtype).permute(1, 3, 2, 0),
    "expanded": lambda dtype: torch.randn(1, 5, 4, 3, dtype=dtype).expand(2, 5, 4, 3),
}


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("layout", IMAGES)
def test_every_dimension_of_images(layout: str, dim: int, function: str) -> None:
    for dtype in EPS:
        x = IMAGES[layout](dtype).requires_grad_()
        exact = x.detach().double().requires_grad_()
        weights = torch.randn(2, 5, 4, 3, dtype=dtype)
        y = getattr(tt, function)(x, dim)
        reference = getattr(torch, function)(exact, dim)
        close(y.detach(), reference.detach())
        (given,) = torch.autograd.grad(y, x, weights)
        # The gradient of the rounded result, which is what the kernel gets.
        rounded = y.detach().double()
        probabilities = rounded if function == "softmax" else rounded.exp()
        terms = weights.double() * (probabilities if function == "softmax" else 1)
        total = terms.sum(dim, keepdim=True)
        expected = probabilities * (weights.double() - total) if function == "softmax" else weights - probabilities * total
        close(given, expected)


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "misaligned", "every second row"])
def test_a_dimension_of_dense_images_takes_no_copy(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tensor: torch.Tensor) -> torch.Tensor:
        raise AssertionError(f"a copy of a tensor with the strides {tensor.stride()}")

    monkeypatch.setattr("tunesmith.torch.launchers.plain", refuse)
    x = IMAGES[layout](torch.float32).requires_grad_()
    y = tt.softmax(x, 1)
    y.backward(torch.randn_like(y))  # of the same layout, as PyTorch's gradients
    if x.is_contiguous():
        assert y.is_contiguous() and x.grad is not None and x.grad.is_contiguous()


def test_a_dimension_with_out_in_place_and_compiled_fake_strides() -> None:
    x = torch.randn(2, 5, 4, 3)
    exact = torch.softmax(x.double(), 1)
    out = torch.full_like(x, torch.nan)
    assert tt.softmax(x, 1, out=out) is out
    close(out, exact)
    tt.softmax(x, 1, out=x)
    close(x, exact)
    for layout in IMAGES.values():
        sample = layout(torch.float32).movedim(1, -1)
        torch.library.opcheck(torch.ops.tunesmith.softmax.default, (sample, *FORWARD["softmax"].values()))


def test_options() -> None:
    x = torch.randn(COLS, COLS)
    x[1:3] = -torch.inf
    close(tt.softmax(x, scale=0.5, dtype=torch.float16)[3:], torch.softmax(0.5 * x[3:].double(), -1))
    assert (tt.softmax(x, safe=True)[1:3] == 0).all()
    masked = torch.randn(COLS, COLS)
    hidden = torch.ones(COLS, COLS).triu(1).bool()
    close(tt.softmax(masked, causal=True), torch.softmax(masked.double().masked_fill(hidden, -torch.inf), -1))


def test_out_and_in_place() -> None:
    x = torch.randn(4, COLS)
    exact = torch.softmax(x.double(), -1)
    out = torch.full_like(x, torch.nan)
    version = out._version
    assert tt.softmax(x, out=out) is out
    close(out, exact)
    assert out._version > version
    tt.softmax(x, out=x)
    close(x, exact)


def test_what_out_rejects() -> None:
    x = torch.randn(4, COLS)
    with pytest.raises(ValueError, match="out has the shape"):
        tt.softmax(x, out=torch.empty(3, COLS))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        tt.softmax(x.requires_grad_(), out=torch.empty(4, COLS))


def test_a_saved_tensor_that_is_overwritten_is_noticed() -> None:
    x = torch.randn(4, COLS, requires_grad=True)
    y = x * 1
    z = y.exp()
    with torch.no_grad():
        tt.softmax(z, out=z)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_lazy_negative_views_are_resolved() -> None:
    x = torch.randn(4, COLS, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    close(tt.softmax(x), torch.softmax(x.double(), -1))


def test_autocast_gives_float32() -> None:
    x = torch.randn(4, COLS, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        assert tt.softmax(x).dtype == torch.float32


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(mode: Callable[[], Any]) -> None:
    x = torch.randn(4, COLS, requires_grad=True)
    with mode():
        y = tt.softmax(x)
    assert not y.requires_grad


def test_vmap_and_grad() -> None:
    x = torch.randn(3, 4, COLS)
    close(torch.vmap(tt.softmax)(x), torch.softmax(x.double(), -1))
    close(torch.vmap(tt.softmax, in_dims=1)(x), torch.softmax(x.double(), -1).transpose(0, 1))


def test_a_subclass_goes_through_the_dispatcher() -> None:
    class Tagged(torch.Tensor):
        pass

    x = torch.randn(4, COLS)
    y = tt.softmax(x.as_subclass(Tagged))
    assert isinstance(y, Tagged)
    close(y.as_subclass(torch.Tensor), torch.softmax(x.double(), -1))


@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_and_its_gradient(weighted: bool) -> None:
    x = torch.randn(2, 3, COLS, requires_grad=True)
    weight = torch.randn(COLS, requires_grad=True) if weighted else None
    exact = x.detach().double().requires_grad_()
    exact_weight = weight.detach().double().requires_grad_() if weight is not None else None
    y = tt.rms_norm(x, (COLS,), weight, 1e-5)
    reference = torch.nn.functional.rms_norm(exact, (COLS,), exact_weight, 1e-5)
    close(y.detach(), reference.detach())
    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    (reference * weights).sum().backward()
    close(x.grad, exact.grad)
    if weight is not None:
        close(weight.grad, exact_weight.grad, roundings=2 * 3)  # a sum over six rows


def test_rms_norm_of_16_bits_with_a_float32_weight_and_an_offset() -> None:
    x, weight = torch.randn(4, COLS, dtype=torch.bfloat16), torch.randn(COLS)
    y = tt.rms_norm(x, None, weight, 1e-6, weight_offset=1.0)
    close(y, torch.nn.functional.rms_norm(x.double(), (COLS,), weight.double() + 1, 1e-6))
    with pytest.raises(NotImplementedError, match="normalized_shape"):
        tt.rms_norm(x, (4, COLS))


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0,), (2, 0, 3)])
@pytest.mark.parametrize("dim", [-1, 0])
def test_tensors_without_elements(shape: tuple[int, ...], dim: int) -> None:
    x = torch.empty(shape, requires_grad=True)
    for ours, theirs in ((tt.softmax, torch.softmax), (tt.log_softmax, torch.log_softmax)):
        y = ours(x, dim)
        assert y.shape == theirs(x, dim).shape
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.shape == x.shape
    assert tt.rms_norm(x).shape == x.shape
    out = torch.empty(shape)
    assert tt.softmax(x.detach(), out=out) is out


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_rows_without_columns(function: str) -> None:
    for shape, dim in [((3, 0), -1), ((2, 0, 4), 1), ((0,), 0)]:
        x = torch.empty(shape, requires_grad=True)
        y = getattr(tt, function)(x, dim)
        assert y.shape == getattr(torch, function)(x, dim).shape
        y.sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape
        out = torch.empty(shape)
        assert getattr(tt, function)(x.detach(), dim, out=out) is out


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_of_a_weight_of_a_vector(compiled: bool) -> None:
    x, weight = torch.randn(COLS, requires_grad=True), torch.randn(COLS, requires_grad=True)
    function = torch.compile(tt.rms_norm, backend="aot_eager", fullgraph=True) if compiled else tt.rms_norm
    y = function(x, None, weight, 1e-3)
    upstream = torch.randn(COLS)
    y.backward(upstream)
    exact = [one.detach().double().requires_grad_() for one in (x, weight)]
    torch.nn.functional.rms_norm(exact[0], (COLS,), exact[1], 1e-3).backward(upstream.double())
    for ours, theirs in zip((x, weight), exact, strict=True):
        assert ours.grad is not None
        close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    "name", ["softmax", "losses", "linear_losses", "rms_norm", "row_program", "vocab_parallel", "attention", "paged"]
)
def test_launchers_of_all_modules_are_bounded(name: str) -> None:
    import importlib

    from tunesmith.torch.operators import Operator

    module = importlib.import_module(f"tunesmith.torch.{name}")
    values = [one.launcher if isinstance(one, Operator) else one for one in vars(module).values()]
    caches = [one for one in values if hasattr(one, "cache_info")]
    assert caches and all(one.cache_parameters()["maxsize"] is not None for one in caches)


def test_a_scale_that_is_a_tensor_is_read_in_every_call() -> None:
    x, scale = torch.randn(2, COLS), torch.tensor(1.0)
    for value in (1.0, 2.0):
        scale.fill_(value)
        close(tt.softmax(x, scale=scale), torch.softmax(value * x.double(), -1))
        close(tt.rms_norm(x, None, None, scale), torch.nn.functional.rms_norm(x.double(), (COLS,), None, value))
    logits, target = torch.randn(2, COLS), torch.tensor([1, 2])
    for value in (1.0, 2.0):
        scale.fill_(value)
        loss = tt.cross_entropy(logits, target, scale=scale)
        close(loss, torch.nn.functional.cross_entropy(value * logits.double(), target), roundings=16)
