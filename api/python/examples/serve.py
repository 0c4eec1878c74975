"""Serves a small transformer with random weights: a KV cache in pages, continuous batching, greedy decoding.

Every step is one batch: whole prompts of new requests, and one token of the others. Afterwards each request is decoded again
by the same model without a cache, in float64, with PyTorch's attention: the tokens must be the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

import tunesmith.torch as tt

LAYERS, HIDDEN, HEADS, KV_HEADS, DIM, VOCAB, MAX_LENGTH = 2, 48, 4, 2, 16, 101, 40
PAGE, PAGES, MAX_BATCH = 4, 26, 4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Model(torch.nn.Module):
    """A transformer whose attention is a function of layer, q, k and v: (tokens, heads, DIM) each."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        widths = {"qkv": (HIDDEN, (HEADS + 2 * KV_HEADS) * DIM), "o": (HEADS * DIM, HIDDEN), "up": (HIDDEN, 8 * HIDDEN)}
        widths["down"] = (4 * HIDDEN, HIDDEN)
        for name, (inside, out) in widths.items():
            setattr(self, name, torch.nn.ModuleList(torch.nn.Linear(inside, out, bias=False) for _ in range(LAYERS)))
        self.q_weight, self.k_weight = (torch.nn.Parameter(torch.rand(LAYERS, DIM) + 0.5) for _ in range(2))
        angles = torch.arange(MAX_LENGTH)[:, None] * 100.0 ** -(torch.arange(DIM // 2) / (DIM // 2))
        self.register_buffer("cos_sin", torch.cat([angles.cos(), angles.sin()], -1))

    def forward(self, tokens: torch.Tensor, attend: Attend) -> torch.Tensor:
        x = self.embedding(tokens)
        for i in range(LAYERS):
            q, k, v = self.qkv[i](F.rms_norm(x, (HIDDEN,))).split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
            o = attend(i, *(one.unflatten(-1, (-1, DIM)) for one in (q, k, v)))
            x = x + self.o[i](o.flatten(-2))
            gate, up = self.up[i](F.rms_norm(x, (HIDDEN,))).chunk(2, -1)
            x = x + self.down[i](F.silu(gate) * up)
        return F.linear(F.rms_norm(x, (HIDDEN,)), self.embedding.weight)


@dataclasses.dataclass
class Request:
    tokens: list[int]
    #: Tokens at the end.
    length: int
    #: Tokens whose keys and values are in the cache.
    cached: int = 0
    pages: list[int] = dataclasses.field(default_factory=list)


# [serve]
class Server:
    def __init__(self, model: Model) -> None:
        self.model, self.free = model, list(range(PAGES))
        self.cache = torch.empty(LAYERS, PAGES, 2, PAGE, KV_HEADS, DIM, device=DEVICE)

    @torch.no_grad()
    def step(self, batch: list[Request]) -> None:
        """Run the tokens of all requests that are not in the cache, and append one to each request."""
        tokens, positions, slots, starts, table = [], [], [], [0], []
        for request in batch:
            while len(request.pages) * PAGE < len(request.tokens):
                request.pages.append(self.free.pop())
            new = range(request.cached, len(request.tokens))
            tokens += request.tokens[request.cached :]
            positions += new
            slots += [request.pages[i // PAGE] * PAGE + i % PAGE for i in new]
            starts.append(len(tokens))
            table.append(request.pages + [-1] * (MAX_LENGTH // PAGE - len(request.pages)))
            request.cached = len(request.tokens)
        slot_mapping, places, ids = (torch.tensor(one, device=DEVICE) for one in (slots, positions, tokens))
        starts_q, block_table, lengths = (
            torch.tensor(one, dtype=torch.int32, device=DEVICE) for one in (starts, table, [one.cached for one in batch])
        )

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            k_cache, v_cache = self.cache[layer].unbind(1)
            weights = {"q_weight": self.model.q_weight[layer], "k_weight": self.model.k_weight[layer]}
            rotated = tt.kv_append(
                k, v, k_cache, v_cache, slot_mapping, q=q, positions=places, cos_sin=self.model.cos_sin, **weights
            )
            return tt.paged_attention(
                rotated, k_cache, v_cache, block_table, lengths, cu_seqlens_q=starts_q, max_seq_q=MAX_LENGTH, causal=True
            )

        logits = self.model(ids, attend)
        for request, token in zip(batch, logits[starts_q[1:] - 1].argmax(-1).tolist(), strict=True):
            request.tokens.append(token)

    def serve(self, requests: list[Request]) -> int:
        """Run all requests; new ones start as soon as the batch and the pool have room. Return the number of steps."""
        waiting, running, steps, reserved = list(requests), [], 0, 0
        while waiting or running:
            while waiting and len(running) < MAX_BATCH and reserved + -(-waiting[0].length // PAGE) <= PAGES:
                running.append(waiting.pop(0))
                reserved += -(-running[-1].length // PAGE)
            self.step(running)
            for request in [one for one in running if len(one.tokens) == one.length]:
                running.remove(request)
                self.free += request.pages
                reserved -= -(-request.length // PAGE)
            steps += 1
        return steps


# [serve]


@torch.no_grad()
def decode_without_cache(model: Model, prompt: list[int], length: int) -> list[int]:
    """Return the tokens that the model in float64 gives if it computes the whole sequence for each of them."""

    def rotated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = F.rms_norm(x, (DIM,), weight, 1e-6)
        cos, sin = (one[:, None] for one in model.cos_sin[: len(x)].chunk(2, -1))
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).transpose(0, 1)

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = rotated(q, model.q_weight[layer]), rotated(k, model.k_weight[layer])
        o = F.scaled_dot_product_attention(q[None], k[None], v.transpose(0, 1)[None], is_causal=True, enable_gqa=True)
        return o[0].transpose(0, 1)

    tokens = list(prompt)
    while len(tokens) < length:
        tokens.append(int(model(torch.tensor(tokens, device=DEVICE), attend)[-1].argmax()))
    return tokens


def main() -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)  # products are tiny
    model = Model().to(DEVICE)
    draw = torch.Generator().manual_seed(7)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    prompts = [[integer(0, VOCAB) for _ in range(integer(1, 13))] for _ in range(9)]
    requests = [Request(list(prompt), len(prompt) + integer(2, MAX_LENGTH - 12)) for prompt in prompts]
    steps = Server(model).serve(requests)
    exact = model.double()
    equal = sum(
        request.tokens == decode_without_cache(exact, prompt, request.length)
        for request, prompt in zip(requests, prompts, strict=True)
    )
    generated = sum(request.length for request in requests) - sum(map(len, prompts))
    print(f"{len(requests)} requests, {generated} tokens in {steps} steps")
    print(f"{equal} requests have the tokens of the model without a cache")


if __name__ == "__main__":
    main()
