"""Compile the optimizer's step into few kernels.

It pays where the optimizer has no fused form. A learning rate that changes must be a tensor, or
each new value compiles again.
"""

from __future__ import annotations

from typing import Any

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class _CompileOptimizer(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: dict[int, tuple[Any, Any]] = {}

    def why_not(self) -> str:
        if not self.session.optimizers:
            return "no optimizer"
        if any("fused" in each.defaults for each in self.session.optimizers):
            return "the optimizer has a fused form"
        return ""

    def turn(self, on: bool) -> None:
        for each in self.session.optimizers:
            if id(each) not in self._steps:
                self._steps[id(each)] = each.step, torch.compile(each.step)
            each.step = self._steps[id(each)][on]


APPLIED = Applied(
    "compile_optimizer",
    "compiled optimizer step",
    "step = torch.compile(optimizer.step)",
    _CompileOptimizer,
    realises=("compile", "foreach_loop"),
    devices=("cuda",),
    compiles=True,
)
