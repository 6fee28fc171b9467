# mypy: disable-error-code="misc,untyped-decorator"
"""`GeGLUMLP`: the gated MLP as a drop-in `nn.Module`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from foretrace.kernels.glu import ACTIVATIONS, activation_named, gated_reference
from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.support import note_once

_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


class GeGLUMLP(nn.Module):
    """`down(act(gate(x)) * up(x))` with parameters `gate_proj`, `up_proj` and `down_proj`.

    A state dict of `SimpleGeGLUMLP`, of Gemma's or of Llama's MLP loads unchanged. Gate and up are
    stacked in memory, so that one matmul computes both; if something moves them apart, two do.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: str = "gelu_tanh",
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.activation = activation_named(activation)
        self.gate_proj = nn.Linear(dim, hidden, bias=False, device=device, dtype=dtype)
        self.up_proj = nn.Linear(dim, hidden, bias=False, device=device, dtype=dtype)
        self.down_proj = nn.Linear(hidden, dim, bias=False, device=device, dtype=dtype)
        self.biased = False
        stack(self.gate_proj, self.up_proj)

    @classmethod
    def from_module(cls, module: nn.Module, activation: str | None = None) -> GeGLUMLP:
        """The same MLP with another module's projections: Gemma's, Llama's, `SimpleGeGLUMLP`.

        The activation is the module's `act_fn`, recognised by its values; without one it is GELU's
        tanh form.
        """
        new = cls.__new__(cls)
        nn.Module.__init__(new)
        act_fn = getattr(module, "act_fn", None)
        if activation is not None:
            new.activation = activation_named(activation)
        else:
            new.activation = "gelu_tanh" if act_fn is None else recognised(act_fn)
        for name in _PROJECTIONS:
            projection = getattr(module, name, None)
            if not isinstance(projection, nn.Linear):
                raise ValueError(f"{type(module).__name__}.{name} is not an nn.Linear")
            setattr(new, name, projection)
        new.biased = any(getattr(new, name).bias is not None for name in _PROJECTIONS)
        new.train(module.training)
        stack(new.gate_proj, new.up_proj)
        return new

    def forward(self, x: Tensor) -> Tensor:
        """The gated MLP of `x`."""
        gate, up, down = self.gate_proj, self.up_proj, self.down_proj
        if self.biased:
            note_once("the projections have biases")
            return down(gated_reference(gate(x), up(x), self.activation))
        return gated_mlp(x, gate.weight, up.weight, down.weight, self.activation)

    def extra_repr(self) -> str:
        """The activation."""
        return f"activation={self.activation}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        stack(self.gate_proj, self.up_proj)
        return self


@torch.inference_mode(False)
@torch.no_grad()
def stack(gate: nn.Linear, up: nn.Linear) -> None:
    """Put gate's weight and up's one below the other in one storage; no value changes.

    A weight that is a part of somebody's larger storage, or that processes share, stays there.
    """
    first, second = gate.weight, up.weight
    if not (_movable(first) and _movable(second)):
        return
    same = first.shape == second.shape and first.dtype == second.dtype
    if same and first.device == second.device and first.data_ptr() != second.data_ptr():
        both = torch.cat((first, second))
        first.data, second.data = both[: first.shape[0]], both[first.shape[0] :]


def _movable(weight: Tensor) -> bool:
    if type(weight) is not nn.Parameter or weight.is_meta or weight.is_inference():
        return False
    whole = weight.untyped_storage().nbytes() == weight.nbytes
    return whole and (weight.is_cuda or not weight.is_shared())  # of CUDA's, all can be shared


def recognised(act_fn: Callable[[Tensor], Tensor]) -> str:
    """The name of the activation that computes what `act_fn` computes."""
    points = torch.linspace(-4.0, 4.0, 65, dtype=torch.float64)
    for name, row in ACTIVATIONS.items():
        if torch.allclose(act_fn(points), row.torch(points), rtol=0.0, atol=1e-7):
            return name
    raise ValueError(
        f"unknown activation {act_fn!r}: pass activation= one of {', '.join(ACTIVATIONS)}"
    )
