"""Options of operations from the arguments of functions, in every library's package."""

from __future__ import annotations

from typing import Any

__all__ = ["score_options"]


def score_options(
    causal: bool | str, window: tuple[int | None, int | None], scale: float | None, softcap: float
) -> dict[str, Any]:
    """Return the options that all attention functions have, from their arguments."""
    if isinstance(causal, bool):
        causal = "bottom-right" if causal else "none"
    left, right = (None if side == -1 else side for side in window)  # FlashAttention's -1: no bound
    scale = None if scale is None else float(scale)
    return {"causal": causal, "window_left": left, "window_right": right, "scale": scale, "softcap": float(softcap)}
