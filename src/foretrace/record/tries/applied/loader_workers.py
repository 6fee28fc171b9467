"""Load batches in worker processes, ahead of the step that uses them.

A loader that has workers gets as many as there are cores for, which stay from epoch to epoch, and
`prefetch_factor=4`: each loads four batches ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.record.tries.applied._loaders import CORES, LoaderSwitch
from foretrace.record.tries.session import Applied

WORKERS = max(min(CORES - 1, 8), 1)
AHEAD = 4  # batches for each worker; torch's default is 2


class _LoaderWorkers(LoaderSwitch):
    def why_not(self) -> str:
        if not self.made:
            return "no DataLoader"
        if all(_is_ahead(loader) for loader, _ in self.made):
            return "the loader has workers already"
        return ""

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        workers = given.get("num_workers") or 0
        found = {"num_workers": max(workers, WORKERS), "persistent_workers": True}
        ahead = max(given.get("prefetch_factor") or 0, AHEAD)
        return found | {"prefetch_factor": ahead} if workers else found


def _is_ahead(loader: Any) -> bool:
    """Whether the loader has as many workers, and loads as far ahead, as this would give it."""
    lasting = loader.num_workers >= WORKERS and loader.persistent_workers
    return bool(lasting) and loader.prefetch_factor >= AHEAD


APPLIED = Applied(
    "loader_workers",
    "DataLoader workers",
    f"DataLoader(..., num_workers={WORKERS}, persistent_workers=True)",
    _LoaderWorkers,
    realises=("data_loader",),
    fresh=True,
)
