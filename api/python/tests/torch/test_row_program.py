"""row_program against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import tunesmith.torch as tt

NORM = """
in x : float[row, col]
in w : f32[col]
num eps : f32 = 1e-6
mean ms = x * x
out y : float[row, col] = x * rsqrt(ms + eps) * (1 + w)
out scale : f32[row] = sqrt(ms)
"""
QUANTIZE = """
in x : float[row, col]
max largest = abs(x)
q = max(largest, 1e-12) / 448
out z : e4m3[row, col] = x / q
out scale : f32[row] = q
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_norm(dtype: torch.dtype) -> None:
    x, w = torch.randn(5, 48, dtype=dtype), torch.randn(48)
    y, scale = tt.row_program(NORM, x, w, numbers={"eps": 0.25})
    exact = x.double().square().mean(-1)
    expected = x.double() * (exact + 0.25).rsqrt()[:, None] * (1 + w.double())
    # Sums of 48 squares and a few roundings; then one rounding to y's type.
    torch.testing.assert_close(scale.double(), exact.sqrt(), rtol=64 * 2.0**-24, atol=0)
    torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(dtype).eps / 2 + 64 * 2.0**-24, atol=1e-30)


def test_fp8_outputs() -> None:
    x = torch.randn(3, 64)
    z, scale = tt.row_program(QUANTIZE, x)
    assert z.dtype == torch.float8_e4m3fn
    # Half a unit of a type with three bits after the leading one, and its smallest number.
    torch.testing.assert_close(z.float() * scale[:, None], x, rtol=2.0**-4, atol=float(scale.max()) * 2.0**-10)


def test_integers_and_booleans_with_columns() -> None:
    program = """
in x : float[row, col]
in i : i32[row, col]
in p : i32[col]
in m : bool[row, col]
sum s = select(m, x, 0)
out y : float[row, col] = select(m, x * s, 0)
out j : i32[row, col] = select(i < p, i, p)
out n : bool[row, col] = m || i == p
"""
    x = torch.randn(5, 48, dtype=torch.float64, requires_grad=True)
    i, p = (torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32) for shape in ((5, 48), (48,)))
    i[0] = p
    m = torch.rand(5, 48) < 0.5
    y, j, n = tt.row_program(program, x, i, p, m)
    assert j.dtype == torch.int32 and n.dtype == torch.bool
    assert torch.equal(j, torch.minimum(i, p))
    assert torch.equal(n, m | (i == p))
    assert torch.equal(y == 0, ~m)
    assert not j.requires_grad and not n.requires_grad
    assert torch.autograd.gradcheck(lambda x: tt.row_program(program, x, i, p, m)[0], (x,))
    y, j, n = tt.row_program(program, x.float(), i, p, m.to(torch.uint8))  # bytes are booleans, too
    assert torch.equal(j, torch.minimum(i, p)) and torch.equal(n, m | (i == p))


def test_a_sum_over_all_rows_and_its_gradient() -> None:
    program = """
in x : float[row, col]
in target : i32[row]
lse l = x
sum logit = select(col == target, x, 0)
colsum loss : f32[] = (l - logit) / rows
colsum squares : float[] = x * x
"""
    x, target = torch.randn(5, 48, requires_grad=True), torch.randint(0, 48, (5,), dtype=torch.int32)
    loss, squares = tt.row_program(program, x, target)
    assert loss.shape == (1,) and squares.shape == (1,)
    (3 * loss + 0.5 * squares).backward()
    exact = x.detach().double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, target.long())
    (3 * expected + 0.5 * exact.square().sum()).backward()
    torch.testing.assert_close(loss[0].detach().double(), expected.detach(), rtol=64 * 2.0**-24, atol=0)
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=64 * 2.0**-24, atol=64 * 2.0**-24)


