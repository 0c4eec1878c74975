"""The example that needs no PyTorch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_numpy_host() -> None:
    example = Path(__file__).parents[1] / "examples" / "numpy_host.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)
    # Each row of the gradient is a sum of 1000 terms of about 1e-4, rounded to float32.
    sums = re.search(r"sums to ([\d.e-]+) or less", done.stdout)
    assert sums is not None
    assert float(sums[1]) < 1000 * 2.0**-24
    assert "largest difference from its value: 0.0e+00" in done.stdout
