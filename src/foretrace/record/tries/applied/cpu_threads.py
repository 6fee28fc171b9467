"""Use all cores that the process may use, where the script or its environment uses fewer."""

from __future__ import annotations

import torch

from foretrace.record.tries.applied._loaders import CORES
from foretrace.record.tries.session import Applied, Session, Switch

WRITE = f"torch.set_num_threads({CORES})"


class _CpuThreads(Switch):
    top = WRITE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._before = 0

    def why_not(self) -> str:
        used = torch.get_num_threads()
        return "" if used < CORES else f"all {CORES} cores are used already"

    def turn(self, on: bool) -> None:
        self._before = self._before or torch.get_num_threads()
        torch.set_num_threads(CORES if on else self._before)


APPLIED = Applied(
    "cpu_threads",
    "all cores",
    WRITE,
    _CpuThreads,
    devices=("cpu",),
)