def test_inputs_that_are_not_contiguous_or_aligned() -> None:
    x = torch.randn(5, 49)
    w = torch.zeros(48)
    for view in (x[:, 1:], x.flatten()[1:193].view(4, 48)):
        torch.testing.assert_close(tt.row_program(NORM, view, w), tt.row_program(NORM, view.clone(), w))


VIEWS = {
    "padded rows": lambda: torch.randn(6, 50)[:, 1:49],
    "one row for all": lambda: torch.randn(48).expand(6, 48),
    "padded columns": lambda: torch.randn(3, 48, 20)[:, :, :15],
    "adjacent columns": lambda: torch.randn(3, 15, 48).transpose(1, 2),
    "one column for all": lambda: torch.randn(3, 1, 15).expand(3, 48, 15),
}


@pytest.mark.parametrize("view", VIEWS)
def test_inputs_of_any_strides_are_not_copied(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tensor: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a copy")

    x, w = VIEWS[view](), torch.randn(48)
    assert not x.is_contiguous()
    copied = tt.row_program(NORM, x.clone(memory_format=torch.contiguous_format), w)
    monkeypatch.setattr("tunesmith.torch.launchers.plain", refuse)
    own = x.detach().requires_grad_()
    y, scale = tt.row_program(NORM, own, w)
    torch.testing.assert_close((y, scale), copied, rtol=64 * 2.0**-24, atol=1e-6)
    assert y.is_contiguous()
    y.backward(torch.randn(y.shape[:1] + y.shape[:0:-1]).transpose(1, -1) if y.dim() == 3 else torch.randn(y.shape))
    assert own.grad is not None and own.grad.shape == x.shape


def test_inputs_that_are_copied() -> None:
    w = torch.randn(48)
    quantities = "in x : float[row, col]\nmax[16] a = x\nout m : float[row, col/16] = a\nout y : float[row, col] = x"
    largest = "in x : float[row, col]\nmax a = x\nout m : float[row] = a"
    x = torch.randn(48, 6).t()
    torch.testing.assert_close(tt.row_program(NORM, x, w), tt.row_program(NORM, x.contiguous(), w))
    assert torch.equal(tt.row_program(quantities, x)[0], x.reshape(6, 3, 16).amax(-1))
    assert torch.equal(tt.row_program(largest, x), x.amax(-1))  # not a copy
    windows = torch.randn(60).as_strided((6, 48), (2, 1))
    torch.testing.assert_close(tt.row_program(NORM, windows, w), tt.row_program(NORM, windows.clone(), w))


def test_compile_has_no_graph_breaks() -> None:
    x, w = torch.randn(4, 48), torch.randn(48)
    compiled = torch.compile(lambda x, w: tt.row_program(NORM, x * 2, w)[0] + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, w), tt.row_program(NORM, x * 2, w)[0] + 1)


def test_compile_sees_the_first_use_of_a_shipped_program() -> None:
    gate, up = torch.randn(3, 24), torch.randn(3, 24)
    compiled = torch.compile(lambda gate, up: tt.geglu(gate, up), backend="eager", fullgraph=True)
    assert torch.equal(compiled(gate, up), tt.shipped("geglu")(gate, up))


def test_a_graph_has_the_program_in_one_line() -> None:
    # Inductor of PyTorch 2.11 writes arguments into comments of Python code as they are.
    program = "# \\N{x} \u00e9\nin  x : float[row, col]\nout y : float[row, col] = x * 2\n"
    x = torch.ones(2, 3)
    graph = make_fx(lambda x: tt.row_program(program, x))(x)
    nodes = [node for node in graph.graph.nodes if "row_program" in str(node.target)]
    assert len(nodes) == 1
    assert "\n" not in str(nodes[0].args)
    assert not any("\n" in str(argument) for argument in nodes[0].args)
    assert torch.equal(graph(x), x * 2)


