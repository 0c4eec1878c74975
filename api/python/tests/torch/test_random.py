"""Random calls (random_calls.py) for a bounded time: fixed seeds, then others.

TUNESMITH_RANDOM_SECONDS: for each of the two, default 30. TUNESMITH_RANDOM_SEED: the first of the others, by default from
the clock.
A failure names its seed; a seed that failed once belongs in random_calls.txt.
"""

from __future__ import annotations

import os
import pathlib
import time

import pytest
import random_calls
import random_invalid_calls

SECONDS = float(os.environ.get("TUNESMITH_RANDOM_SECONDS", "30"))
FAILED_ONCE = [line.split("#")[0] for line in pathlib.Path(__file__).with_name("random_calls.txt").read_text().splitlines()]


def run_from(seed: int, at_least: int) -> int:
    """Run the calls of consecutive seeds for SECONDS, but some of them; return their number."""
    end, first = time.monotonic() + SECONDS, seed
    while time.monotonic() < end or seed < first + at_least:
        random_calls.run(seed)
        seed += 1
    return seed - first


def test_calls_of_fixed_seeds() -> None:
    run_from(1, 10)


def test_calls_of_fresh_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("TUNESMITH_RANDOM_SEED", str(int(time.time()) * 1000)))
    with capsys.disabled():
        print(f"\nrandom calls from seed {seed}: ", end="", flush=True)
        print(run_from(seed, 5))


@pytest.mark.parametrize("seed", [int(line) for line in FAILED_ONCE if line.strip()])
def test_calls_that_failed_once(seed: int) -> None:
    random_calls.run(seed)


@pytest.mark.parametrize("seed", range(random_invalid_calls.COUNT))
def test_invalid_calls(seed: int) -> None:
    random_invalid_calls.run(seed)
