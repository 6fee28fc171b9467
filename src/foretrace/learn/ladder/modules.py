# ruff: noqa: D102 (the docstring of a module covers its forward)
"""The modules that several rungs share, written plainly so that a trace can be read beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foretrace.base.errors import UsageError
from foretrace.schema.rung import Built, Setup

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class GeGLU(nn.Module):  # type: ignore[misc]
    """down(gelu(gate(x)) * up(x)), tanh form, no bias."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate(x), self.up(x)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class PackedGeGLU(nn.Module):  # type: ignore[misc]
    """The same with gate and up as halves of one matmul, and `fused(gate, up)` as the activation.

    Each half is a view with gaps between its rows, as models with packed weights hand it on.
    """

    def __init__(self, dim: int, hidden: int, fused: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.fused(gate, up))


class Attention(nn.Module):  # type: ignore[misc]
    """Causal self-attention: one projection for queries, keys and values; torch picks a backend."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_size(dim, heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        split = self.qkv(x).view(batch, seq, 3, self.heads, self.head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


class TransformerBlock(nn.Module):  # type: ignore[misc]
    """A pre-norm transformer block around any gated MLP."""

    def __init__(self, dim: int, heads: int, mlp: Any) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(dim), Attention(dim, heads)
        self.mlp_norm, self.mlp = nn.RMSNorm(dim), mlp

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):  # type: ignore[misc]
    """A small language model with its loss: embedding, blocks, norm, head."""

    def __init__(self, vocab: int, layers: int, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        blocks = (TransformerBlock(dim, heads, GeGLU(dim, hidden)) for _ in range(layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def place(setup: Setup) -> dict[str, Any]:
    """Device and dtype of a setup, as torch's constructors take them."""
    return {"device": setup.device, "dtype": TORCH_DTYPES[setup.dtype]}


def head_size(dim: int, heads: int) -> int:
    """The features of one head."""
    if dim % heads:
        raise UsageError(f"{heads} heads cannot share {dim} features: heads must divide dim")
    return dim // heads


def parameters_of(module: Any) -> int:
    """How many weights a module has."""
    return sum(weight.numel() for weight in module.parameters())


def forward_only(module: Any, *inputs: Tensor) -> Callable[[], object]:
    """A call of `module` without gradients, as one step."""

    def call() -> object:
        with torch.no_grad():
            return module(*inputs)

    return call


def sequence_step(setup: Setup, module: Any, name: str, facts: dict[str, Any]) -> Built:
    """A module over (batch, seq, dim): forward, or with `--backward` also the sum's backward."""
    module = module.to(**place(setup)).train(setup["backward"])
    x = torch.randn(setup["batch"], setup["seq"], setup["dim"], **place(setup))
    facts = {**facts, "parameters": parameters_of(module)}
    compiled = setup.compile(module)
    if not setup["backward"]:
        return Built(forward_only(compiled, x), region=f"{name}_fwd", facts=facts)
    x.requires_grad_(True)

    def call() -> object:
        loss = compiled(x).sum()
        loss.backward()  # gradients accumulate, as in an accumulation loop
        return loss

    return Built(call, region=f"{name}_train", facts=facts)