def test_what_it_rejects() -> None:
    x, w = torch.randn(4, 48), torch.randn(48)
    with pytest.raises(ValueError, match="the inputs x, w; 1 are given"):
        tt.row_program(NORM, x)
    with pytest.raises(ValueError, match="x f32, w f32"):
        tt.row_program(NORM, x, w.half())
    with pytest.raises(ValueError, match="did you mean 'sqrt'"):
        tt.row_program("in x : float[row, col]\nout y : float[row, col] = sqr(x)", x)
    product = "monoid mul(a, b) = a * b identity 1\nin x : float[row, col]\nreduce p = mul(x)\nout y : float[row] = p"
    with pytest.raises(ValueError, match=r"monoid 'mul'.* has no gradient"):  # at once, not in the backward pass
        tt.row_program(product, x.clone().requires_grad_())
    torch.testing.assert_close(tt.row_program(product, x), x.prod(-1))
    many = "".join(f"in a{i} : float[row, col]\n" for i in range(4))
    many += "".join(f"out b{i} : float[row, col] = {' * '.join(f'a{j}' for j in range(i + 2))}\n" for i in range(3))
    arrays = [torch.randn(4, 48, requires_grad=True) for _ in range(4)]
    with pytest.raises(ValueError, match="allowed"):
        tt.row_program(many, *arrays)
    with torch.no_grad():
        tt.row_program(many, *arrays)
    with pytest.raises(AttributeError, match="no_such_program"):
        tt.no_such_program()
    with pytest.raises(ValueError, match="layer_norm has the inputs x, w, b; 2 are given"):
        tt.layer_norm(x, w)


def reference(name: str, x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if name == "layer_norm":
        return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, 1e-3)
    if name == "swiglu":
        return torch.nn.functional.silu(x) * r
    return torch.nn.functional.rms_norm(x + r, x.shape[-1:], w, 1e-3)


@pytest.mark.parametrize("name", ["layer_norm", "swiglu", "add_rms_norm"])
@pytest.mark.parametrize("compiled", [False, True])
def test_shipped_programs_and_their_gradients(name: str, compiled: bool) -> None:
    torch.manual_seed(1)
    given = [torch.randn(2, 3, 48), torch.randn(2, 3, 48), torch.rand(48) + 0.5, torch.randn(48)]
    own, exact = (
        [tensor.detach().to(dtype).requires_grad_() for tensor in given] for dtype in (torch.float32, torch.float64)
    )
    x, r, w, b = own
    arguments = {"layer_norm": (x, w, b), "swiglu": (x, r), "add_rms_norm": (x, r, w)}[name]
    numbers = {} if name == "swiglu" else {"eps": 1e-3}
    function = getattr(tt, name)
    if compiled:
        function = torch.compile(function, backend="aot_eager", fullgraph=True)
    result = function(*arguments, **numbers)
    y = result[1] if isinstance(result, tuple) else result
    expected = reference(name, *exact)
    upstream = torch.randn(2, 3, 48)
    y.backward(upstream)
    expected.backward(upstream.double())
    # Sums of 48 terms near one, a few roundings and one to the result.
    torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=2e-6)
    for tensor, wanted in zip(own, exact, strict=True):
        assert (tensor.grad is None) == (wanted.grad is None)
        if tensor.grad is not None:
            assert wanted.grad is not None
            torch.testing.assert_close(tensor.grad.double(), wanted.grad, rtol=1e-5, atol=1e-5)


def test_weights_of_another_dtype() -> None:
    x, w, b = torch.randn(4, 64, dtype=torch.bfloat16), torch.rand(64, requires_grad=True), torch.zeros(64)
    y = tt.layer_norm(x, w, b)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert w.grad is not None and w.grad.dtype == torch.float32 and bool((w.grad != 0).any())


