"""What the tests on CUDA tensors share: when they are skipped, and the comparison with float64."""

from __future__ import annotations

import pytest
import torch

needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

# Half a unit in the last place of the result's dtype, plus what float32 leaves: see test_rows.py.
EPS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}


def close(actual: torch.Tensor, exact: torch.Tensor, roundings: float) -> None:
    tolerance = roundings * EPS[actual.dtype] + 64 * EPS[torch.float32]
    torch.testing.assert_close(actual.double(), exact, rtol=tolerance, atol=tolerance)
