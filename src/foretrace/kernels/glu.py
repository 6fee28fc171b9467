# mypy: disable-error-code="misc,untyped-decorator"
"""`geglu(gate, up)` and its relatives: `act(gate) * up` in one kernel each way.

Under `torch.compile` the compiler gets the plain expression. Its own pointwise kernel is as fast
(40 us each for 8192 x 3072 in bf16 on an H200, torch 2.11), can fuse more, and needs no operator.

`Activation` has the gating activations in plain torch, by our names and those of Hugging Face
configurations. GeGLU uses GELU (the tanh or the erf form), SwiGLU SiLU, ReGLU ReLU.
`device/math.py` has the same four for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrace.kernels.support import HAVE_TRITON, note_once, traced, why_not

if HAVE_TRITON:
    from foretrace.kernels.device.apply import gated_backward, gated_forward


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


def gated(gate: Tensor, up: Tensor, activation: str = "gelu_tanh") -> Tensor:
    """`act(gate) * up`, computed in float32 and rounded once. Differentiable once.

    `gate` and `up` have one shape and dtype; they may be strided, such as the halves of a packed
    projection.
    """
    if traced(gate, up):
        return gated_reference(gate, up, activation)
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.get_device() != up.get_device():
        texts = (f"{tuple(each.shape)} {each.dtype} on {each.device}" for each in (gate, up))
        raise ValueError(f"gate and up differ: {' and '.join(texts)}")
    if activation not in ACTIVATIONS:
        activation = activation_named(activation)
    reason = why_not(gate.device, gate.dtype)
    if reason is not None:
        note_once(reason)
        return gated_reference(gate, up, activation)
    if torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad):
        return _Gated.apply(gate, up, activation)
    out = torch.empty_like(gate)
    gated_forward(gate, up, out, activation)
    return out


def geglu(gate: Tensor, up: Tensor, approximate: str = "tanh") -> Tensor:
    """`gelu(gate) * up`; `approximate` is `"tanh"` or `"none"`, as in torch's gelu."""
    if approximate not in ("tanh", "none"):
        raise ValueError(f"approximate is 'tanh' or 'none', not {approximate!r}")
    return gated(gate, up, "gelu_tanh" if approximate == "tanh" else "gelu_erf")


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up`."""
    return gated(gate, up, "silu")


def reglu(gate: Tensor, up: Tensor) -> Tensor:
    """`relu(gate) * up`."""
    return gated(gate, up, "relu")


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, activation: str) -> Tensor:
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        out = torch.empty_like(gate)
        gated_forward(gate, up, out, activation)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        gate, up = ctx.saved_tensors
        grad_gate, grad_up = torch.empty_like(gate), torch.empty_like(up)
        gated_backward(grad, gate, up, grad_gate, grad_up, ctx.activation)
        return grad_gate, grad_up, None
