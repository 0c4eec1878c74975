"""Layouts of tensors as the fields of problems: rows, columns and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor, or a copy if it has other strides."""
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def rows_of(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Return rows, columns and the stride of the rows of a tensor's last dimension; None if the rows have no one stride.

    Tensors without elements have no rows. Operations have at least one column.
    """
    cols = tensor.shape[-1]
    if tensor.numel() == 0:
        return 0, max(cols, 1), max(cols, 1)
    rows = tensor.numel() // cols
    if tensor.stride(-1) != 1 and cols > 1:
        return None
    stride, expected = cols, -1
    for extent, step in zip(reversed(tensor.shape[:-1]), reversed(tensor.stride()[:-1]), strict=True):
        if extent == 1:
            continue
        if expected < 0:
            stride = step
        elif step != expected:
            return None
        expected = step * extent
    if stride != 0 and stride < cols and rows > 1:
        return None
    return rows, cols, stride if rows > 1 else cols


def dimension_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any] | None:
    """Return the fields of problems over the last dimension of tensors of equal shape, at any strides, without a copy.

    tensors: by the names of the operation's arrays, the output last. The other dimensions are merged to at most two, `rows`
    and `inner`. None if they cannot be, and where a contiguous copy is faster: adjacent columns of rows without one stride.
    """
    shapes = {tensor.shape for tensor in tensors.values()}
    if len(shapes) != 1:
        return None
    rows = {name: rows_of(tensor) for name, tensor in tensors.items()}
    if all(layout is not None for layout in rows.values()):
        count, cols, _ = next(layout for layout in rows.values() if layout is not None)
        strides = {f"{name}_row_stride": layout[2] for name, layout in rows.items() if layout is not None}
        return {"rows": count, "cols": cols, **strides}
    merged = _merged(list(tensors.values()))
    output = list(tensors.values())[-1]
    if len(merged) > 2 or output.stride(-1) == 1:
        return None
    while len(merged) < 2:  # one dimension is `inner`
        merged.insert(0, (1, [0] * len(tensors)))
    (count, row_strides), (inner, inner_strides) = merged
    fields: dict[str, Any] = {"rows": count, "cols": output.shape[-1], "inner": inner}
    for i, (name, tensor) in enumerate(tensors.items()):
        fields[f"{name}_row_stride"] = row_strides[i]
        fields[f"{name}_col_stride"] = tensor.stride(-1)
        fields[f"{name}_inner_stride"] = inner_strides[i]
    return fields


def classes_of(logits: torch.Tensor, target: torch.Tensor) -> dict[str, Any] | None:
    """Return the fields of problems over the last dimension of logits, with a target for each index of the other ones.

    None where a contiguous copy is needed, or faster: as in dimension_of, or if target is not contiguous.
    """
    if logits.shape[:-1] != target.shape or not target.is_contiguous():
        return None
    layout = rows_of(logits)
    if layout is not None:
        return {"rows": layout[0], "cols": layout[1], "logits_row_stride": layout[2]}
    merged = _merged([logits, target.unsqueeze(-1)])  # in the order of the targets
    if len(merged) > 2 or logits.stride(-1) == 1:
        return None
    while len(merged) < 2:  # one dimension is `inner`
        merged.insert(0, (1, [0, 0]))
    (rows, row_strides), (inner, inner_strides) = merged
    return {
        "rows": rows,
        "cols": logits.shape[-1],
        "inner": inner,
        "logits_row_stride": row_strides[0],
        "logits_col_stride": logits.stride(-1),
        "logits_inner_stride": inner_strides[0],
    }


def _merged(tensors: Sequence[torch.Tensor]) -> list[tuple[int, list[int]]]:
    """Return extents and strides of all dimensions but the last, the innermost of the last tensor last, merged."""
    last = tensors[-1]
    order = sorted((i for i in range(last.dim() - 1) if last.shape[i] != 1), key=last.stride, reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for i in order:
        extent, strides = last.shape[i], [tensor.stride(i) for tensor in tensors]
        if merged and all(outer == extent * step for outer, step in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    return merged
