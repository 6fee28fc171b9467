"""Memcpys between the host and the GPU, and between GPUs, by direction."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, words

_LEAVING = words("HtoD DtoH PtoP HtoH")


def _name(work: GpuWork) -> str:
    kind = work.id.get("kind") if work.id.get("op") == "memcpy" else None
    return f"copy {kind}" if kind in _LEAVING else ""


GROUP = WorkGroup("copies to and from the host", 12, _name, with_backward=False)
