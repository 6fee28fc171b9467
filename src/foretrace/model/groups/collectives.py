"""Communication between GPUs, by collective where the kernel's name states it."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup

_NAMES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "AllToAll": "all-to-all",
    "Broadcast": "broadcast",
    "SendRecv": "send, receive",
}


def _name(work: GpuWork) -> str:
    stated = str(work.id.get("coll"))
    return _NAMES.get(stated, "collectives") if work.role == "comms" else ""


GROUP = WorkGroup("collectives", 10, _name, with_backward=False)
