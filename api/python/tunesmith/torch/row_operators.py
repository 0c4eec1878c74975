"""Operators over a dimension of tensors of any shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..described import Described
from .dtypes import TORCH_DTYPES
from .layouts import with_strides
from .operators import Named, Operator

__all__ = ["RowOperator"]


class RowOperator(Operator):
    """An operator whose rows are a dimension of tensors, usually the last one; all others are rows.

    layout: returns the fields of sizes and strides from tensors by name, or None if no kernel reads them. like: the input
    whose shape outputs of rows and columns have, and whose strides if it is dense; with `packed`, outputs are contiguous.
    rows: the input whose shape outputs of rows have.
    """

    def __init__(
        self,
        name: str,
        op: str = "",
        *,
        layout: Callable[[Named], dict[str, Any] | None],
        like: str,
        packed: bool = False,
        rows: str = "",
        **others: Any,
    ) -> None:
        self.layout, self.like, self.packed, self.rows = layout, like, packed, rows
        super().__init__(name, op, **others)

    def fields(self, tensors: Named, structure: dict[str, Any]) -> dict[str, Any] | None:
        layout = self.layout(tensors)
        return None if layout is None else {**structure, **layout}

    def sizes(self, tensors: Named, structure: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def output(self, array: Described, tensors: Named, sizes: Mapping[str, Any], device: torch.device) -> torch.Tensor:
        like, dtype = tensors[self.like], TORCH_DTYPES[array.dtype]
        assert like is not None
        if "cols" in array.dims and not self.packed:
            return torch.empty_like(like, dtype=dtype, device=device)
        if "cols" in array.dims:
            return like.new_empty(like.shape, dtype=dtype, device=device)
        rows = tensors.get(self.rows)
        return like.new_empty(() if rows is None or array.dims == ("1",) else rows.shape, dtype=dtype, device=device)

    def run(self, *arguments: Any) -> Any:
        """Run the operator; results have the strides of `like`, although a copy may have been read."""
        found = super().run(*arguments)
        like = arguments[self.inputs.index(self.like)]
        if self.packed or like.is_contiguous() or not isinstance(found, torch.Tensor) or found.shape != like.shape:
            return found
        return with_strides(found, torch.empty_like(like, dtype=found.dtype, device="meta").stride())
