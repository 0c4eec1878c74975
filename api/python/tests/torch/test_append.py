"""kv_append in compiled functions, and its errors. random_caches.py draws its calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_caches import exact_append

import tunesmith.torch as tt

TOKENS, PAGES, PAGE, HEADS, KV_HEADS, DIM, POSITIONS = 9, 6, 4, 4, 2, 32, 50


def inputs(dtype: torch.dtype, cache: torch.dtype | None = None, layout: str = "bshd") -> dict[str, Any]:
    """Return arguments with rope and normalization; q, k and v are parts of one projection."""
    torch.manual_seed(3)
    projected = torch.randn(TOKENS, (HEADS + 2 * KV_HEADS) * DIM).to(dtype)
    q, k, v = projected.split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
    shape = (PAGES, 2, PAGE, KV_HEADS, DIM) if layout == "bshd" else (PAGES, 2, KV_HEADS, PAGE, DIM)
    pool = torch.randn(shape).to(cache or dtype)
    angles = torch.arange(POSITIONS)[:, None] * 100.0 ** -(torch.arange(DIM // 2) / (DIM // 2))
    return {
        "k": k.unflatten(-1, (-1, DIM)),
        "v": v.unflatten(-1, (-1, DIM)),
        "k_cache": pool[:, 0],
        "v_cache": pool[:, 1],
        "slot_mapping": torch.tensor([5, -1, 0, 23, 7, 12, -9, 1, 18]),
        "q": q.unflatten(-1, (-1, DIM)),
        "positions": torch.tensor([4, 0, 49, 7, 7, 21, 3, 1, 2]),
        "cos_sin": torch.cat([angles.cos(), angles.sin()], -1),
        "q_weight": torch.rand(DIM).to(dtype) + 0.5,
        "k_weight": torch.rand(DIM).to(dtype) + 0.5,
        "layout": layout,
    }


def check(arguments: dict[str, Any], eps: float) -> None:
    expected = exact_append(arguments)
    q_out = tt.kv_append(**arguments)
    for found, exact in zip((q_out, arguments["k_cache"], arguments["v_cache"]), expected, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=eps, atol=eps / 64)


def test_without_queries_it_copies() -> None:
    arguments = inputs(torch.bfloat16)
    for name in ("q", "positions", "cos_sin", "q_weight", "k_weight"):
        arguments.pop(name)
    expected = arguments["k_cache"].clone()
    expected[5 // PAGE, 5 % PAGE] = arguments["k"][0]
    assert tt.kv_append(**{**arguments, "slot_mapping": torch.tensor([5, *[-1] * 8])}) is None
    assert torch.equal(arguments["k_cache"], expected)


def test_inputs_of_any_strides() -> None:
    for tokens in (TOKENS, 1):  # of one token, heads that are not contiguous look like elements that are
        arguments = inputs(torch.float32)
        for name in ("k", "v", "q", "slot_mapping", "positions"):
            arguments[name] = arguments[name][:tokens]
        for name in ("k", "v", "q"):
            arguments[name] = arguments[name].transpose(1, 2).contiguous().transpose(1, 2)
        for name in ("slot_mapping", "positions", "q_weight", "k_weight"):
            arguments[name] = torch.stack([arguments[name], 0 * arguments[name]], -1)[:, 0]
        arguments["cos_sin"] = arguments["cos_sin"].T.contiguous().T
        check(arguments, 1e-5)


def test_slots_and_positions_are_read_when_the_kernel_runs() -> None:
    arguments = inputs(torch.float32)
    for step in range(3):
        arguments["slot_mapping"].copy_((torch.arange(TOKENS) * 5 + step) % 24)
        arguments["positions"].fill_(step)
        check(arguments, 1e-5)


def test_compile_sees_what_is_written() -> None:
    def step(k_cache: torch.Tensor, v_cache: torch.Tensor, arguments: dict[str, Any]) -> Any:
        q = tt.kv_append(**{**arguments, "k_cache": k_cache, "v_cache": v_cache})
        return q, k_cache.float().sum()

    arguments = inputs(torch.float32)
    other = {**arguments, "k_cache": arguments["k_cache"].clone(), "v_cache": arguments["v_cache"].clone()}
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    found = compiled(arguments["k_cache"], arguments["v_cache"], arguments)
    expected = step(other["k_cache"], other["v_cache"], other)
    torch.testing.assert_close(found, expected)
    assert torch.equal(arguments["k_cache"], other["k_cache"])


def test_opcheck() -> None:
    a = inputs(torch.float32)
    names = ("k", "v", "k_cache", "v_cache", "slot_mapping", "q", "positions", "cos_sin", "q_weight", "k_weight")
    operator = torch.ops.tunesmith.kv_append.default
    torch.library.opcheck(operator, (*(a[name] for name in names), None, None, "neox", 1e-6, 0.0, "bshd"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": torch.randn(TOKENS, DIM)}, "k has 2 dimensions; expected 3"),
        ({"positions": None}, "positions is missing; expected with cos_sin"),
        ({"cos_sin": None}, "cos_sin is missing; expected with positions"),
        ({"k_weight": None}, "k_weight is missing; expected with q_weight"),
        ({"slot_mapping": torch.zeros(TOKENS, dtype=torch.int32)}, r"slot_mapping is torch\.int32; expected i64"),
        ({"slot_mapping": torch.zeros(4, dtype=torch.int64)}, r"slot_mapping has the shape \(4,\); expected \(9,\)"),
        ({"v_cache": torch.randn(PAGES, PAGE + 1, KV_HEADS, DIM)}, "v_cache has the shape"),
        ({"v_cache": torch.randn(PAGES, PAGE, KV_HEADS, DIM).half()}, r"v_cache is torch\.float16"),
        ({"q": torch.randn(TOKENS, HEADS, DIM + 8)}, "q has the shape"),
        ({"k_scale": torch.ones(1), "v_scale": torch.ones(1)}, "scales"),
        ({"k": torch.ones(TOKENS, KV_HEADS, DIM, dtype=torch.int32)}, "dtype is 'i32'"),
        ({"k_cache": torch.randn(PAGES, PAGE, DIM, KV_HEADS).mT}, "k_cache"),
        ({"v_cache": torch.randn(PAGES * PAGE * KV_HEADS * DIM + 1)[1:].view(PAGES, PAGE, KV_HEADS, DIM)}, "v_cache"),
        ({"v_cache": torch.randn(1, PAGE, KV_HEADS, DIM).expand(PAGES, -1, -1, -1)}, "v_page_stride is 0"),
        ({"rope": "llama"}, "rope is 'llama'"),
        ({"layout": "sbhd"}, "layout is 'sbhd'"),
    ],
)
def test_errors_name_the_argument(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tt.kv_append(**{**inputs(torch.float32), **changes})


def test_there_is_no_gradient() -> None:
    arguments = inputs(torch.float32)
    arguments["cos_sin"].requires_grad_()
    with pytest.raises(NotImplementedError, match="kv_append has no gradient of cos_sin; detach it"):
        tt.kv_append(**arguments)
