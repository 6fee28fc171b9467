# mypy: disable-error-code="misc"
"""Stateless layers for the Hugging Face `kernels` package: each has only a `forward`, for a module
that owns the projections.

`kernelize` puts such a `forward` in place of the module's own, so `self` is that module: Gemma's
MLP, Llama's, or any with `gate_proj`, `up_proj` and `down_proj` without biases.
"""

from torch import Tensor, nn

from foretrace.kernels.mlp import gated_mlp


class GeGLUMLP(nn.Module):
    """`down(gelu_tanh(gate(x)) * up(x))`: Gemma's MLP, and the article's `SimpleGeGLUMLP`."""

    can_torch_compile: bool = True
    has_backward: bool = True

    def forward(self, x: Tensor) -> Tensor:
        return gated_mlp(
            x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight, "gelu_tanh"
        )


class SwiGLUMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`: Llama's MLP."""

    can_torch_compile: bool = True
    has_backward: bool = True

    def forward(self, x: Tensor) -> Tensor:
        return gated_mlp(
            x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight, "silu"
        )


class ReGLUMLP(nn.Module):
    """`down(relu(gate(x)) * up(x))`."""

    can_torch_compile: bool = True
    has_backward: bool = True

    def forward(self, x: Tensor) -> Tensor:
        return gated_mlp(
            x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight, "relu"
        )
