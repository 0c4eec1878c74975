"""Operations as functions: problems from arrays, results against float64."""

from __future__ import annotations

import inspect
import sys

import numpy
import pytest

import tunesmith
from tunesmith import ops

EPS32 = 2.0**-24  # half a unit in the last place of float32, relative


@pytest.fixture(scope="module")
def random() -> numpy.random.Generator:
    return numpy.random.default_rng(2)


def softmax(x: numpy.ndarray) -> numpy.ndarray:
    exact = numpy.exp(x.astype(float) - x.max(axis=-1, keepdims=True).astype(float))
    return exact / exact.sum(axis=-1, keepdims=True)


def test_every_operation_has_a_function_with_its_description() -> None:
    assert "softmax" in dir(ops)
    for name in tunesmith._core.operation_names():
        operation = getattr(ops, name)
        assert operation.summary in inspect.getdoc(operation)
        assert operation.arrays or name == "row_program"  # its program names them
        parameters = inspect.signature(operation).parameters
        assert {field.name for field in operation.fields if not field.hidden} <= set(parameters)


def test_inputs_that_every_call_needs_come_first() -> None:
    for name in tunesmith._core.operation_names():
        optional = {array.name for array in getattr(ops, name).arrays if array.optional or not array.present}
        parameters = inspect.signature(getattr(ops, name)).parameters.values()
        is_optional = [p.name in optional for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert is_optional == sorted(is_optional), name
    q = numpy.random.default_rng(5).normal(size=(1, 4, 1, 16)).astype("f4")
    o, lse = ops.attention(q, q, q)
    gradients = ops.attention_backward(q, q, q, o, lse, numpy.ones_like(o))
    assert all(numpy.isfinite(gradient).all() for gradient in gradients)


PROGRAM = """
in x : float[row, col]
in w : f32[col]
num eps : f32 = 1e-6
mean ms = x * x
out y : float[row, col] = x * rsqrt(ms + eps) * (1 + w)
out largest : f32[row] = ms
"""


def test_a_row_program(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x, w = random.standard_normal((4, 24), dtype=numpy.float32), random.standard_normal(24, dtype=numpy.float32)
    y, mean = ops.row_program(x, w, program=PROGRAM, numbers="eps=0.5", engine=engine)
    exact = (x.astype(float) ** 2).mean(-1)
    # Sums of 24 squares and four more roundings.
    numpy.testing.assert_allclose(mean, exact, rtol=24 * EPS32)
    numpy.testing.assert_allclose(y, x / numpy.sqrt(exact[:, None] + 0.5) * (1 + w.astype(float)), rtol=32 * EPS32)
    with pytest.raises(ValueError, match="program:1:2"):
        ops.row_program(x, program="x", engine=engine)


def test_a_row_program_of_any_strides(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x, w = random.standard_normal((24, 11), dtype=numpy.float32), random.standard_normal(24, dtype=numpy.float32)
    columns = x[:, 1:5].T  # misaligned, too
    problem = ops.row_program.problem({"x": columns, "w": w}, program=PROGRAM)
    assert problem.fields["row_strides"] == "x=1" and problem.fields["col_strides"] == "x=11"
    assert problem.fields["alignments"] == "x=4"
    results = ops.row_program(columns, w, program=PROGRAM, engine=engine)
    for result, expected in zip(results, ops.row_program(columns.copy(), w, program=PROGRAM, engine=engine), strict=True):
        numpy.testing.assert_allclose(result, expected, rtol=32 * EPS32)
    # (rows, cols, inner) in memory as (inner, rows, cols), and one row for all.
    volume = random.standard_normal((5, 3, 24), dtype=numpy.float32).transpose(1, 2, 0)
    for array in (volume, numpy.broadcast_to(volume[:1], volume.shape)):
        y, mean = ops.row_program(array, w, program=PROGRAM, inner=5, engine=engine)
        exact = (array.astype(float) ** 2).mean(1)
        numpy.testing.assert_allclose(mean, exact, rtol=24 * EPS32)
        expected = array / numpy.sqrt(exact[:, None] + 1e-6) * (1 + w.astype(float))[:, None]
        numpy.testing.assert_allclose(y, expected, rtol=32 * EPS32, atol=EPS32)


def test_an_unknown_operation() -> None:
    with pytest.raises(AttributeError, match="no operation 'sofmax'"):
        ops.sofmax  # noqa: B018
    with pytest.raises(ValueError, match="operation is 'sofmax'; allowed: softmax"):
        tunesmith.operation("sofmax")


def test_the_problem_of_arrays(random: numpy.random.Generator) -> None:
    x = random.standard_normal((6, 48), dtype=numpy.float32)
    problem = ops.softmax.problem({"x": x[::2, 8:32]}, scale=2)
    assert problem.fields == {"rows": 3, "cols": 24, "dtype": "f32", "scale": 2, "x_row_stride": 96, "x_alignment": 16}


def test_rows_that_are_not_contiguous(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((6, 48), dtype=numpy.float32)[::2, 1:25]
    # |x| < 8: see fresh_environment.py.
    numpy.testing.assert_allclose(ops.softmax(x, engine=engine), softmax(x), rtol=24 * EPS32)


def test_bf16_in_16_bit_integers(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((4, 24), dtype=numpy.float32)
    bits = (x.view(numpy.uint32) >> 16).astype(numpy.uint16)  # truncated: the value that the kernel reads
    exact = softmax((bits.astype(numpy.uint32) << 16).view(numpy.float32))
    y = ops.softmax(bits, out_dtype="f32", engine=engine)
    numpy.testing.assert_allclose(y, exact, rtol=24 * EPS32)


def test_cross_entropy_and_its_gradient(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    logits = random.standard_normal((5, 24), dtype=numpy.float32)
    targets = numpy.array([3, 0, -100, 23, 7])
    result = ops.cross_entropy(logits, targets, gradient="separate", reduction="sum", engine=engine)
    probabilities = softmax(logits)
    seen = targets >= 0
    exact = -numpy.log(probabilities[seen, targets[seen]]).sum()
    # Four losses of about 3, each with a relative error of a few roundings.
    numpy.testing.assert_allclose(result.loss, [exact], rtol=16 * EPS32)
    gradient = probabilities.copy()
    gradient[seen, targets[seen]] -= 1
    gradient[~seen] = 0
    numpy.testing.assert_allclose(result.dlogits, gradient, rtol=32 * EPS32, atol=8 * EPS32)


def test_an_optional_array_enables_its_field(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x, weight = random.standard_normal((4, 24), dtype=numpy.float32), random.standard_normal(24, dtype=numpy.float32)
    result = ops.rms_norm(x, weight, rstd=True, engine=engine)
    exact = 1 / numpy.sqrt((x.astype(float) ** 2).mean(axis=1) + 1e-6)
    numpy.testing.assert_allclose(result.rstd, exact, rtol=8 * EPS32)
    numpy.testing.assert_allclose(result.y, x * exact[:, None] * weight, rtol=16 * EPS32)


def test_an_array_that_several_fields_enable_needs_one_of_them(random: numpy.random.Generator) -> None:
    x = random.standard_normal((4, 24), dtype=numpy.float32)
    with pytest.raises(ValueError, match="mask is given; state what it is: mask='add', mask='keep'"):
        ops.softmax.problem({"x": x, "mask": x})


def test_a_mask_of_truth_values(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x, mask = random.standard_normal((4, 24), dtype=numpy.float32), random.random((4, 24)) < 0.6
    exact = softmax(numpy.where(mask, x, -numpy.inf))
    y = ops.softmax(x, mask, mask="keep", engine=engine)
    numpy.testing.assert_allclose(y, exact, rtol=24 * EPS32)
    dx = ops.softmax_backward(x, y, mask.astype("u1"), mask="keep", engine=engine)
    numpy.testing.assert_allclose(dx, y * (x - (x * y).sum(-1, keepdims=True)), atol=24 * 4 * EPS32)
    with pytest.raises(ValueError, match="mask holds f32; expected u8"):
        ops.softmax(x, x, mask="keep", engine=engine)


def test_in_place(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((4, 24), dtype=numpy.float32)
    exact = softmax(x)
    assert ops.softmax(x, in_place=True, engine=engine) is x
    numpy.testing.assert_allclose(x, exact, rtol=24 * EPS32)


def test_attention(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    q, k, v = (random.standard_normal((2, 9, 3, 16), dtype=numpy.float32) for _ in range(3))
    result = ops.attention(q, k, v, causal="top-left", engine=engine)
    scores = numpy.einsum("bihd,bjhd->bhij", q.astype(float), k.astype(float)) / 4
    scores[:, :, ~numpy.tri(9, dtype=bool)] = -numpy.inf
    exact = numpy.einsum("bhij,bjhd->bihd", softmax(scores), v.astype(float))
    # Dot products of 16 terms of about 1 in float32: at most 16 roundings of scores below 16, then a convex combination.
    numpy.testing.assert_allclose(result.o, exact, atol=16 * 16 * EPS32)


def test_linear_cross_entropy(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    hidden, weight = (random.standard_normal(shape, dtype=numpy.float32) for shape in ((6, 32), (40, 32)))
    targets = numpy.arange(6) * 5
    result = ops.linear_cross_entropy(hidden, weight, targets, engine=engine)
    logits = hidden.astype(float) @ weight.T.astype(float)
    exact = -numpy.log(softmax(logits)[numpy.arange(6), targets]).mean()
    # Logits of about 6 from sums of 32 products.
    numpy.testing.assert_allclose(result.loss, [exact], rtol=64 * EPS32)


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="counts references")
def test_no_references_leak(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((4, 24), dtype=numpy.float32)
    y = numpy.empty_like(x)
    plan = engine.prepare("softmax", rows=4, cols=24)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        plan.launch(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_shipped_row_programs_are_operations(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((4, 64), dtype=numpy.float32)
    w, b = (random.standard_normal(64, dtype=numpy.float32) for _ in range(2))
    result = ops.layer_norm(x, w, b, eps=0.5, engine=engine)
    found = result if isinstance(result, numpy.ndarray) else result.y
    exact = x.astype(numpy.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / numpy.sqrt(exact.var(1, keepdims=True) + 0.5) * w + b
    numpy.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    gate = ops.topk_gate(x, engine=engine)
    numpy.testing.assert_array_equal(gate.expert, numpy.argsort(-x, axis=1, kind="stable")[:, :8])
    numpy.testing.assert_array_equal(engine.layer_norm(x, w, b, eps=0.5), result)
    assert not hasattr(engine, "layer_nrom")
    assert "layer_norm" in dir(ops)
    with pytest.raises(AttributeError, match="did you mean 'layer_norm'"):
        ops.layer_nrom  # noqa: B018


def test_float64_arrays_are_computed_in_float64() -> None:
    x = numpy.random.default_rng(3).normal(size=(5, 100))
    y = ops.softmax(x)
    assert y.dtype == numpy.float64
    powers = numpy.exp(x - x.max(axis=1, keepdims=True))
    numpy.testing.assert_allclose(y, powers / powers.sum(axis=1, keepdims=True), rtol=8 * 2.0**-52)
    x[0, 0] = 1e30
    y, rstd = ops.rms_norm(x, weight=x[1], eps=0.1, rstd=True)
    exact = 1 / numpy.sqrt((x**2).mean(axis=1) + 0.1)
    assert y.dtype == rstd.dtype == numpy.float64
    numpy.testing.assert_allclose(rstd, exact, rtol=16 * 2.0**-52)
    numpy.testing.assert_allclose(y, x * exact[:, None] * x[1], rtol=16 * 2.0**-52)
    with pytest.raises(tunesmith.errors.InvalidArgument, match="out_dtype is f32, but dtype is f64"):
        tunesmith.Problem("softmax", rows=1, cols=8, dtype="f64", out_dtype="f32")


def test_row_programs_of_float64_arrays_compute_in_float64() -> None:
    x = numpy.random.default_rng(5).standard_normal((3, 50))
    w, b = numpy.linspace(0.5, 1.5, 50), numpy.zeros(50)
    y = ops.layer_norm(x, w, b, numbers="eps=1e-9")
    centered = x - x.mean(-1, keepdims=True)
    exact = centered / numpy.sqrt((centered**2).mean(-1, keepdims=True) + 1e-9) * w
    assert y.dtype == numpy.float64
    numpy.testing.assert_allclose(y, exact, rtol=1e-14, atol=1e-14)


def test_the_loss_of_float64_logits_is_float64() -> None:
    logits, targets = numpy.random.default_rng(4).normal(size=(6, 50)), numpy.arange(6) * 7
    loss, lse, dlogits = ops.cross_entropy(logits, targets, gradient="separate")
    exact = numpy.log(numpy.exp(logits).sum(axis=1))
    numpy.testing.assert_allclose(lse, exact, rtol=8 * 2.0**-52)
    numpy.testing.assert_allclose(loss[0], (exact - logits[range(6), targets]).mean(), rtol=8 * 2.0**-52)
    again = ops.cross_entropy_backward(logits, targets, lse, numpy.ones(1))
    assert {one.dtype.name for one in (loss, lse, dlogits, again)} == {"float64"}
    numpy.testing.assert_allclose(again, dlogits, rtol=64 * 2.0**-52, atol=2.0**-52)
    with pytest.raises(tunesmith.errors.InvalidArgument, match="lse holds f32; expected f64"):
        ops.cross_entropy_backward(logits, targets, lse.astype("f4"), numpy.ones(1))


def test_arrays_of_any_layout(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x = random.standard_normal((6, 10), dtype=numpy.float32)
    expected = ops.softmax(x, engine=engine)
    wide = numpy.full((12, 20), numpy.nan, dtype=numpy.float32)
    wide[::2, ::2] = x
    for other in (numpy.asfortranarray(x), wide[::2, ::2], x[::-1].copy()[::-1], x[:, ::-1].copy()[:, ::-1]):
        numpy.testing.assert_array_equal(ops.softmax(other, engine=engine), expected)
        out = numpy.full_like(other, numpy.nan)
        assert ops.softmax(other, engine=engine, out=out) is out
        numpy.testing.assert_array_equal(out, expected)
    out = numpy.zeros((12, 20), dtype=numpy.float32)
    ops.softmax(x, engine=engine, out=out[::2, ::2])
    numpy.testing.assert_array_equal(out[::2, ::2], expected)
    assert not out[1::2].any() and not out[:, 1::2].any()
    w = random.standard_normal(24, dtype=numpy.float32)
    numpy.testing.assert_array_equal(
        ops.rms_norm(x.T[::2], w[::4][:6], engine=engine), ops.rms_norm(x.T[::2].copy(), w[::4][:6].copy(), engine=engine)
    )


def test_masked_arrays_are_rejected(engine: tunesmith.Engine) -> None:
    x = numpy.ma.masked_array(numpy.ones((2, 3), dtype="f4"), mask=[[0, 1, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="x is a masked array"):
        ops.softmax(x, engine=engine)


def test_numbers_of_programs_are_scalars_of_any_kind(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    x, w, b = (random.standard_normal(shape, dtype=numpy.float32) for shape in ((4, 24), 24, 24))
    expected = ops.layer_norm(x, w, b, eps=0.5, engine=engine)
    for eps in (numpy.float64(0.5), numpy.float32(0.5)):
        numpy.testing.assert_array_equal(ops.layer_norm(x, w, b, eps=eps, engine=engine), expected)
        numpy.testing.assert_array_equal(ops.softmax(x, scale=eps, engine=engine), ops.softmax(x, scale=0.5, engine=engine))


def test_attention_over_pages(engine: tunesmith.Engine, random: numpy.random.Generator) -> None:
    q = random.standard_normal((2, 1, 4, 16), dtype=numpy.float32)
    k, v = (random.standard_normal((5, 7, 2, 16), dtype=numpy.float32) for _ in range(2))
    table, lengths = numpy.array([[3, 1, -1], [4, 9999, 0]], "i4"), numpy.array([9, 0], "i4")
    k[0], v[1, 2:] = numpy.nan, numpy.nan  # slots that no length reaches
    result = ops.attention(q, k, v, block_table=table, kv_lengths=lengths, page_size=7, engine=engine)
    keys, values = (numpy.concatenate([pool[3], pool[1, :2]]).repeat(2, 1).astype(float) for pool in (k, v))
    weights = softmax(numpy.einsum("hd,khd->hk", q[0, 0].astype(float), keys) / 4)
    exact = numpy.einsum("hk,khd->hd", weights, values)
    # Scores below 8 of 16 products, and values below 4.
    numpy.testing.assert_allclose(result.o[0, 0], exact, atol=4 * 8 * 16 * EPS32)
    assert not result.o[1].any() and (result.lse[1] == -numpy.inf).all()


def test_rows_after_the_last_packed_sequence_are_zeros() -> None:
    rows = numpy.ones((6, 1, 8), "f4")
    starts = numpy.array([0, 2, 4], "i4")
    o, lse = tunesmith.ops.attention(
        rows, rows, rows, cu_seqlens_q=starts, cu_seqlens_kv=starts, varlen=True, seq_q=4, seq_kv=4
    )
    assert (o[:4] == 1).all() and (o[4:] == 0).all() and (lse[..., 4:] == -numpy.inf).all()


def test_an_array_of_a_size_that_enables_it_states_the_size() -> None:
    rows, slots = numpy.ones((2, 3, 8), "f4"), numpy.array([0, 1])
    cache = numpy.zeros((2, 1, 1, 8), "f4")
    arrays = {"k": rows[:, :1], "v": rows[:, :1], "slot_mapping": slots, "q": rows, "k_cache": cache, "v_cache": cache}
    weights = dict.fromkeys(("q_weight", "k_weight"), numpy.ones(8, "f4"))
    problem = tunesmith.ops.kv_append.problem(arrays | weights, qk_norm=True)
    assert {array.name: tuple(array.shape) for array in problem.arrays}["q"] == (2, 3, 8)


def test_choices_do_not_reorder_the_arrays_of_a_call() -> None:
    k, slots, positions = numpy.ones((2, 1, 16), "f2"), numpy.arange(2), numpy.zeros(2, "i8")
    caches, cos_sin = [numpy.zeros((1, 16, 1, 16), "f2") for _ in range(4)], numpy.full((1, 16), 0.5, "f4")
    placed = ops.kv_append(k, k, slots, caches[0], caches[1], 2 * k, positions, cos_sin, rope="neox")
    named = ops.kv_append(
        k=k,
        v=k,
        slot_mapping=slots,
        k_cache=caches[2],
        v_cache=caches[3],
        q=2 * k,
        positions=positions,
        cos_sin=cos_sin,
        rope="neox",
    )
    for one, other in zip(placed, named, strict=True):
        numpy.testing.assert_array_equal(one, other)


def test_an_array_that_is_misaligned_is_copied_next_to_one_whose_strides_no_problem_states() -> None:
    k, v = (numpy.arange(49, dtype="f2")[first : first + 48].reshape(2, 1, 24) for first in (0, 1))
    caches, slots = [numpy.zeros((1, 3, 1, 24), "f2") for _ in range(2)], numpy.arange(2)
    ops.kv_append(k[::-1], v, slots, *caches)
    numpy.testing.assert_array_equal(caches[0][0, :2], k[::-1])
    numpy.testing.assert_array_equal(caches[1][0, :2], v)
