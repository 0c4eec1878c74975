"""The command line that the package brings along."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_where_a_terminal_is(terminal: bool, tmp_path: Path) -> None:
    """Compiles for a GPU elsewhere; the kernels take longer than 0.15 seconds, after which the bar is drawn."""
    spec = tmp_path / "spec.json"
    problem = {"op": "softmax", "rows": 64, "cols": [1000 + 8 * i for i in range(6)], "dtype": "bf16"}
    spec.write_text(json.dumps({"problems": [problem]}))
    options = ["--spec", str(spec), "--compile-only", "--arch=sm_90a", "--jobs=1", f"--cache={tmp_path / 'cache.db'}"]
    reader, writer = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-m", "tunesmith", "prewarm", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer) as process:
        os.close(writer)
        text = b""
        with contextlib.suppress(OSError):  # a terminal without writers
            while part := os.read(reader, 4096):
                text += part
        os.close(reader)
    if process.returncode != 0:
        assert b"NVRTC" in text, text
        pytest.skip("needs NVRTC")
    assert (b"\r\x1b[K" in text) == terminal, text
    assert (re.search(rb"\[[#-]{24}\] \d+/\d+", text) is not None) == terminal, text


def test_a_pipe_that_closes_early_is_no_error() -> None:
    """The records are more text than a pipe holds."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tunesmith cache list --all | head -n 1"], capture_output=True, check=True
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""
