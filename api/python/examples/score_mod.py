"""A relative position bias and a document mask as Python functions, traced to CUDA source.

python api/python/examples/score_mod.py    # on a GPU if there is one, else on the CPU
"""

import torch

from tunesmith import mods
from tunesmith.torch import attention

device = "cuda" if torch.cuda.is_available() else "cpu"
seq, heads, head_dim = 48, 2, 32
torch.manual_seed(0)
q, k, v = (torch.randn(1, seq, heads, head_dim, device=device) for _ in range(3))
bias = torch.randn(heads, 2 * seq - 1, device=device)
document = torch.arange(seq, device=device) // 20


def relative_bias(score, b, h, q, k):
    """Add an entry for the distance of query and key."""
    return score + bias[h, k - q + seq - 1]


def same_document(b, h, q, k):
    """Let a query see earlier keys of its own document."""
    return (document[q] == document[k]) & (q >= k)


o = attention(q, k, v, score_mod=relative_bias, mask_mod=same_document)

position = torch.arange(seq, device=device)
seen = (document[:, None] == document) & (position[:, None] >= position)
scores = torch.einsum("bihd,bjhd->bhij", q, k) / head_dim**0.5 + bias[:, position - position[:, None] + seq - 1]
exact = torch.einsum("bhij,bjhd->bihd", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)
print(mods.trace(same_document, "mask_mod").source)
print(f"largest difference from PyTorch: {(o - exact).abs().max():.1e}")
