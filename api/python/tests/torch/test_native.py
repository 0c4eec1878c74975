"""The native launcher: what autograd, modes and transforms see of its calls. Numerics are in the other files."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tunesmith.torch import attention, cross_entropy, log_softmax, native, rms_norm, softmax

pytestmark = pytest.mark.skipif(native.load() is None, reason="the native launcher is not compiled (scripts/test_torch.sh)")


def logits() -> torch.Tensor:
    return torch.randn(3, 40, requires_grad=True)


def heads(requires_grad: bool = True) -> list[torch.Tensor]:
    return [torch.randn(1, 8, 2, 16, requires_grad=requires_grad) for _ in range(3)]


TARGET = torch.tensor([1, 39, -100])
CALLS: dict[str, tuple[Callable[[], Any], Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "softmax": (
        lambda: [logits()],
        softmax,
        lambda x: torch.softmax(x, -1),
    ),
    "log_softmax": (lambda: [logits()], log_softmax, lambda x: torch.log_softmax(x, -1)),
    "cross_entropy": (
        lambda: [logits()],
        lambda x: cross_entropy(x, TARGET),
        lambda x: torch.nn.functional.cross_entropy(x, TARGET),
    ),
    "rms_norm": (
        lambda: [logits(), torch.randn(40, requires_grad=True)],
        lambda x, weight: rms_norm(x, weight=weight, eps=1e-6),
        lambda x, weight: torch.nn.functional.rms_norm(x, (40,), weight, 1e-6),
    ),
    "attention": (
        heads,
        attention,
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        ).transpose(1, 2),
    ),
}


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> Iterator[Any]:
    inputs, ours, theirs = CALLS[request.param]
    yield inputs(), ours, theirs


def is_native(result: torch.Tensor) -> bool:
    return result.grad_fn is not None and "Tunesmith" in result.grad_fn.name()


def test_gradients_are_those_of_torch(call: Any) -> None:
    inputs, ours, theirs = call
    result = ours(*inputs)
    assert is_native(result)
    upstream = torch.randn_like(result)
    found = torch.autograd.grad(result, inputs, upstream)
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = torch.autograd.grad(theirs(*exact), exact, upstream.double())
    for one, other in zip(found, expected, strict=True):
        # Each is a sum of at most 40 products of float32 numbers below 8 in magnitude: 40 * 8 * 2^-24 is 2e-5.
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)


def test_only_inputs_that_require_grad_get_one() -> None:
    q, k, v = heads(requires_grad=False)
    k.requires_grad_()
    result = attention(q, k, v)
    assert is_native(result)
    result.sum().backward()
    assert k.grad is not None and q.grad is None and v.grad is None


def test_graphs_are_retained_and_released(call: Any) -> None:
    inputs, ours, _ = call
    result = ours(*inputs).sum()
    result.backward(retain_graph=True)
    first = inputs[0].grad.clone()
    result.backward()
    torch.testing.assert_close(inputs[0].grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_second_derivatives_are_right_or_rejected(call: Any) -> None:
    inputs, ours, theirs = call
    gradients = torch.autograd.grad(ours(*inputs).pow(2).sum(), inputs, create_graph=True)
    if ours not in [CALLS[name][1] for name in ("softmax", "log_softmax", "rms_norm")]:
        with pytest.raises(NotImplementedError, match="second derivative"):
            gradients[0].sum().backward()
        return
    found = torch.autograd.grad(sum(one.pow(2).sum() for one in gradients), inputs)
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    gradients = torch.autograd.grad(theirs(*exact).pow(2).sum(), exact, create_graph=True)
    expected = torch.autograd.grad(sum(one.pow(2).sum() for one in gradients), exact)
    for one, other in zip(found, expected, strict=True):
        # Sums of some hundred products in float32, relative to the largest: 200 * 2^-24 is 1.2e-5.
        torch.testing.assert_close(one.double(), other, rtol=1.2e-5, atol=1.2e-5 * other.abs().max().item())


def test_an_absent_weight_has_no_gradient() -> None:
    x = logits()
    result = rms_norm(x, eps=1e-6)
    assert is_native(result)
    (found,) = torch.autograd.grad(result.pow(2).sum(), x)
    exact = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(torch.nn.functional.rms_norm(exact, (40,), None, 1e-6).pow(2).sum(), exact)
    torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=2e-5)


def test_changed_inputs_and_outputs_are_noticed() -> None:
    x = logits()
    y = softmax(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x = torch.randn(3, 40, requires_grad=True).clone()
    loss = cross_entropy(x, TARGET)
    with torch.no_grad():
        softmax(x, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_out_counts_a_version() -> None:
    x, y = torch.randn(3, 40), torch.empty(3, 40)
    version = y._version
    assert softmax(x, out=y) is y
    assert y._version == version + 1
    assert x._version == 0


def test_saved_tensor_hooks_and_checkpoints(call: Any) -> None:
    inputs, ours, _ = call
    expected = torch.autograd.grad(ours(*inputs).pow(2).sum(), inputs)
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = ours(*inputs)
    assert packed
    found = torch.autograd.grad(result.pow(2).sum(), inputs)
    again = torch.utils.checkpoint.checkpoint(ours, *inputs, use_reentrant=False)
    for one, two, three in zip(expected, found, torch.autograd.grad(again.pow(2).sum(), inputs), strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)


def test_the_gradient_of_lse_alone() -> None:
    x = logits()
    loss, lse = cross_entropy(x, TARGET, return_lse=True)
    assert is_native(loss) and is_native(lse)
    (found,) = torch.autograd.grad(lse.sum(), x)
    torch.testing.assert_close(found, torch.softmax(x.detach(), -1), rtol=2e-5, atol=1e-6)


def test_attention_returns_lse_without_a_gradient() -> None:
    result, lse = attention(*heads(), return_lse=True)
    assert result.requires_grad and not lse.requires_grad


def test_nothing_is_recorded_without_grad(call: Any) -> None:
    inputs, ours, _ = call
    with torch.no_grad():
        assert ours(*inputs).grad_fn is None
    with torch.inference_mode():
        assert ours(*inputs).is_inference()
    with torch._C._AutoDispatchBelowAutograd():
        assert ours(*inputs).grad_fn is None


class Names(TorchDispatchMode):
    """Collects the names of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Counts functions."""

    count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_modes_see_the_operators(call: Any) -> None:
    inputs, ours, _ = call
    with Names() as mode:
        ours(*inputs)
    assert any("tunesmith" in name for name in mode.names)
    with Functions() as functions:
        ours(*inputs)
    assert functions.count > 0


def test_transforms_and_views_keep_their_values(call: Any) -> None:
    inputs, ours, _ = call
    expected = torch.autograd.grad(ours(*inputs).pow(2).sum(), inputs[:1])[0]
    plain = [tensor.detach() for tensor in inputs]
    found = torch.func.grad(lambda *tensors: ours(*tensors).pow(2).sum())(*plain)
    # Under torch.func, PyTorch's operations compute the gradient of rms_norm, which may have derivatives.
    torch.testing.assert_close(found, expected, rtol=0, atol=32 * 2.0**-24 * expected.abs().max().item())
    negative = [torch._neg_view(tensor) for tensor in plain]
    assert negative[0].is_neg()
    assert torch.equal(ours(*negative), ours(*[-tensor for tensor in plain]))


def test_vmap() -> None:
    x = torch.randn(2, 3, 40)
    assert torch.equal(torch.vmap(softmax)(x), softmax(x))
    gradient = torch.func.grad(lambda one: softmax(one).pow(2).sum())
    torch.testing.assert_close(torch.vmap(gradient)(x), torch.stack([gradient(one) for one in x]))


def test_subclasses_and_fake_tensors_are_left_to_torch() -> None:
    class Marked(torch.Tensor):
        """A subclass without behaviour of its own."""

    assert isinstance(softmax(torch.randn(3, 40).as_subclass(Marked)), Marked)
    with torch._subclasses.FakeTensorMode():
        fake = softmax(torch.randn(3, 40))
    assert isinstance(fake, torch._subclasses.FakeTensor)


def test_autocast_casts() -> None:
    x = torch.randn(3, 40, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax(x).dtype == torch.float32
        assert attention(*heads()).dtype == torch.bfloat16
    assert softmax(x).dtype == torch.bfloat16


def test_forward_mode_is_not_ignored() -> None:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.randn(3, 40), torch.randn(3, 40))
        with pytest.raises(NotImplementedError, match="jvp"):
            cross_entropy(dual, TARGET)
        for found, expected in ((softmax(dual), torch.softmax(dual, -1)), (log_softmax(dual), torch.log_softmax(dual, -1))):
            tangents = [torch.autograd.forward_ad.unpack_dual(one).tangent for one in (found, expected)]
            torch.testing.assert_close(tangents[0], tangents[1], rtol=1e-5, atol=1e-6)


def test_parameters_are_tensors() -> None:
    x, weight = torch.randn(3, 40), torch.nn.Parameter(torch.ones(40))
    torch.testing.assert_close(rms_norm(x, weight=weight, eps=1e-6), torch.nn.functional.rms_norm(x, (40,), weight, 1e-6))


def test_errors_are_those_of_the_operators() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        cross_entropy(torch.randn(3, 40), torch.zeros(4, dtype=torch.int64))


def test_graphs_hold_nothing_after_their_end(call: Any) -> None:
    inputs, ours, _ = call
    result = ours(*inputs)
    result.sum().backward()
    leaf, output = weakref.ref(inputs[0]), weakref.ref(result)
    inputs.clear()
    del result
    gc.collect()
    assert output() is None
    assert leaf() is None


def test_threads_share_launchers() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for rows in range(1, 12):
                x = torch.randn(rows + seed, 40, requires_grad=True)
                y = softmax(x)
                torch.testing.assert_close(y, torch.softmax(x, -1))
                y.pow(2).sum().backward()
                assert x.grad is not None
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
