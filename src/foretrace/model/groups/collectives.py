"""Communication between GPUs, by the collective that the program called."""

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
    """By the op: NCCL runs several collectives in a kernel that has the name of one (an all-to-all,
    and in old versions an all-reduce, in SendRecv). Else by the kernel's name.
    """
    if work.role != "comms":
        return ""
    by_op = {name for op in work.ops for word, name in _OPS.items() if word in op}
    by_kernel = _NAMES.get(str(work.id.get("coll")), "collectives")
    return by_op.pop() if len(by_op) == 1 else by_kernel


GROUP = WorkGroup("collectives", 10, _name, with_backward=False)
