"""Load batches in worker processes, ahead of the step that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.record.tries.applied._loaders import CORES, LoaderSwitch
from foretrace.record.tries.session import Applied

WORKERS = max(min(CORES - 1, 8), 1)


class _LoaderWorkers(LoaderSwitch):
    def why_not(self) -> str:
        if not self.made:
            return "no DataLoader"
        if all(loader.num_workers for loader, _ in self.made):
            return "the loader has workers already"
        return ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if given.get("num_workers"):
            return {}
        return {"num_workers": WORKERS, "persistent_workers": True}


APPLIED = Applied(
    "loader_workers",
    "DataLoader workers",
    f"DataLoader(..., num_workers={WORKERS}, persistent_workers=True)",
    _LoaderWorkers,
    realises=("data_loader",),
    fresh=True,
)
