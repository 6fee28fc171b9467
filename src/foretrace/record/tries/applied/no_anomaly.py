"""Turn autograd's anomaly mode off: it checks every gradient for NaN and keeps a stack per op."""

from __future__ import annotations

import torch

from foretrace.record.tries.session import Applied, Session, Switch


class _NoAnomaly(Switch):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._asked = False, True
        self._set = torch.set_anomaly_enabled
        torch.set_anomaly_enabled = self._enabled

    def why_not(self) -> str:
        return "" if self._asked[0] else "anomaly mode is off"

    def turn(self, on: bool) -> None:
        super().turn(on)
        self._enabled(*self._asked)

    def _enabled(self, mode: bool, check_nan: bool = True) -> None:
        self._asked = self._asked[0] or mode, check_nan
        self._set(mode and not self.on, check_nan)


APPLIED = Applied(
    "no_anomaly",
    "anomaly mode off",
    "remove torch.autograd.set_detect_anomaly(True)",
    _NoAnomaly,
    realises=("anomaly_mode",),
)
