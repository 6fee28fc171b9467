"""Gradients added up: into a parameter's `.grad`, or where a tensor was used more than once.

The engine itself adds the gradients of a tensor's uses, outside of any node. `AccumulateGrad` adds
to the gradient that a parameter has from before.
"""

from __future__ import annotations

from foretrace.model.autograd import ENGINE
from foretrace.model.groups._group import GpuWork, WorkGroup


def _name(work: GpuWork) -> str:
    if any(name.endswith("AccumulateGrad") for name in work.path):
        return "gradient accumulation"
    sums = len(work.path) > 1 and work.path[-2].startswith(ENGINE)
    return "gradient sums" if sums and work.path[-1] in ("aten::add", "aten::add_") else ""


GROUP = WorkGroup("gradient sums", 22, _name, with_backward=False)
