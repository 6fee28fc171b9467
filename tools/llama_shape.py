"""A small model of Llama's shape, one op at a time, for `record_faults.py`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """As Llama's: in float32, one op at a time."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


class Block(nn.Module):
    """Attention with fewer key heads, and a gated MLP."""

    def __init__(self, size: int, heads: int, key_heads: int, hidden: int) -> None:
        super().__init__()
        self.head = size // heads
        narrow = key_heads * self.head
        widths = (size, narrow, narrow)
        self.query, self.key, self.value = (nn.Linear(size, width, False) for width in widths)
        self.out, self.down = nn.Linear(size, size, False), nn.Linear(hidden, size, False)
        self.gate, self.up = nn.Linear(size, hidden, False), nn.Linear(size, hidden, False)
        self.first, self.second = RMSNorm(size), RMSNorm(size)

    def forward(self, x, cos, sin, past=None):
        batch, tokens, _ = x.shape
        y = self.first(x)
        q, k, v = (
            layer(y).view(batch, tokens, -1, self.head).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, -1))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Llama(nn.Module):
    """A small model of Llama's shape; returns the next token."""

    def __init__(self, layers: int, size: int, heads: int, keys: int, hidden: int, words: int):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, size), RMSNorm(size)
        self.blocks = nn.ModuleList(Block(size, heads, keys, hidden) for _ in range(layers))
        self.head = nn.Linear(size, words, False)

    def forward(self, ids, cos, sin, past=None):
        x = self.embedding(ids)
        for number, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if past is None else past[number])
        return self.head(self.norm(x[:, -1:])).argmax(-1)
