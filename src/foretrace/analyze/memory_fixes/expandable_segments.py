"""Let segments grow instead of taking new ones.

What it shows: what is reserved when the allocator maps pages behind a segment that grows, so that
free parts of other sizes do not lie idle.

How it is computed: the peak of what is live, rounded up to pages of 2 MiB for each of the two sizes
of pools, is what such an allocator needs at least. What was reserved before the history began
stays: an earlier peak may have needed it.

When it is wrong: the setting must be in the environment before the first allocation. Memory that is
shared between processes does not support it. Nothing is proposed where a CUDA graph has a pool.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, MemoryProposal, PeakPlan, memory_fix
from foretrace.base.units import bytes_text, percent_text

PAGE = 2 << 20
LEAST = 0.1  # of what is reserved: a smaller part is usual


@memory_fix("Expandable segments")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    expands = view.snapshot.settings.get("expandable_segments")
    # the pool of a CUDA graph holds what its replays need, and serves nothing else
    pooled = any(segment.graph for segment in view.snapshot.segments)
    if expands or pooled or not len(view.history):
        return
    held = int(view.reserved.max())
    needed = max(-(-view.peak_bytes // PAGE) * PAGE + PAGE, view.reserved_before)
    if held - needed < LEAST * held:
        return
    idle = percent_text((held - view.peak_bytes) / held)
    yield MemoryProposal(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        f"{bytes_text(held)} are reserved for a peak of {bytes_text(view.peak_bytes)}: "
        f"{idle} lies idle",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
        plan.new,
        np.zeros(0, np.int64),
        reserved=needed,
    )
