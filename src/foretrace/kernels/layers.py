# mypy: disable-error-code="misc"
"""Stateless layers for the Hugging Face `kernels` package: each has only a `forward`.

`kernelize` puts that `forward` in place of a module's own, so `self` is that module: Gemma's MLP,
Llama's, or any with `gate_proj`, `up_proj` and `down_proj` without biases.
"""

from typing import Any

from torch import Tensor, nn

from foretrace.kernels.mlp import gated_mlp


def _layer(name: str, activation: str, about: str) -> type[nn.Module]:
    def forward(self: Any, x: Tensor) -> Tensor:
        gate, up, down = self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight
        return gated_mlp(x, gate, up, down, activation)

    can = {"can_torch_compile": True, "has_backward": True}
    return type(name, (nn.Module,), {**can, "forward": forward, "__doc__": about})


GeGLUMLP = _layer("GeGLUMLP", "gelu_tanh", "`down(gelu_tanh(gate(x)) * up(x))`: Gemma's MLP.")
SwiGLUMLP = _layer("SwiGLUMLP", "silu", "`down(silu(gate(x)) * up(x))`: Llama's MLP.")
ReGLUMLP = _layer("ReGLUMLP", "relu", "`down(relu(gate(x)) * up(x))`.")
