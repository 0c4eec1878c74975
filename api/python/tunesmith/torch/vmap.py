"""The operators under torch.vmap: one launch where the batch is more rows or more of attention's batch, else a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..row_programs import over_rows
from . import losses
from .attention_operators import BACKWARD, FORWARD
from .operators import Operator
from .rms_norm import FORWARD as RMS_NORM
from .softmax import BACKWARD as SOFTMAX_BACKWARD
from .softmax import FORWARD as SOFTMAX
from .texts import lines_of

_OPS = torch.ops.tunesmith

#: Rule of an operator: (info, in_dims, *arguments) -> (outputs, out_dims).
Rule = Callable[..., tuple[Any, Any]]


def looped(operator: Callable[..., Any]) -> Rule:
    """Return a rule that calls the operator for each element of the batch."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        results = [operator(*_element(arguments, in_dims, i)) for i in range(info.batch_size)]
        outputs = pytree.tree_map(lambda *each: torch.stack(each), *results)
        return outputs, pytree.tree_map(lambda _: 0, outputs)

    return rule


def _element(arguments: Sequence[Any], dims: Sequence[Any], i: int) -> list[Any]:
    """Return element i of arguments, which may be lists of tensors."""
    return [
        _element(argument, dim, i) if isinstance(dim, list | tuple) else argument if dim is None else argument.select(dim, i)
        for argument, dim in zip(arguments, dims, strict=True)
    ]


def merged(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """Return a tensor with the batch merged into its first dimension; one without a batch is repeated."""
    return _expanded(tensor, dim, size).flatten(0, 1)


def _split(outputs: Any, size: int) -> tuple[Any, Any]:
    """Return outputs with the batch as the first dimension, and its places."""
    outputs = pytree.tree_map(lambda output: output.unflatten(0, (size, -1 if output.shape[0] else 0)), outputs)
    return outputs, pytree.tree_map(lambda _: 0, outputs)


def _attention(operator: Operator) -> Rule:
    """Return the rule of an operator that has attention's batch."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        dims = dict(zip(operator.inputs, in_dims, strict=False))
        tensors, options = operator.split(arguments)
        batched = [name for name in _OF_BATCH if name in dims]
        others = [dim for name, dim in dims.items() if name not in batched]
        # With dropout, functions of the number of the batch, and gradients summed over the batch, each element is by itself.
        alone = [name for name in tensors if tensors[name] is not None and name not in (*batched, "alibi_slopes", "sinks")]
        alone += [name for name in ("score_mod", "mask_mod", "dsinks", "dslopes") if options.get(name)]
        if alone or any(dim is not None for dim in others):
            return looped(operator.overload)(info, in_dims, *arguments)
        size = info.batch_size
        for name in batched:
            tensors[name] = merged(tensors[name], dims[name], size)
        return _split(operator.overload(*operator.arguments(tensors, tuple(options.values()))), size)

    return rule


#: Tensors of attention with a dimension for the batch.
_OF_BATCH = ("q", "k", "v", "o", "lse", "dout")


def _rows(operator: Operator) -> Rule:
    """Return the rule of an operator whose tensors have more rows, but for weights, of which a kernel has one for all."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        tensors, options = operator.split(arguments)
        dims = dict(zip(operator.inputs, in_dims, strict=False))
        if dims.pop("weight", None) is not None or options.get("reduction", "none") != "none":
            return looped(operator.overload)(info, in_dims, *arguments)
        for name, dim in dims.items():
            tensor = tensors[name]
            tensors[name] = None if tensor is None else _expanded(tensor, dim, info.batch_size)
        outputs = operator.overload(*operator.arguments(tensors, tuple(options.values())))
        return outputs, pytree.tree_map(lambda _: 0, outputs)

    return rule


def _expanded(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """Return a tensor with the batch as its first dimension."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _row_program(info: Any, in_dims: Any, inputs: Sequence[torch.Tensor], program: str, numbers: str) -> tuple[Any, Any]:
    size, dims = info.batch_size, in_dims[0]
    has_rows = over_rows(lines_of(program))
    if has_rows is None or any(dim is not None and not rows for dim, rows in zip(dims, has_rows, strict=True)):
        return looped(_OPS.row_program)(info, in_dims, inputs, program, numbers)
    batch = [merged(one, dim, size) if rows else one for one, dim, rows in zip(inputs, dims, has_rows, strict=True)]
    return _split(_OPS.row_program(batch, program, numbers), size)


_RULES: dict[str, Rule] = {
    "linear_cross_entropy": looped(_OPS.linear_cross_entropy),
    "linear_cross_entropy_backward": looped(_OPS.linear_cross_entropy_backward),
    "attention": _attention(FORWARD),
    "attention_backward": _attention(BACKWARD),
    "row_program": _row_program,
}
for _operator in (*SOFTMAX.values(), *SOFTMAX_BACKWARD.values(), RMS_NORM, losses.FORWARD, losses.BACKWARD):
    _RULES[_operator.name] = _rows(_operator)
for _name, _rule in _RULES.items():
    torch.library.register_vmap(f"tunesmith::{_name}", _rule)
