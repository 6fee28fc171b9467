"""The gating activations in plain torch, by our names and those of Hugging Face configurations.

A gated unit computes `act(gate) * up`. GeGLU uses GELU (the tanh or the erf form), SwiGLU uses
SiLU, ReGLU uses ReLU. `device/math.py` has the same four for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation: its plain torch form, its backward, and its names in configurations."""

    name: str
    torch: Callable[[Tensor], Tensor]
    back: Callable[[Tensor, Tensor], Tensor]
    aliases: tuple[str, ...]


_aten = torch.ops.aten
_ROWS = (
    Activation(
        "gelu_tanh",
        lambda a: F.gelu(a, approximate="tanh"),
        lambda grad, a: _aten.gelu_backward(grad, a, approximate="tanh"),
        ("gelu_pytorch_tanh", "gelu_new", "gelu_fast"),
    ),
    Activation("gelu_erf", F.gelu, _aten.gelu_backward, ("gelu", "gelu_python")),
    Activation("silu", F.silu, _aten.silu_backward, ("swish",)),
    Activation("relu", F.relu, lambda grad, a: _aten.threshold_backward(grad, a, 0), ()),
)

ACTIVATIONS: Mapping[str, Activation] = MappingProxyType({row.name: row for row in _ROWS})

_BY_ALIAS = {alias: row.name for row in _ROWS for alias in (row.name, *row.aliases)}


def activation_named(name: str) -> str:
    """Our name of an activation of a configuration: `gelu_pytorch_tanh` -> `gelu_tanh`."""
    if name not in _BY_ALIAS:
        raise ValueError(f"unknown activation {name!r}; known: {', '.join(sorted(_BY_ALIAS))}")
    return _BY_ALIAS[name]


def gated_reference(gate: Tensor, up: Tensor, activation: str = "gelu_tanh") -> Tensor:
    """`act(gate) * up` in plain torch, the reference: any device, any dtype, differentiable."""
    return ACTIVATIONS[activation].torch(gate) * up
