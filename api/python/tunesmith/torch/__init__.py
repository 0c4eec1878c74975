"""The operations for PyTorch: tensors in, tensors out, with autograd and torch.compile.

    from tunesmith.torch import softmax, cross_entropy, linear_cross_entropy, attention, rms_norm

Shipped row programs are functions, too, such as layer_norm(x, w, b, eps=1e-5) and swiglu(gate, up) (docs/row-programs.md).

CUDA tensors run on the GPU, on the current stream; CPU tensors run on the host executor, which checks numerics and has no
speed. The operations are torch.ops.tunesmith.*; eager calls go to the kernels directly. Needs PyTorch 2.10 or newer.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .. import _core
from . import sdpa_backend as _sdpa_backend  # noqa: F401  (registers itself with torch)
from .append import kv_append
from .attention import attention
from .flex import flex_attention, why_not_flex_attention
from .launching import engine_of, use_engine
from .linear_losses import linear_cross_entropy
from .log_probs import linear_log_probs
from .losses import cross_entropy
from .merge import merge_attention_parts
from .paged import paged_attention
from .rms_norm import rms_norm
from .row_program import row_program, shipped
from .sdpa import scaled_dot_product_attention, why_not_scaled_dot_product_attention
from .softmax import log_softmax, softmax
from .varlen import attention_varlen
from .vocab_parallel import vocab_parallel_cross_entropy

from . import vmap as _vmap  # isort: skip  # noqa: F401  (registers rules for the operators)

__all__ = [
    "attention",
    "attention_varlen",
    "cross_entropy",
    "engine_of",
    "flex_attention",
    "kv_append",
    "linear_cross_entropy",
    "linear_log_probs",
    "log_softmax",
    "merge_attention_parts",
    "paged_attention",
    "rms_norm",
    "row_program",
    "scaled_dot_product_attention",
    "softmax",
    "use_engine",
    "vocab_parallel_cross_entropy",
    "why_not_flex_attention",
    "why_not_scaled_dot_product_attention",
]


# Not when they are first used: that may be in a function which torch.compile traces.
for _name in _core.shipped_program_names():
    with contextlib.suppress(ValueError):  # the gradient of a program that has none
        globals().setdefault(_name, shipped(_name))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
