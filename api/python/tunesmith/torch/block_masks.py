"""The block lists of flex_attention's BlockMask: whether they say more than its mask_mod, and a mask_mod that says both."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..mods import trace
from .transforms import is_compiling

__all__ = ["mask_mod_of"]

_MaskMod = Callable[..., Any]
_MOST_POSITIONS = 1 << 26  # of a mask that is evaluated at once
_HIDDEN, _PARTIAL, _FULL = 0, 1, 2

#: Of each BlockMask: what its lists were when they were read, and their blocks; None if mask_mod says as much.
_known: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], torch.Tensor | None]] = weakref.WeakKeyDictionary()


def mask_mod_of(block_mask: Any, query: torch.Tensor, key: torch.Tensor) -> _MaskMod | None:
    """Return a mask_mod for all that a BlockMask says.

    Blocks in no list are hidden, and those in the lists of full blocks visible, whatever mask_mod says. The lists that
    create_block_mask() makes follow from mask_mod, so that mask_mod alone is enough; the first use of a BlockMask finds out.
    """
    if block_mask is None:
        return None
    blocks = _blocks_beyond_mask_mod(block_mask, query, key)
    return block_mask.mask_mod if blocks is None else _with_blocks(block_mask, blocks)


def _blocks_beyond_mask_mod(block_mask: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    lists = (
        block_mask.kv_num_blocks,
        block_mask.kv_indices,
        block_mask.full_kv_num_blocks,
        block_mask.full_kv_indices,
    )
    if is_compiling():
        return _blocks(block_mask, key)
    versions = tuple(None if one is None else (one.data_ptr(), one._version) for one in lists)
    state = (versions, block_mask.mask_mod, block_mask.BLOCK_SIZE, query.shape[:3], key.shape[2])
    known = _known.get(block_mask)
    if known is not None and known[0] == state:
        return known[1]
    blocks: torch.Tensor | None = _blocks(block_mask, key)
    if query.is_cuda and torch.cuda.is_current_stream_capturing():
        return blocks  # a comparison would wait for the device
    assert blocks is not None
    if _follows_from_mask_mod(block_mask, blocks, query, key):
        blocks = None
    _known[block_mask] = (state, blocks)
    return blocks


def _blocks(block_mask: Any, key: torch.Tensor) -> torch.Tensor:
    """Return what the lists say of each block: hidden, partial or full, uint8 (batch, heads, blocks of q, blocks of k)."""
    cols = max(block_mask.kv_indices.shape[-1], -(-key.shape[2] // block_mask.BLOCK_SIZE[1]))
    blocks = _listed(block_mask.kv_num_blocks, block_mask.kv_indices, cols) * _PARTIAL
    if block_mask.full_kv_indices is not None:
        full = _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, cols)
        blocks = torch.where(full, _FULL, blocks)
    return blocks.to(torch.uint8).view(*[1] * (4 - blocks.dim()), *blocks.shape)


def _listed(numbers: torch.Tensor, indices: torch.Tensor, cols: int) -> torch.Tensor:
    """Return which blocks of each row are among the first `numbers` of its indices."""
    is_listed = torch.arange(indices.shape[-1], device=indices.device) < numbers[..., None]
    places = torch.where(is_listed, indices, cols).long()
    found = torch.zeros(*indices.shape[:-1], cols + 1, dtype=torch.bool, device=indices.device)
    return found.scatter_(-1, places, True)[..., :cols]


def _follows_from_mask_mod(block_mask: Any, blocks: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether mask_mod is false in all hidden blocks and true in all full ones."""
    source = trace(block_mask.mask_mod, "mask_mod").source
    (q_block, k_block), (seq_q, seq_k) = block_mask.BLOCK_SIZE, (query.shape[2], key.shape[2])
    extents = [query.shape[i] if blocks.shape[i] > 1 or name in _words(source) else 1 for i, name in ((0, "b"), (1, "h"))]
    b, h, k = (torch.arange(extent, device=query.device, dtype=torch.int32) for extent in (*extents, seq_k))
    evaluate = block_mask.mask_mod
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        evaluate = torch.vmap(evaluate, in_dims=dims)
    step = max(1, _MOST_POSITIONS // max(1, extents[0] * extents[1] * seq_k * q_block)) * q_block
    for first in range(0, seq_q, step):
        q = torch.arange(first, min(first + step, seq_q), device=query.device, dtype=torch.int32)
        seen = evaluate(b, h, q, k).expand(*extents, len(q), seq_k)
        of_blocks = blocks[:, :, q.long() // q_block][..., k.long() // k_block]
        if bool(((of_blocks == _HIDDEN) & seen | (of_blocks == _FULL) & ~seen).any()):
            return False
    return True


def _words(source: str) -> set[str]:
    """Return the names that the body of a traced function uses."""
    body = source.partition("{")[2]
    return set("".join(c if c.isalnum() or c == "_" else " " for c in body).split())


def _with_blocks(block_mask: Any, blocks: torch.Tensor) -> _MaskMod:
    q_block, k_block = block_mask.BLOCK_SIZE

    def listed(b: Any, h: Any, q: Any, k: Any) -> Any:
        block = blocks[b if blocks.shape[0] > 1 else 0, h if blocks.shape[1] > 1 else 0, q // q_block, k // k_block]
        return (block == _FULL) | ((block == _PARTIAL) & block_mask.mask_mod(b, h, q, k))

    return listed


def why_not_block_mask(block_mask: Any, query: torch.Tensor, key: torch.Tensor) -> str | None:
    """Return why no mask_mod says what a BlockMask says for these tensors; None if there is one."""
    if block_mask is None:
        return None
    q_block = block_mask.BLOCK_SIZE[0]
    shape, given = block_mask.kv_indices.shape, (query.shape[0], query.shape[1])
    found = (*[1] * (4 - len(shape)), *shape)[:2]
    if any(extent not in (1, expected) for extent, expected in zip(found, given, strict=True)):
        return f"block_mask is for {found[0]} batch entries and {found[1]} heads; query has {given[0]} and {given[1]}"
    if block_mask.kv_indices.device != query.device:
        return f"block_mask is on {block_mask.kv_indices.device}; expected {query.device}"
    if shape[-2] * q_block < query.shape[2]:
        return f"block_mask has {shape[-2]} blocks of {q_block} queries; query has {query.shape[2]}"
    return None
