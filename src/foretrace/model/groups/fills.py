"""Memory set to one value."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, plain, words

_OPS = words("fill zero")


def _test(work: GpuWork) -> object:
    stated = plain(str(work.id.get("op") or "").split(" ")[0])
    return stated in ("memset", *_OPS) or (work.path and plain(work.path[-1]) in _OPS)


GROUP = WorkGroup("fills", 81, named("fills", _test), weak=True, with_backward=False)
