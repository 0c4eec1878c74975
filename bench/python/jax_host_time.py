"""Host time of jitted calls of tunesmith.jax next to jitted functions of JAX, whose results they are compared with.

    python bench/python/jax_host_time.py [--json]

The arrays are small, so that the GPU is faster than the host: the time of a call is that of enqueueing it. Both functions
alternate, and each time is the median of several runs. On the CPU, times are those of the host executor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import tunesmith.jax as tj


def cases() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]:
    """Return Tunesmith's function, JAX's, and their arguments."""
    keys = jax.random.split(jax.random.key(0), 8)
    x = jax.random.normal(keys[0], (64, 1024), jnp.bfloat16)
    weight = jax.random.normal(keys[1], (1024,), jnp.bfloat16)
    targets = jax.random.randint(keys[2], (64,), 0, 1024)
    q, k, v = (jax.random.normal(key, (1, 128, 4, 64), jnp.bfloat16) for key in keys[3:6])

    def cross_entropy(x: Any, targets: Any) -> Any:
        p = jax.nn.log_softmax(x.astype(jnp.float32))
        return -jnp.take_along_axis(p, targets[:, None], 1).mean()

    def rms_norm(x: Any, weight: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6) * weight).astype(x.dtype)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return {
        "softmax": (tj.softmax, jax.nn.softmax, (x,)),
        "cross_entropy": (tj.cross_entropy, cross_entropy, (x, targets)),
        "rms_norm": (tj.rms_norm, rms_norm, (x, weight)),
        "attention": (lambda q, k, v: tj.attention(q, k, v, causal=True), attention, (q, k, v)),
        "gradient of softmax": (
            jax.grad(lambda x: (tj.softmax(x) * x).sum()),
            jax.grad(lambda x: (jax.nn.softmax(x) * x).sum()),
            (x,),
        ),
    }


def time_us(run: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        result = run(*arguments)
    passed = time.perf_counter() - start
    jax.block_until_ready(result)
    return passed / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    device = jax.devices()[0]
    rows = []
    for name, (ours, theirs, arguments) in cases().items():
        pair = (jax.jit(ours), jax.jit(theirs))
        one, other = (run(*arguments) for run in pair)  # compiles
        error = jnp.abs(one.astype(jnp.float32) - other.astype(jnp.float32)).max() / jnp.abs(other).max()
        times = [[time_us(run, arguments, given.calls) for run in pair] for _ in range(15)]
        mine, jaxs = (statistics.median(each) for each in zip(*times, strict=True))
        rows.append({"call": name, "tunesmith_us": mine, "jax_us": jaxs, "over_us": mine - jaxs, "error": float(error)})
    if given.json:
        print(json.dumps({"device": device.device_kind, "jax": jax.__version__, "calls": rows}))
        return
    print(f"{device.device_kind}, JAX {jax.__version__}; microseconds of host time for a call")
    for row in rows:
        print(
            "{call:20} tunesmith {tunesmith_us:7.2f}  jax {jax_us:7.2f}  over {over_us:+7.2f}  error {error:.1e}".format(
                **row
            )
        )


if __name__ == "__main__":
    main()
