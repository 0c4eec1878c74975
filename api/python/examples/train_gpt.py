"""Trains a small GPT twice from the same weights, with Tunesmith's operations and with PyTorch's, and prints both losses.

python api/python/examples/train_gpt.py [--steps N] [--dim N] [--seq N]    # bf16 on a GPU; tiny and float32 on the CPU

attention, rms_norm and the linear layer with cross-entropy are Tunesmith's; everything else is PyTorch's.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

import tunesmith.torch as tt


class Block(nn.Module):
    """A transformer layer: causal attention and a feed-forward network, each after a norm."""

    def __init__(self, dim: int, heads: int, ours: bool) -> None:
        super().__init__()
        self.heads, self.ours = heads, ours
        self.norms = nn.ParameterList([torch.ones(dim), torch.ones(dim)])
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, seq, dim)."""
        q, k, v = self.qkv(norm(x, self.norms[0], self.ours)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        if self.ours:
            attended = tt.attention(q, k, v, causal=True)
        else:
            first = (tensor.transpose(1, 2) for tensor in (q, k, v))
            attended = functional.scaled_dot_product_attention(*first, is_causal=True).transpose(1, 2)
        x = x + self.out(attended.flatten(2))
        return x + self.down(functional.gelu(self.up(norm(x, self.norms[1], self.ours))))


def norm(x: torch.Tensor, weight: torch.Tensor, ours: bool) -> torch.Tensor:
    """Normalize the last dimension."""
    function = tt.rms_norm if ours else functional.rms_norm
    return function(x, x.shape[-1:], weight, 1e-6)


class GPT(nn.Module):
    """Token and position embeddings, blocks, and a loss on the next token."""

    def __init__(self, vocabulary: int, seq: int, dim: int, heads: int, layers: int, ours: bool) -> None:
        super().__init__()
        self.ours = ours
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(seq, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, ours) for _ in range(layers))
        self.norm, self.head = nn.Parameter(torch.ones(dim)), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = norm(x, self.norm, self.ours)
        if self.ours:
            return tt.linear_cross_entropy(x, self.head.weight, targets)
        return functional.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())


def train(ours: bool, options: argparse.Namespace, device: str) -> list[float]:
    """Return the losses of the steps."""
    torch.manual_seed(0)
    model = GPT(options.vocabulary, options.seq, options.dim, options.heads, options.layers, ours).to(device)
    if device == "cuda":
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    random = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(options.steps):
        start = torch.randint(options.vocabulary, (options.batch, 1), generator=random)
        tokens = ((start + 7 * torch.arange(options.seq + 1)) % options.vocabulary).to(device)  # steps of seven: learnable
        loss = model(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    """Train both and compare."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    large = device == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {
        "steps": 200 if large else 8,
        "batch": 8 if large else 2,
        "seq": 512 if large else 16,
        "dim": 512 if large else 32,
        "heads": 8 if large else 2,
        "layers": 6 if large else 2,
        "vocabulary": 8192 if large else 64,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    ours, theirs = train(True, options, device), train(False, options, device)
    print("step  Tunesmith  PyTorch")
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if step % max(1, options.steps // 10) == 0 or step == options.steps - 1:
            print(f"{step:4}  {a:9.4f}  {b:7.4f}")
    print(f"largest difference {max(abs(a - b) for a, b in zip(ours, theirs, strict=True)):.1e}")


if __name__ == "__main__":
    main()
