"""Give the optimizer `fused=True`: one kernel for many parameters.

torch has it for Adam, AdamW, SGD and Adagrad. Gradients must be dense and floating point.
"""

from __future__ import annotations

from typing import Any

import torch

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Applied, Session, Switch


class _FusedOptimizer(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before: dict[int, tuple[Any, Any]] = {}

    def why_not(self) -> str:
        able = self._able()
        if not self.session.optimizers:
            return "no optimizer"
        if not able:
            return f"{type(self.session.optimizers[0]).__name__} has no fused form"
        if all(group["fused"] for each in able for group in each.param_groups):
            return "the optimizer is fused already"
        grads = [p.grad for each in able for group in each.param_groups for p in group["params"]]
        if any(grad is not None and grad.is_sparse for grad in grads):
            return "gradients are sparse"
        return ""

    def turn(self, on: bool) -> None:
        for optimizer in self._able():
            for group in optimizer.param_groups:
                before = self._before.setdefault(id(group), (group["fused"], group["foreach"]))
                group["fused"], group["foreach"] = (True, False) if on else before
                _move_counts(optimizer, group, bool(group["fused"] or group.get("capturable")))

    def edits(self) -> list[Edit]:
        return self.added("fused=True", self._able())

    def _able(self) -> list[Any]:
        return [
            each
            for each in self.session.optimizers
            if "fused" in each.defaults
            and not each.defaults.get("differentiable")
            and all(torch.is_floating_point(p) for g in each.param_groups for p in g["params"])
        ]


def _move_counts(optimizer: Any, group: Any, on_device: bool) -> None:
    """A fused step counts on the device; counting there makes the other kinds wait."""
    for parameter in group["params"]:
        count = optimizer.state.get(parameter, {}).get("step")
        if isinstance(count, torch.Tensor):
            where = parameter.device if on_device else "cpu"
            optimizer.state[parameter]["step"] = count.to(where)


APPLIED = Applied(
    "fused_optimizer",
    "fused optimizer",
    "AdamW(..., fused=True)",
    _FusedOptimizer,
    realises=("fused_optimizer",),
    group="optimizer",
)
