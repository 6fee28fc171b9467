"""Run the forward pass without autograd, where nothing is ever differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.applied._forward import ForwardSwitch
from foretrace.record.tries.session import Applied


class _NoGrad(ForwardSwitch):
    def why_not(self) -> str:
        if self.session.backwards or self.session.optimizers:
            return "the script trains"
        if not any(each.requires_grad for each in self.session.parameters):
            return "no parameter needs a gradient"
        return "" if self.session.counts["tracked"] else "autograd is off already"

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        without: Callable[..., Any] = torch.no_grad()(forward)
        return without


APPLIED = Applied(
    "no_grad",
    "inference without autograd",
    "with torch.inference_mode(): out = model(x)",
    _NoGrad,
)
