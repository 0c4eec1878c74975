"""The examples with PyTorch, in their size for the CPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    return subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout


def test_score_mod() -> None:
    difference = re.search(r"largest difference from PyTorch: ([\d.e+-]+)", run("score_mod.py"))
    assert difference is not None
    # Scores below 16 from sums of 32 products in float32.
    assert float(difference[1]) < 32 * 16 * 2.0**-24


def test_training_a_gpt_gives_pytorchs_losses() -> None:
    printed = run("train_gpt.py")
    rows = [[float(number) for number in line.split()] for line in printed.splitlines() if re.match(r" *\d", line)]
    assert rows[-1][1] < rows[0][1]
    # Losses of about 4 in float32; AdamW's first steps have the size of the learning rate whatever the gradient's size, so
    # that rounding of gradients near zero moves weights by up to 1e-3 of their size.
    assert all(abs(ours - theirs) < 4e-3 for _, ours, theirs in rows)


def test_a_transformers_model_gives_the_same_with_and_without() -> None:
    pytest.importorskip("transformers")
    printed = run("transformers_model.py")
    losses = re.search(r"loss +([\d.]+) with Tunesmith, ([\d.]+) without", printed)
    assert losses is not None
    assert abs(float(losses[1]) - float(losses[2])) <= 1e-4  # one unit of the last printed digit
    for difference, size in re.findall(r"largest difference ([\d.e+-]+) of ([\d.e+-]+)", printed):
        # Two layers in float32: sums of at most 128 terms in each of some 20 operations.
        assert float(difference) <= 2.0**-24 * 128 * 20 * float(size)
    tokens = re.findall(r"\[[\d, ]+\]", printed)
    assert len(tokens) == 2 and tokens[0] == tokens[1]


def test_vocab_parallel_in_two_processes() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, EXAMPLES / "vocab_parallel.py"], capture_output=True, text=True, check=True)
    assert "2 processes" in done.stdout


def test_the_training_step_of_the_benchmark() -> None:
    script = Path(__file__).parents[4] / "bench" / "python" / "train_step.py"
    options = ["--device", "cpu", "--compile", "none", "--peers", "tunesmith,torch", "--warmup", "1", "--steps", "2"]
    # It fails if the losses of the peers differ.
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True)
    assert re.search(r"^tunesmith +\d", done.stdout, re.MULTILINE)
    assert re.search(r"^torch +\d", done.stdout, re.MULTILINE)


def test_served_requests_have_the_tokens_of_the_model_without_a_cache() -> None:
    requests, equal = map(int, re.findall(r"^(\d+) requests", run("serve.py"), re.MULTILINE))
    assert requests == equal > 5
