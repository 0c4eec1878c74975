"""The operations for JAX: functions of arrays under jit, grad, vmap and shard_map.

    from tunesmith.jax import softmax, cross_entropy, linear_cross_entropy, attention, rms_norm

Shipped row programs are functions, too, such as layer_norm(x, w, b, eps=1e-5) and swiglu(gate, up) (docs/row-programs.md).

On a GPU, a call is a custom call of XLA on XLA's stream; on the CPU, the host executor checks numerics and has no speed.
Operands are row-major; XLA copies others. Functions differentiate once, in reverse mode. Needs JAX 0.10 or newer.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .. import _core
from .attention import attention
from .calls import use_engine
from .linear_losses import linear_cross_entropy
from .losses import cross_entropy
from .rms_norm import rms_norm
from .row_program import row_program, shipped
from .softmax import log_softmax, softmax

__all__ = [
    "attention",
    "cross_entropy",
    "linear_cross_entropy",
    "log_softmax",
    "rms_norm",
    "row_program",
    "softmax",
    "use_engine",
]

for _name in _core.shipped_program_names():
    with contextlib.suppress(ValueError):  # the gradient of a program that has none
        globals().setdefault(_name, shipped(_name))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
