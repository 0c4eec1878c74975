"""What the import costs and brings along."""

from __future__ import annotations

import subprocess
import sys


def test_neither_torch_nor_numpy_is_imported() -> None:
    code = "import tunesmith, sys; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "tunesmith", "ops"], capture_output=True, text=True, check=True)
    assert "rms_norm" in done.stdout


def test_the_exit_code_of_the_command_line_is_the_programs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith", "run", "softmax", "--rows", "x"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "rows" in done.stderr
