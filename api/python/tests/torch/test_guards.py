"""What every function does with tensors that are not plain: views that are negated, subclasses, wrong devices, dtypes and
shapes, other strides; that calls from threads agree, and that nothing is kept alive."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sample_table import SAMPLES
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import tunesmith.torch as tt

# One sample of each function. Some are not in the table.
CALLS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], list[torch.Tensor]]]] = {
    **{
        name: (SAMPLES[name].function, SAMPLES[name].inputs)
        for name in (
            *("softmax", "log_softmax", "cross_entropy", "linear_cross_entropy", "rms_norm", "layer_norm"),
            *("attention", "attention of transposed bf16"),
        )
    },
    "attention_varlen": (
        lambda q, k, v, starts: tt.attention_varlen(q, k, v, starts, starts, 6, 6),
        lambda: [*(torch.randn(9, 2, 16) for _ in range(3)), torch.tensor([0, 3, 9], dtype=torch.int32)],
    ),
    "class probabilities": (tt.cross_entropy, lambda: [torch.randn(4, 24), torch.rand(4, 24).softmax(-1)]),
    "rms_norm with a weight": (lambda x, w: tt.rms_norm(x, weight=w), lambda: [torch.randn(4, 24), torch.randn(24)]),
    "swiglu": (tt.swiglu, lambda: [torch.randn(4, 24), torch.randn(4, 24)]),
}

# Functions that have kernels for float64.
FLOAT64 = [
    CALLS[name][0]
    for name in ("softmax", "log_softmax", "rms_norm", "rms_norm with a weight", "cross_entropy", "layer_norm", "swiglu")
]


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    function, make = CALLS[request.param]
    return function, make()


def changed(inputs: list[torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """Change the floating-point inputs."""
    return [change(one) if one.is_floating_point() else one for one in inputs]


def test_negated_views_have_their_values(call: Any) -> None:
    function, inputs = call
    negated = changed(inputs, lambda one: torch._neg_view(-one))
    assert all(one.is_neg() for one in negated if one.is_floating_point())
    torch.testing.assert_close(function(*negated), function(*inputs), rtol=0, atol=0)
    leaves = [one.detach().requires_grad_() for one in negated if one.is_floating_point()]
    plain = [one.detach().clone().requires_grad_() for one in inputs if one.is_floating_point()]
    others = [one for one in inputs if not one.is_floating_point()]
    for of_negated, of_plain in zip(
        torch.autograd.grad(function(*leaves, *others).sum(), leaves),
        torch.autograd.grad(function(*plain, *others).sum(), plain),
        strict=True,
    ):
        torch.testing.assert_close(of_negated, of_plain)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64, torch.int32], ids=str)
def test_dtypes_without_a_kernel_are_rejected(call: Any, dtype: torch.dtype) -> None:
    function, inputs = call
    if dtype == torch.float64 and function in FLOAT64:
        pytest.skip("the function has kernels for float64")
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=r"dtype|finfo|inputs are of|expected"):
        function(*changed(inputs, lambda one: one.to(dtype).conj()))


def test_parameters_are_read(call: Any) -> None:
    function, inputs = call
    with torch.no_grad():
        found = function(*changed(inputs, torch.nn.Parameter))
    torch.testing.assert_close(found, function(*inputs), rtol=0, atol=0)


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""


def test_subclasses_stay_subclasses(call: Any) -> None:
    function, inputs = call
    found = function(*changed(inputs, lambda one: one.as_subclass(Tagged)))
    assert isinstance(found, Tagged)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), function(*inputs), rtol=0, atol=0)


class Wrapped(torch.Tensor):
    """A subclass without memory, whose operations run on the tensor that it holds."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls: Any, held: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, strides=held.stride(), dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrapped(one: Any) -> Any:
            return one.held if isinstance(one, Wrapped) else one

        args, kwargs = torch.utils._pytree.tree_map(unwrapped, (args, kwargs or {}))
        return torch.utils._pytree.tree_map(
            lambda one: Wrapped(one) if isinstance(one, torch.Tensor) else one, function(*args, **kwargs)
        )


def test_subclasses_without_memory_see_the_operators(call: Any) -> None:
    function, inputs = call
    found = function(*changed(inputs, Wrapped))
    assert isinstance(found, Wrapped)
    torch.testing.assert_close(found.held, function(*inputs), rtol=0, atol=0)


def test_fake_and_meta_tensors_get_shapes_and_strides(call: Any) -> None:
    function, inputs = call
    expected = function(*inputs)
    meta = function(*[one.to("meta") for one in inputs])
    with FakeTensorMode() as mode:
        fake = function(*[mode.from_tensor(one) for one in inputs])
    assert isinstance(fake, FakeTensor)
    for found in (meta, fake):
        assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)


def test_tensors_on_two_devices_are_rejected(call: Any) -> None:
    function, inputs = call
    if len(inputs) == 1:
        pytest.skip("one tensor")
    for i in range(1, len(inputs)):
        mixed = [one.to("meta") if i == n else one for n, one in enumerate(inputs)]
        with pytest.raises((ValueError, RuntimeError), match=r"device|meta"):
            function(*mixed)


