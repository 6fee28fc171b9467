"""What the fixes share that give modules of a known kind another forward pass.

A module is known by its attributes. What its class computes is not read: both forward passes run
once on random numbers, and only a module whose outputs agree is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from foretrace.record.tries.session import Session, Switch

Forward = Callable[[Any], Any]
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
ROWS = 64  # of the input that both forward passes get
# how far outputs may differ, as a share: those of bf16 have 8 bits
SAME = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}
# gates of this size tell one activation from another: near zero all of them are lines
SPREAD = 2.0


class ModuleSwitch(Switch):
    """Gives each module that matches another forward pass, and its own back."""

    none = "no module matches"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._reason = self.none
        self._found: list[tuple[Any, Forward]] | None = None
        self._before: list[Any] = []

    def others(self, module: Any) -> Sequence[Forward] | str:
        """Forward passes, one of which may compute what the module's does; or why there is none.

        Empty for a module of another kind.
        """
        raise NotImplementedError

    def why_not(self) -> str:
        """Why no module matches."""
        return "" if self.matching() else self._reason

    def turn(self, on: bool) -> None:
        """Replace the forward passes, or put back what was there."""
        if self.session.outermost is None or on == self.on:
            return
        super().turn(on)
        if on:
            self._before = [vars(module).get("forward") for module, _ in self.matching()]
        for (module, forward), before in zip(self.matching(), self._before, strict=True):
            if on or before is not None:
                module.forward = forward if on else before
            else:
                del module.forward

    def matching(self) -> list[tuple[Any, Forward]]:
        """The modules that match, each with its other forward pass."""
        if self._found is None:
            fits = [(each, self._fitting(each)) for each in self.session.modules(torch.nn.Module)]
            self._found = [(each, fit) for each, fit in fits if fit is not None]
        return self._found

    def _fitting(self, module: Any) -> Forward | None:
        """The forward pass that computes what the module's does."""
        others = self.others(module)
        if isinstance(others, str):
            self._reason = others
        if isinstance(others, str) or not others:
            return None
        try:
            apart = [_difference(module, each) for each in others]
        except Exception as problem:  # noqa: BLE001 - a module that takes more than one tensor
            self._reason = f"{type(module).__name__}: {type(problem).__name__} on random numbers"
            return None
        if min(apart) <= SAME[module_dtype(module)]:
            return others[apart.index(min(apart))]
        self._reason = f"{type(module).__name__} computes something else: {min(apart):.1e} apart"
        return None


def projections(module: Any) -> list[Any]:
    """The three linear layers of a gated MLP; empty where the module is none."""
    parts = [getattr(module, name, None) for name in PROJECTIONS]
    return parts if all(isinstance(each, torch.nn.Linear) for each in parts) else []


def module_dtype(module: Any) -> torch.dtype:
    """The type of its first parameter."""
    dtype: torch.dtype = next(module.parameters()).dtype
    return dtype


def _difference(module: Any, other: Forward) -> float:
    """How far the outputs of both forward passes differ, as a share."""
    with torch.no_grad():
        x = _sample(module)
        # a module that draws random numbers must leave those of the script alone
        with torch.random.fork_rng([x.device] if x.is_cuda else []):
            first, second = module.forward(x).float(), other(x).float()
        return float((first - second).norm() / first.norm())


def _sample(module: Any) -> Any:
    """Random numbers as the module's input, the same each time."""
    weight = next(module.parameters())
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(1, ROWS, weight.shape[-1], generator=numbers).to(weight.device, weight.dtype)
    parts = projections(module)
    return x if not parts else x * (SPREAD / parts[0](x).float().std().clamp(1e-6)).to(x.dtype)
