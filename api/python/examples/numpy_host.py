"""Cross-entropy and attention on NumPy arrays: the kernels of a GPU, on the CPU.

python api/python/examples/numpy_host.py
"""

import numpy

import tunesmith

random = numpy.random.default_rng(0)

logits = random.standard_normal((8, 1000), dtype=numpy.float32)
targets = random.integers(1000, size=8)
result = tunesmith.ops.cross_entropy(logits, targets, gradient="separate", label_smoothing=0.1)
print(f"loss {result.loss[0]:.4f}; each row of the gradient sums to {abs(result.dlogits.sum(axis=1)).max():.1e} or less")

q, k, v = (random.standard_normal((1, 32, 2, 16), dtype=numpy.float32) for _ in range(3))
o = tunesmith.ops.attention(q, k, v, causal="top-left").o
print(f"the first query sees only the first key; largest difference from its value: {abs(o[0, 0] - v[0, 0]).max():.1e}")

plan = tunesmith.default_engine("host").prepare("softmax", rows=4, cols=1000, config="variant=two_pass")
print(f"{plan.problem.split(',')[0]} ... runs as {plan.config}")
