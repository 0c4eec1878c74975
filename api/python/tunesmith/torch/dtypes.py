"""Element types: their names in problems, and those in which operations compute."""

from __future__ import annotations

import torch


class _Names(dict[torch.dtype, str]):
    """Names of dtypes; others raise ValueError."""

    def __missing__(self, dtype: torch.dtype) -> str:
        raise ValueError(f"dtype is {dtype}, which no kernel reads; use torch.float32, torch.float16 or torch.bfloat16")


DTYPES = _Names(
    {
        torch.float32: "f32",
        torch.float64: "f64",
        torch.float16: "f16",
        torch.bfloat16: "bf16",
        torch.uint8: "u8",
        torch.bool: "u8",
        torch.int32: "i32",
        torch.int64: "i64",
        torch.float8_e4m3fn: "e4m3",
        torch.float8_e5m2: "e5m2",
        torch.int8: "i8",
    }
)

#: The dtype of each name.
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items() if dtype != torch.bool}


def wide_dtype(x: torch.Tensor) -> torch.dtype:
    """Return the dtype in which x is computed: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def wide(x: torch.Tensor) -> torch.Tensor:
    """Return x in the dtype in which it is computed."""
    return x.to(wide_dtype(x))
