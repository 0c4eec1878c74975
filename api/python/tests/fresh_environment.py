"""Computes a softmax on the CPU and checks it: what a new user does first. scripts/wheel.sh runs it outside of the tree."""

import numpy

import tunesmith

# The build had the headers that tunesmith.jax needs.
assert hasattr(tunesmith._core, "xla_handlers")

x = numpy.random.default_rng(0).standard_normal((64, 1000), dtype=numpy.float32)
y = tunesmith.ops.softmax(x)
exact = numpy.exp(x.astype(float) - x.max(axis=1, keepdims=True).astype(float))
exact /= exact.sum(axis=1, keepdims=True)
# An element is exp(d) / sum with d rounded to float32 at most once, and |d| < 16 here: at most 16 * 2^-24 relative from
# that, and a few roundings of exp, sum and quotient.
assert numpy.abs(y / exact - 1).max() < 24 * 2.0**-24
print(f"softmax of {x.shape} on {tunesmith.default_engine('host').device_name}: verified")