def test_other_strides_give_the_same(call: Any) -> None:
    function, inputs = call
    expected = function(*inputs)

    def spread(one: torch.Tensor) -> torch.Tensor:
        """Return a tensor with gaps between all elements, from an odd address."""
        wide = torch.zeros(*[2 * extent + 1 for extent in one.shape], dtype=one.dtype)
        view = wide[tuple(slice(1, None, 2) for _ in one.shape)]
        return view.copy_(one)

    found = function(*[spread(one) for one in inputs])
    # Another kernel may sum in another order.
    unit = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(found, expected, rtol=16 * unit, atol=16 * unit)


SHAPES = {
    "attention": (
        lambda q, k, v: tt.attention(q, k, v),
        [(2, 9, 2, 16)] * 3,
        {1: [(1, 9, 2, 16), (2, 9, 2, 8), (1, 18, 2, 16)], 2: [(2, 8, 2, 16), (2, 18, 1, 16), (2, 2, 9, 16)]},
    ),
    "attention_varlen": (
        lambda q, k, v: CALLS["attention_varlen"][0](q, k, v, torch.tensor([0, 3, 9], dtype=torch.int32)),
        [(9, 2, 16)] * 3,
        {1: [(9, 2, 8), (18, 2, 8)], 2: [(8, 2, 16), (2, 9, 16), (18, 1, 16)]},
    ),
    "cross_entropy": (
        lambda x, w: tt.cross_entropy(x, torch.arange(4), w),
        [(4, 24), (24,)],
        {1: [(23,), (1,), (25,)]},
    ),
    "linear_cross_entropy": (
        lambda x, w: tt.linear_cross_entropy(x, w, torch.arange(4)),
        [(4, 16), (24, 16)],
        {1: [(24, 8), (24, 17)]},
    ),
    "rms_norm": (lambda x, w: tt.rms_norm(x, weight=w), [(4, 24), (24,)], {1: [(23,), (48,)]}),
    "layer_norm": (tt.layer_norm, [(4, 24), (24,), (24,)], {1: [(23,)], 2: [(1,)]}),
    "swiglu": (tt.swiglu, [(4, 24)] * 2, {1: [(3, 24), (8, 12)]}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_do_not_fit_are_rejected(name: str) -> None:
    function, shapes, wrong = SHAPES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    function(*inputs)
    for i, each in wrong.items():
        for shape in each:
            given = [*inputs]
            given[i] = torch.randn(shape)
            with pytest.raises(ValueError, match=r"shape|rows|cols|expected"):
                function(*given)


@pytest.mark.parametrize("name", ["attention", "attention_varlen", "rms_norm with a weight"])
def test_a_second_dtype_is_rejected(name: str) -> None:
    function, make = CALLS[name]
    first, *others = make()
    with pytest.raises(ValueError, match=r"float|f16|f64"):
        function(first, *changed(others, lambda one: one.to(torch.float64 if "weight" in name else torch.float16)))


def test_versions_of_inputs_stay_and_those_of_out_count() -> None:
    for function, make in CALLS.values():
        inputs = make()
        before = [one._version for one in inputs]
        leaves = [one.requires_grad_() if one.is_floating_point() else one for one in inputs]
        function(*leaves).sum().backward()
        assert [one._version for one in inputs] == before
    x = torch.randn(2, 5, 4)
    for function in (tt.softmax, tt.log_softmax):
        for dim in (0, 1, 2):
            for out in (torch.empty_like(x), torch.empty(5, 4, 2).permute(2, 0, 1), x.clone()):
                version = out._version
                function(x, dim, out=out)
                assert out._version > version
        with pytest.raises(RuntimeError, match="automatic differentiation"):
            function(x, out=torch.empty_like(x).requires_grad_())
        with torch.inference_mode():
            function(x.clone(), out=torch.empty_like(x))


class Mutations(TorchDispatchMode):
    """Collects the arguments that operators of Tunesmith declare as written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, str]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "tunesmith":
            names = [one.name for one in function._schema.arguments if one.alias_info and one.alias_info.is_write]
            self.written += [(function.__name__, name) for name in names]
        return function(*args, **(kwargs or {}))


def test_what_operators_write_is_annotated() -> None:
    x = torch.randn(4, 24)
    with Mutations() as mode:
        tt.softmax(x)
        assert not mode.written
        tt.softmax(x, out=x)
    assert [name for _, name in mode.written] == ["out"]


def test_nothing_is_kept_alive(call: Any) -> None:
    function, inputs = call

    def once() -> weakref.ref[torch.Tensor]:
        leaves = [one.detach().clone().requires_grad_() if one.is_floating_point() else one for one in inputs]
        result = function(*leaves)
        result.sum().backward()
        return weakref.ref(leaves[0])

    once()
    references = [sys.getrefcount(one) for one in inputs]
    gc.collect()
    tensors = sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
    leaves = [once() for _ in range(20)]
    gc.collect()
    assert all(leaf() is None for leaf in leaves)
    assert sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()) <= tensors
    assert [sys.getrefcount(one) for one in inputs] == references


def test_threads_agree(call: Any) -> None:
    function, inputs = call
    count = sum(one.is_floating_point() for one in inputs)

    def once() -> list[torch.Tensor]:
        leaves = [one.detach().clone().requires_grad_() for one in inputs[:count]]
        result = function(*leaves, *inputs[count:])
        return [result.detach(), *torch.autograd.grad(result.sum(), leaves)]

    expected = once()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                for found, exact in zip(once(), expected, strict=True):
                    assert torch.equal(found, exact)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