def gate(name: str, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if name == "topk_gate":
        values, columns = x.topk(8)
        return values.softmax(-1), columns
    if name == "topk_gate_softmax":
        return x.softmax(-1).topk(8)
    scores = x.sigmoid()
    columns = (scores + bias).topk(8).indices
    weights = scores.gather(-1, columns)
    return weights / weights.sum(-1, keepdim=True) * 2.5, columns


@pytest.mark.parametrize("name", ["topk_gate", "topk_gate_softmax", "topk_gate_sigmoid"])
def test_top_k_gates_and_their_gradients(name: str) -> None:
    torch.manual_seed(2)
    given, bias = torch.randn(2, 5, 96), torch.randn(96)
    x, exact = given.clone().requires_grad_(), given.double().requires_grad_()
    of_sigmoid = name == "topk_gate_sigmoid"
    weight, expert = getattr(tt, name)(x, *[bias] * of_sigmoid, **({"scale": 2.5} if of_sigmoid else {}))
    expected, columns = gate(name, exact, bias.double())
    assert expert.dtype == torch.int32
    assert torch.equal(expert.long(), columns)
    torch.testing.assert_close(weight.double(), expected, rtol=2e-6, atol=1e-9)
    upstream = torch.randn(2, 5, 8)
    weight.backward(upstream)
    expected.backward(upstream.double())
    assert x.grad is not None and exact.grad is not None
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)


def test_softmax_dropout_has_the_same_mask_in_both_passes() -> None:
    torch.manual_seed(3)
    given = torch.randn(64, 96)
    x, exact = given.clone().requires_grad_(), given.double().requires_grad_()
    y = tt.softmax_dropout(x, p=0.25, seed=5)
    keep = y.detach() != 0
    # Four standard deviations of the mean of 6144 numbers.
    assert abs(keep.double().mean().item() - 0.75) < 4 * (0.25 * 0.75 / keep.numel()) ** 0.5
    expected = exact.softmax(-1) * keep / 0.75
    torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=1e-12)
    upstream = torch.randn(64, 96)
    y.backward(upstream)
    expected.backward(upstream.double())
    assert x.grad is not None and exact.grad is not None
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)
    assert torch.equal(y, tt.softmax_dropout(x, p=0.25, seed=5))
    assert not torch.equal(keep, tt.softmax_dropout(x, p=0.25, seed=6) != 0)


def test_topk_is_that_of_torch() -> None:
    program = """
in x : float[row, col]
topk[5] v, i = x
out value : float[row, 5] = v
out column : i32[row, 5] = i
"""
    x = torch.randn(7, 33, dtype=torch.bfloat16)
    x[1, 3] = x[2, 30] = torch.nan
    x[2, 4], x[3, 7], x[4] = torch.inf, -torch.inf, -torch.inf
    x[4, 9] = 0
    value, column = tt.row_program(program, x)
    assert torch.equal(value.nan_to_num(1e9), x.topk(5).values.nan_to_num(1e9))
    torch.testing.assert_close(x.gather(1, column.long()), value, rtol=0, atol=0, equal_nan=True)
    assert column[4].tolist() == [9, 0, 1, 2, 3]  # equal values: the lowest columns
    with pytest.raises(ValueError, match="cols is 4; allowed: at least 5"):
        tt.row_program(program, x[:, :4].contiguous())


