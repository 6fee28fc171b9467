"""Copies within the GPU: another layout, a joined tensor, a memcpy."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, words

_ORIGINS = words("clone cat stack constant_pad_nd permute expand transpose unsqueeze view")


def _test(work: GpuWork) -> object:
    only = work.origins and work.origins <= _ORIGINS and work.role == "pointwise"
    return work.role == "copy" or only


GROUP = WorkGroup("copies", 82, named("copies", _test), weak=True, with_backward=False)
