"""kv_append against PyTorch in float64, in compiled functions, and its errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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


def reference(arguments: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q_out and the caches in float64."""

    def prepared(x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        x = x.double()
        if weight is not None:
            norm = torch.rsqrt(x.square().mean(-1, keepdim=True) + arguments.get("eps", 1e-6))
            x = x * norm * (weight.double() + arguments.get("weight_offset", 0.0))
        if arguments.get("cos_sin") is None:
            return x
        cos, sin = (one[:, None] for one in arguments["cos_sin"][arguments["positions"]].double().chunk(2, -1))
        half, rotated = cos.shape[-1], x.clone()
        pairs = (slice(0, half), slice(half, 2 * half))
        if arguments.get("rope") == "gpt-j":
            pairs = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        a, b = (x[..., pair] for pair in pairs)
        rotated[..., pairs[0]], rotated[..., pairs[1]] = a * cos - b * sin, b * cos + a * sin
        return rotated

    caches = []
    for name in ("k", "v"):
        rows = arguments[name].double() if name == "v" else prepared(arguments["k"], arguments.get("k_weight"))
        if arguments.get(f"{name}_scale") is not None:
            rows = (rows / arguments[f"{name}_scale"].double().view(1, -1, 1)).clamp(-448, 448)
        cache = arguments[f"{name}_cache"].double().clone()
        pages = cache if arguments["layout"] == "bshd" else cache.transpose(1, 2)
        for t, slot in enumerate(arguments["slot_mapping"].tolist()):
            if slot >= 0:
                pages[slot // PAGE, slot % PAGE] = rows[t]
        caches.append(cache)
    return prepared(arguments["q"], arguments.get("q_weight")), caches[0], caches[1]


def check(arguments: dict[str, Any], eps: float) -> None:
    expected = reference(arguments)
    q_out = tt.kv_append(**arguments)
    for found, exact in zip((q_out, arguments["k_cache"], arguments["v_cache"]), expected, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=eps, atol=eps / 64)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize(("dtype", "eps"), [(torch.float32, 1e-5), (torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)])
def test_rotated_and_normalized(dtype: torch.dtype, eps: float, layout: str) -> None:
    arguments = inputs(dtype, layout=layout)
    check(arguments, eps)
    check({**arguments, "rope": "gpt-j", "weight_offset": 1.0, "eps": 0.25}, eps)
    check({**arguments, "cos_sin": arguments["cos_sin"][:, 8:24].contiguous()}, eps)
    check({**arguments, "cos_sin": None, "positions": None}, eps)
    check({**arguments, "q_weight": None, "k_weight": None}, eps)


@pytest.mark.parametrize("scales", [1, KV_HEADS])
def test_a_quantized_cache(scales: int) -> None:
    arguments = inputs(torch.bfloat16, torch.float8_e4m3fn)
    arguments |= {"k_scale": torch.full((scales,), 0.013), "v_scale": torch.full((scales,), 0.02)}
    q_exact, k_exact, v_exact = reference(arguments)
    q_out = tt.kv_append(**arguments)
    torch.testing.assert_close(q_out.double(), q_exact, rtol=2.0**-8, atol=1e-4)
    for found, exact in ((arguments["k_cache"], k_exact), (arguments["v_cache"], v_exact)):
        torch.testing.assert_close(found.double(), exact, rtol=2.0**-4 * 1.001, atol=2.0**-9)


def test_without_queries_it_copies() -> None:
    arguments = inputs(torch.bfloat16)
    for name in ("q", "positions", "cos_sin", "q_weight", "k_weight"):
        arguments.pop(name)
    expected = arguments["k_cache"].clone()
    expected[5 // PAGE, 5 % PAGE] = arguments["k"][0]
    assert tt.kv_append(**{**arguments, "slot_mapping": torch.tensor([5, *[-1] * 8])}) is None
    assert torch.equal(arguments["k_cache"], expected)


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
