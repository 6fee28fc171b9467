"""Allocate GPU memory once, not in each step.

What it looks for: steps that call `cudaMalloc` and `cudaFree`: PyTorch keeps the memory that it was
given, so a steady step has neither. Either the program gives it back (`torch.cuda.empty_cache()`),
or the memory is full or in pieces, and PyTorch frees before it allocates.

What must hold: most steps have such calls. `cudaFree` outside of an op comes from `empty_cache`;
inside of one it comes from the allocator.

What changes: these calls go, and the wait of `cudaFree` for all work of the GPU.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown

MALLOC = frozenset({"cudaMalloc", "hipMalloc", "cuMemCreate", "cuMemMap"})
FREE = frozenset({"cudaFree", "hipFree", "cuMemUnmap", "cuMemRelease"})
# Calls around `cudaFree` that wait for the GPU: `empty_cache` makes them outside of ops.
SYNC = frozenset({"cudaDeviceSynchronize", "hipDeviceSynchronize"})
NEAR_NS = 50_000


@fix("Allocate GPU memory once", "gpu")
def _find(step: Step) -> Proposals:
    host, names = step.trace.host, (FREE, MALLOC, SYNC)
    freeing, allocating, waits = (np.flatnonzero(step.named(each)) for each in names)
    # most steps free memory: the first ones of a program do so too
    freed = host.start[np.flatnonzero(host.named(FREE.__contains__) & host.is_call)]
    edges = [(each.start_ns, each.end_ns) for each in step.trace.spans.steps]
    usual = [bool(((freed >= begin) & (freed < end)).any()) for begin, end in edges]
    if not len(freeing) or not len(allocating) or 2 * sum(usual) <= len(usual):
        return
    by_user = int((step.makers(freeing) < 0).sum())
    # waits right before a `cudaFree` on its thread belong to it
    after = host.start[freeing][None, :] - host.end[waits][:, None]
    waits = waits[((after >= 0) & (after < NEAR_NS)).any(axis=1)]
    calls = np.concatenate((freeing, allocating, waits))
    order = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    if 2 * by_user >= len(freeing):
        order = "remove torch.cuda.empty_cache() from the step"
    why = f"{plural(len(allocating), 'cudaMalloc')} and {plural(len(freeing), 'cudaFree')} per step"
    change, worst = step.without(calls), step.without(freeing)
    yield Proposal(order, why, change, worst=worst, events=shown(calls))
