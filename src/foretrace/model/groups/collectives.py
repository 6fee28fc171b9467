"""Communication between GPUs, by collective."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup


def _name(work: GpuWork) -> str:
    if work.role != "comms":
        return ""
    stated = work.id.get("collective")
    return str(stated) if stated else "collectives"


GROUP = WorkGroup("collectives", 10, _name, with_backward=False)
