"""attention and its user functions against float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import reference
from reference import check, integers, numbers

import tunesmith
import tunesmith.jax as tj
from tunesmith.jax import mods


def _arrays(seq_q: int = 40, seq_kv: int = 48, dtype: Any = jnp.bfloat16) -> tuple[jax.Array, ...]:
    return tuple(
        numbers(2, seq, heads, 32, dtype=dtype, seed=i)
        for i, (seq, heads) in enumerate([(seq_q, 4), (seq_kv, 2), (seq_kv, 2)])
    )


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("causal, softcap", [(False, 0.0), (True, 1.5)])
def test_attention(layout: str, causal: bool, softcap: float) -> None:
    turned = lambda x: x.swapaxes(1, 2) if layout == "bhsd" else x  # noqa: E731
    check(
        lambda *a: turned(tj.attention(*map(turned, a), layout=layout, causal=causal, softcap=softcap)),
        lambda *a: reference.attention(*a, mask=lambda b, h, q, k: (q + 8 >= k) | (not causal), softcap=softcap)[0],
        *_arrays(dtype=jnp.float16),
        slack=2,
    )


def test_window_slopes_sinks_and_lse() -> None:
    slopes, sinks = jnp.array([0.1, 0.2, 0.3, 0.4]), numbers(4)

    def ours(q: Any, k: Any, v: Any, slopes: Any, sinks: Any) -> Any:
        return tj.attention(q, k, v, causal="top-left", window=(9, 0), alibi_slopes=slopes, sinks=sinks, return_lse=True)

    def theirs(q: Any, k: Any, v: Any, slopes: Any, sinks: Any) -> Any:
        o, lse = reference.attention(
            q,
            k,
            v,
            lambda s, b, h, q, k: s - slopes[h] * jnp.abs(q - k),
            lambda b, h, q, k: (q >= k) & (q - k <= 9),
            sinks=sinks,
        )
        return o, jax.lax.stop_gradient(lse)

    check(ours, theirs, *_arrays(), slopes, sinks)


BIAS = numbers(4, 40, 48)
DOCUMENT = integers(3, 2, 64).sort()
TABLE = integers(2, 48).astype(bool)


MANY = [numbers(60 + i) for i in range(9)]


def _positive(x: Any) -> Any:
    return jax.nn.relu(x)


MODS: dict[str, tuple[Any, Any]] = {
    "relative": (lambda s, b, h, q, k: s + 0.1 * (q - k), lambda b, h, q, k: q >= k),
    "slopes": (lambda s, b, h, q, k: s - jnp.array([0.1, 0.2, 0.3, 0.4])[h] * jnp.abs(q - k), None),
    "softcap": (lambda s, b, h, q, k: 2.0 * jnp.tanh(s / 2.0), lambda b, h, q, k: (q - k < 9) & ~(q < k) | (k == 0)),
    "bias": (lambda s, b, h, q, k: s + BIAS[h, q, k], None),
    "where": (lambda s, b, h, q, k: jnp.where((q + h) % 3 == 0, _positive(s), s**2 / (1 + jnp.exp(-s))), None),
    "integers": (lambda s, b, h, q, k: s * ((q // 3 - k // 4) ** 2 % 5) + jax.lax.rem(q - k, 7), None),
    "bounds": (lambda s, b, h, q, k: jnp.clip(s, -0.5, jnp.maximum(0.5, s / 2)) + jnp.sign(s) * jnp.minimum(q, k), None),
    "documents": (None, lambda b, h, q, k: DOCUMENT[b, q] == DOCUMENT[b, k]),
    "table": (None, lambda b, h, q, k: TABLE[k] | (k == q)),
    "negative": (lambda s, b, h, q, k: s + BIAS[h, -1, k] + BIAS[0][q, q - k], None),
    "logic": (None, lambda b, h, q, k: jnp.logical_or(jnp.logical_not(q > k), jnp.logical_xor(h > 1, k % 2 == 0))),
}


@pytest.mark.parametrize("name", MODS)
def test_user_functions(name: str) -> None:
    score, mask = MODS[name]
    check(
        lambda *a: tj.attention(*a, score_mod=score, mask_mod=mask),
        lambda *a: reference.attention(*a, score or (lambda s, b, h, q, k: s), mask or (lambda b, h, q, k: jnp.bool_(True)))[
            0
        ],
        *_arrays(),
        slack=2,
    )


def test_gradients_of_captured_arrays_under_jit() -> None:
    def call(attend: Any) -> Any:
        def run(q: Any, k: Any, v: Any, bias: Any, gate: Any) -> Any:
            return attend(q, k, v, lambda s, b, h, q, k: s * gate[h] + bias[h, q - k + 47])

        return run

    ours = call(lambda q, k, v, score: tj.attention(q, k, v, score_mod=score, causal="top-left"))
    theirs = call(lambda q, k, v, score: reference.attention(q, k, v, score, lambda b, h, q, k: q >= k)[0])
    check(jax.jit(ours), theirs, *_arrays(), numbers(4, 87), numbers(4, seed=9), slack=2)


def test_source_is_accepted() -> None:
    source = "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return q >= k; }"
    q, k, v = _arrays()
    assert (tj.attention(q, k, v, mask_mod=source) == tj.attention(q, k, v, mask_mod=lambda b, h, q, k: q >= k)).all()


def test_an_index_of_an_argument_is_not_bounded_and_others_are() -> None:
    assert "aux.s0[k]" in mods.trace(lambda s, b, h, q, k: s + numbers(48)[k], "score_mod").source
    assert "> 47 ?" not in mods.trace(lambda s, b, h, q, k: s + numbers(48)[k], "score_mod").source
    assert "47" in mods.trace(lambda s, b, h, q, k: s + numbers(48)[q - k], "score_mod").source


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda b, h, q, k: q if q > k else k, "branches on a number"),
        (lambda b, h, q, k: q - k, "its result is of type int; expected a truth value"),
        (lambda b, h, q, k: BIAS.sum() + q > k, "not indexed"),
        (lambda b, h, q, k: BIAS[h].sum() > k, "not indexed"),
        (lambda b, h, q, k: jax.lax.erf_inv(q * 1.0) > k, "it calls erf_inv, which has no translation"),
        (lambda b, h, q, k: sum(one[q] for one in MANY) > k, "more than 8 tensors"),
    ],
)
def test_what_cannot_be_traced_names_the_function(function: Any, reason: str) -> None:
    q, k, v = _arrays()
    with pytest.raises(tunesmith.Error, match=f"cannot be traced as mask_mod: .*({reason})"):
        tj.attention(q, k, v, mask_mod=function)
