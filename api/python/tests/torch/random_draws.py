"""A random call of tunesmith.torch, and the numbers, shapes and tensors that it draws."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

LAYOUTS = ["contiguous", "permuted", "stepped", "offset", "broadcast"]


@dataclasses.dataclass
class Call:
    """A call by the names of its tensors, and the same in float64."""

    text: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    tensors: dict[str, torch.Tensor]
    #: Tensors with gradients.
    inputs: Sequence[str]
    #: What autocast does: results in "f32", or inputs "cast".
    autocast: str = "f32"
    #: The tensors that autocast casts.
    cast: Sequence[str] = ()
    #: Rounding errors of a result, in units of its dtype and of sums of 64 terms in float32, relative to the largest result.
    roundings: float = 8.0
    #: Tensors that the function does not take, but captures: `function` returns it for them, outside of what is compiled.
    captured: Sequence[str] = ()
    #: Tensors that the function writes, and returns.
    written: Sequence[str] = ()
    #: Whether torch.compile takes it.
    compiles: bool = True


class Draw(random.Random):
    """Random numbers, shapes and tensors of one call."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.notes: list[str] = []

    def dtype(self) -> torch.dtype:
        return self.choice([torch.float32, torch.float16, torch.bfloat16])

    def maybe(self, probability: float = 0.3) -> bool:
        return self.random() < probability

    def floats(self, name: str, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
        return self.laid_out(name, (torch.randn(shape, generator=self.generator) * scale).to(dtype))

    def integers(self, name: str, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return self.laid_out(name, torch.randint(high, shape, generator=self.generator).to(dtype))

    def laid_out(self, name: str, tensor: torch.Tensor, *, repeated: bool = True) -> torch.Tensor:
        """Return the tensor in another layout. repeated: also in "broadcast", where it has other values."""
        layout = self.choice(LAYOUTS if repeated else LAYOUTS[:-1])
        dim = self.randrange(max(1, tensor.dim()))
        between = float("nan") if tensor.is_floating_point() else 99
        if layout == "broadcast" and tensor.dim() and tensor.shape[dim]:
            tensor = tensor.narrow(dim, 0, 1).expand(tensor.shape)
        elif layout == "permuted":
            order = self.sample(range(tensor.dim()), tensor.dim())
            inverse = [order.index(i) for i in range(tensor.dim())]
            tensor = tensor.permute(order).contiguous().permute(inverse)
        elif layout == "stepped" and tensor.dim():
            step = self.choice([2, 3])
            shape = [extent * step if i == dim else extent for i, extent in enumerate(tensor.shape)]
            index = tuple(slice(None, None, step if i == dim else None) for i in range(tensor.dim()))
            tensor = torch.full(shape, between, dtype=tensor.dtype)[index].copy_(tensor)
        elif layout == "offset":
            first = self.choice([1, 2, 3, 8])
            memory = torch.full((tensor.numel() + first,), between, dtype=tensor.dtype)
            tensor = memory[first:].view(tensor.shape).copy_(tensor)
        else:
            layout = "contiguous"
        self.notes.append(f"{name}: {str(tensor.dtype).partition('.')[2]}{list(tensor.shape)} {layout}")
        return tensor
