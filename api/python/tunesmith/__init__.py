"""CUDA kernels that are generated for a problem, tuned, verified and cached: softmax, cross-entropy, attention.

    import numpy, tunesmith
    y = tunesmith.ops.softmax(numpy.random.rand(4, 1000).astype("f4"), scale=0.5)

Engine, Problem and Plan give control over device, configuration and memory; tunesmith.torch has the operations for
PyTorch. Importing this package imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from . import errors, ops
from ._core import Array, Field, Plan, Problem, TuningStatus, version
from .engine import Engine, default_engine
from .errors import Error
from .ops import operation
from .prewarming import prewarm, problems_of_spec
from .progress import ProgressBar, TuningStep

__version__ = version

__all__ = [
    "Array",
    "Engine",
    "Error",
    "Field",
    "Plan",
    "Problem",
    "ProgressBar",
    "TuningStatus",
    "TuningStep",
    "__version__",
    "default_engine",
    "errors",
    "operation",
    "ops",
    "prewarm",
    "problems_of_spec",
    "version",
]
