"""Drop gradients in `zero_grad` in the place of writing zeros into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class _SetToNone(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._asked = False
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._dropping(owner.zero_grad)

    def why_not(self) -> str:
        return "" if self._asked else "gradients are dropped already"

    def _dropping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(owner: Any, set_to_none: bool = True) -> Any:
            self._asked |= not set_to_none
            return original(owner, set_to_none or self.on)

        return zero_grad


APPLIED = Applied("set_to_none", "zero_grad drops gradients", "optimizer.zero_grad()", _SetToNone)
