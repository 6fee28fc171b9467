"""Read numbers of the GPU every N steps only.

What it looks for: `.item()`, `float(tensor)`, `if tensor:`, `print(tensor)` and `.tolist()` of
values on the GPU: a copy of a few bytes to the host, and a wait for all work before it.

What must hold: the call waited. Reads that another op makes, those of a GradScaler (after its check
for infinity) and those of autograd's anomaly mode have causes of their own and do not count.

What changes: the reads go with their waits. In one of N steps they remain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._host import copies, waited
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural
from foretrace.model.intervals import Ints
from foretrace.schema import compiled

READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
COPIES = ("aten::to", "aten::_to_copy", "aten::copy_")
SMALL = 4096  # bytes of a copy that a program reads as numbers
SCALER = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
INSIDE = ("aten::", "autograd::engine::evaluate_function")


def _find(step: Step) -> Iterator[Proposal]:
    reads = _reads(step)
    if not len(reads):
        return
    order = "keep it on the GPU (.detach()), read it every N steps"
    if step.trace.host.named(compiled.is_row)[step.inside].any():
        order = "take print and .item() out of the compiled code"
    yield Proposal(
        order,
        f"{plural(len(reads), 'wait')} per step for {_names(step, reads)}",
        step.without(reads),
        events=tuple(reads[:50].tolist()),
    )


def _names(step: Step, reads: Ints) -> str:
    item = any(step.name(event) in READS for event in reads.tolist())
    copy = any(step.name(event) in COPIES for event in reads.tolist())
    return " and ".join(
        [".item()"] * item + ["small copies to the host (.cpu(), .tolist())"] * copy
    )


def _reads(step: Step) -> Ints:
    """Ops that read numbers and waited, without those that have another cause."""
    host, found = step.trace.host, step.ops(*READS, *COPIES)
    found = waited(step, found)
    inner = host.named(lambda name: name.startswith(INSIDE))
    own = host.nearest(host.parent[found].astype(np.int64), inner) < 0
    kept = [event for event in found[own].tolist() if _reading(step, event)]
    return np.array(_without_scaler(step, kept), np.int64)


def _reading(step: Step, event: int) -> bool:
    """Whether an op copies a few bytes to the host."""
    rows = copies(step, [event], "DtoH")
    return len(rows) > 0 and int(step.trace.gpu.bytes[rows].max()) <= SMALL


def _without_scaler(step: Step, events: list[int]) -> list[int]:
    """These reads without the first one after each check of a GradScaler."""
    host = step.trace.host
    checks = np.sort(host.start[step.ops(*SCALER)])
    if not len(checks):
        return events
    first = next((event for event in events if host.start[event] > checks[-1]), -1)
    return [event for event in events if event != first]


FIX = Fix("scalar_reads", "Read numbers of the GPU every N steps only", _find, ("gpu",))
