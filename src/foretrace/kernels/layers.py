# mypy: disable-error-code="misc"
"""Stateless layers for the Hugging Face `kernels` package: each has only a `forward`.

`kernelize` puts that `forward` in place of a module's own, so `self` is that module: Gemma's MLP,
Llama's, or any with `gate_proj`, `up_proj` and `down_proj` without biases.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from foretrace.kernels.mlp import gated_mlp


def _forward(activation: str) -> Callable[[Any, Tensor], Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        gate, up, down = self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight
        return gated_mlp(x, gate, up, down, activation)

    return forward


class GeGLUMLP(nn.Module):
    """`down(gelu_tanh(gate(x)) * up(x))`: Gemma's MLP, and the article's `SimpleGeGLUMLP`."""

    can_torch_compile: bool = True
    has_backward: bool = True
    forward = _forward("gelu_tanh")


class SwiGLUMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`: Llama's MLP."""

    can_torch_compile: bool = True
    has_backward: bool = True
    forward = _forward("silu")


class ReGLUMLP(nn.Module):
    """`down(relu(gate(x)) * up(x))`."""

    can_torch_compile: bool = True
    has_backward: bool = True
    forward = _forward("relu")