def test_a_sparse_softmax_and_its_gradient() -> None:
    program = """
in x : float[row, col]
topk[4] v, i = x
lse l = v
out y : float[row, col] = scatter(i, exp(v - l))
"""
    x = torch.randn(6, 40)
    own, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    values, columns = exact.topk(4)
    expected = torch.zeros_like(exact).scatter(1, columns, values.softmax(-1))
    y = tt.row_program(program, own)
    torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=0)
    upstream = torch.randn(6, 40)
    y.backward(upstream)
    expected.backward(upstream.double())
    assert own.grad is not None and exact.grad is not None
    torch.testing.assert_close(own.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_soft_cross_entropy(smoothing: float) -> None:
    given = [torch.randn(3, 5, 48), torch.rand(3, 5, 48).softmax(-1)]
    own, exact = (
        [tensor.detach().to(dtype).requires_grad_() for tensor in given] for dtype in (torch.float32, torch.float64)
    )
    loss, lse = tt.soft_cross_entropy(*own, label_smoothing=smoothing)
    expected = torch.nn.functional.cross_entropy(
        exact[0].movedim(-1, 1), exact[1].movedim(-1, 1), reduction="none", label_smoothing=smoothing
    )
    expected_lse = torch.logsumexp(exact[0], -1)
    torch.testing.assert_close(loss.double(), expected, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=2e-6, atol=2e-6)
    upstream = torch.randn(2, 3, 5)
    (loss * upstream[0] + lse * upstream[1]).sum().backward()
    (expected * upstream[0].double() + expected_lse * upstream[1].double()).sum().backward()
    for tensor, wanted in zip(own, exact, strict=True):
        assert tensor.grad is not None and wanted.grad is not None
        torch.testing.assert_close(tensor.grad.double(), wanted.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_soft_cross_entropy_of_masked_classes(smoothing: float) -> None:
    """What is NaN or infinite in PyTorch is so here."""
    logits, target = torch.randn(5, 48), torch.rand(5, 48).softmax(-1)
    logits[1, 7] = logits[2] = logits[3, 5] = -torch.inf
    target[3, 5] = 0
    logits[4, 3] = torch.inf
    own, exact = ([tensor.clone().requires_grad_() for tensor in (logits, target)] for _ in range(2))
    loss, _ = tt.soft_cross_entropy(*own, label_smoothing=smoothing)
    expected = torch.nn.functional.cross_entropy(*exact, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected, rtol=2e-6, atol=2e-6, equal_nan=True)
    loss.sum().backward()
    expected.sum().backward()
    for row in (0, 1, 2, 3):
        for tensor, wanted in zip(own, exact, strict=True):
            assert tensor.grad is not None and wanted.grad is not None
            torch.testing.assert_close(tensor.grad[row], wanted.grad[row], rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("shape", [(3, 0), (2, 3, 0), (0, 0)], ids=str)
def test_rows_without_columns(shape: tuple[int, ...]) -> None:
    x, w = torch.empty(shape, requires_grad=True), torch.empty(0, requires_grad=True)
    for function in (lambda: tt.layer_norm(x, w, w), lambda: tt.swiglu(x, x), lambda: tt.rms_norm(x)):
        y = function()
        assert y.shape == x.shape
        y.sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape
    assert w.grad is not None and w.grad.shape == (0,)
    with pytest.raises(ValueError, match="cols is 0, and the output loss has an element for each row"):
        tt.soft_cross_entropy(x.detach(), x.detach())


def test_softmin() -> None:
    x = torch.randn(4, 50)
    torch.testing.assert_close(tt.softmin(x), torch.nn.functional.softmin(x, -1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("shape", [(2, 7, 4, 5), (3, 6, 1), (2, 3, 9, 8, 1)], ids=str)
@pytest.mark.parametrize("dim", [1, -2])
def test_a_dimension_that_is_not_the_last(shape: tuple[int, ...], dim: int) -> None:
    dim %= len(shape)
    x = torch.randn(shape)
    own, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    y, expected = tt.softmin(own, dim=dim - len(shape)), torch.nn.functional.softmin(exact, dim)
    assert y.shape == x.shape
    torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=0)
    upstream = torch.randn(shape)
    y.backward(upstream)
    expected.backward(upstream.double())
    assert own.grad is not None and exact.grad is not None
    torch.testing.assert_close(own.grad.double(), exact.grad, rtol=1e-5, atol=1e-6)


def test_arrays_of_rows_with_an_inner_dimension() -> None:
    x, w = torch.randn(2, 48, 3, 5), torch.rand(48)
    y, scale = tt.row_program(NORM, x.flatten(2), w)
    exact = x.double().square().mean(1).sqrt()
    torch.testing.assert_close(scale.double(), exact.flatten(1), rtol=1e-6, atol=0)
    expected = x.double() / exact[:, None] * (1 + w.double()[:, None, None])
    torch.testing.assert_close(y.double(), expected.flatten(2), rtol=1e-5, atol=1e-7)
    weight, expert = tt.topk_gate(x, dim=-3)
    values, columns = x.topk(8, 1)
    assert weight.shape == expert.shape == (2, 3, 5, 8)
    assert torch.equal(expert.long(), columns.movedim(1, -1))
    torch.testing.assert_close(weight, values.softmax(1).movedim(1, -1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 48, 3, 5), (3, 21, 16), (1, 7, 40, 8)], ids=str)
def test_gradients_of_norms_over_channels(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    cols, dims = shape[1], (-1,) + (1,) * (len(shape) - 2)
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}
    x, w, b, upstream = torch.randn(shape), 1 + torch.randn(cols) / 4, torch.randn(cols), torch.randn(shape)
    x, upstream = x.to(dtype), upstream.to(dtype)

    def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x.movedim(1, -1), (cols,), w, b, 1e-5).movedim(-1, 1)

    def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt() * w.reshape(dims)

    for own, reference, weights, numbers in (
        (tt.shipped("layer_norm"), layer_norm, (w, b), {"eps": 1e-5}),
        (tt.shipped("rms_norm"), rms_norm, (w,), {"eps": 1e-6}),
    ):
        given = [tensor.to(dtype).clone().requires_grad_() for tensor in (x, *weights)]
        exact = [tensor.detach().double().requires_grad_() for tensor in given]
        y = own(given[0], *given[1:], dim=1, **numbers)
        y = y if torch.is_tensor(y) else y[0]
        assert y.shape == x.shape
        expected = reference(*exact)
        torch.testing.assert_close(y.double(), expected, **tolerance)
        y.backward(upstream)
        expected.backward(upstream.double())
        for tensor, wanted in zip(given, exact, strict=True):
            assert tensor.grad is not None and wanted.grad is not None and tensor.grad.shape == tensor.shape
            scale = wanted.grad.abs().max()
            torch.testing.assert_close(tensor.grad.double() / scale, wanted.grad / scale, **tolerance)


def test_gradient_of_a_program_with_an_inner_dimension() -> None:
    x, w = torch.randn(2, 48, 15), torch.rand(48)
    own, exact = (x.clone().requires_grad_(), w.clone().requires_grad_()), (x.double().requires_grad_(), w.double())
    exact[1].requires_grad_()
    y, scale = tt.row_program(NORM, *own)
    size = exact[0].square().mean(1).sqrt()
    expected = exact[0] / size[:, None] * (1 + exact[1][:, None])
    gradients = torch.randn_like(y), torch.randn_like(scale)
    torch.autograd.backward((y, scale), gradients)
    torch.autograd.backward((expected, size), tuple(gradient.double() for gradient in gradients))
    for tensor, wanted in zip(own, exact, strict=True):
        assert tensor.grad is not None and wanted.grad is not None
        torch.testing.assert_close(tensor.grad.double(), wanted.grad, rtol=2e-5, atol=2e-5)


def test_numbers_are_scalars_of_any_kind() -> None:
    import numpy

    x, w = torch.randn(4, 48), torch.randn(48)
    expected = tt.row_program(NORM, x, w, numbers={"eps": 0.5})
    for eps in (numpy.float64(0.5), numpy.float32(0.5), torch.tensor(0.5)):
        for ours, theirs in zip(tt.row_program(NORM, x, w, numbers={"eps": eps}), expected, strict=True):
            assert torch.equal(ours, theirs)
    given = x, w, torch.randn(48)
    assert torch.equal(tt.layer_norm(*given, eps=numpy.float64(0.5)), tt.layer_norm(*given, eps=0.5))
