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


_OPS = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "allgather": "all-gather",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
}


def _name(work: GpuWork) -> str:
    """By the kernel's name; an all-to-all is made of sends. Where the op says another: neither."""
    if work.role != "comms":
        return ""
    by_kernel = _NAMES.get(str(work.id.get("coll")), "")
    by_op = {name for op in work.ops for word, name in _OPS.items() if word in op}
    if by_kernel in ("", _NAMES["SendRecv"]) and by_op == {"all-to-all"}:
        return "all-to-all"
    agreed = not by_op or not by_kernel or by_op == {by_kernel}
    return (by_kernel or "collectives") if agreed else "collectives"


GROUP = WorkGroup("collectives", 10, _name, with_backward=False)
