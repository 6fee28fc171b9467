"""What a step consists of: GPU work by role and idle time by cause, or the ops of a CPU.

The verdict says how much of a step is GPU work; this says of what kind, and why the GPU is idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foretrace.model.idle import spent_in
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.documents.look import Composition, CpuOpRow, Look, TimePart
from foretrace.show.overview.groups import usual_work
from foretrace.show.overview.measured_step import MeasuredStep
from foretrace.show.overview.on_cpu import WHOLE, cpu_groups

RECORDING = "in the recording"


def of_first_screen(trace: Trace, step: MeasuredStep | None, look: Look) -> Composition | None:
    """What the first screen is about; None where neither a GPU nor a CPU has a time."""
    per = "per step" if look.steps else "per call"
    return of_cpu(look.cpu, per) if step is None else of_step(trace, step)


def of_step(trace: Trace, step: MeasuredStep) -> Composition:
    """The step of the first screen."""
    idle = max(step.wall_ns - step.busy_ns, 0.0)
    parts = [*_busy(trace, step.spans, step.busy_ns), *_idle(step.idle_by_cause, idle)]
    recorded = None if step.recorded_ns is None else float(step.recorded_ns)
    return Composition(step.per, float(step.wall_ns), parts, recorded)


def of_recording(trace: Trace) -> Composition | None:
    """The whole recording, as it was recorded; None where no GPU event has a time."""
    if not trace.gpu.usable.any():
        return None
    spent = spent_in(trace.idle)
    idle = float(sum(spent.idle_by_cause.values()))
    parts = [*_busy(trace, (), float(spent.busy_ns)), *_idle(spent.idle_by_cause, idle)]
    return Composition(RECORDING, spent.busy_ns + idle, parts)


def of_cpu(tree: Sequence[CpuOpRow], per: str) -> Composition | None:
    """The call of a CPU that the first screen shows; None where no CPU computed."""
    if not tree:
        return None
    per = RECORDING if tree[0].name == WHOLE else per
    rows = cpu_groups(tree)
    parts = [TimePart("cpu", row.name, float(row.time_ns)) for row in rows if row.time_ns]
    return Composition(per, sum(part.ns for part in parts), parts)


def _busy(trace: Trace, spans: Sequence[Span], busy_ns: float) -> list[TimePart]:
    """GPU time by role, the most first; work that runs at once shares its time."""
    time = usual_work(trace, spans).time
    rows = np.flatnonzero(time)  # of one step: the names of all steps take ten times as long
    roles, place = np.unique(trace.work_roles[rows], return_inverse=True)
    spent = np.bincount(place.reshape(-1), time[rows], len(roles))
    shares = dict(zip(roles.tolist(), spent.tolist(), strict=True))
    return _scaled("busy", shares, busy_ns)


def _idle(by_cause: Mapping[str, int], idle_ns: float) -> list[TimePart]:
    causes = by_cause if any(by_cause.values()) else {"unknown": 1}
    return _scaled("idle", causes, idle_ns)


def _scaled(kind: str, shares: Mapping[str, float], ns: float) -> list[TimePart]:
    """Parts in these proportions that add up to a time, the most first."""
    total = sum(shares.values()) or 1.0
    parts = [TimePart(kind, name, ns * part / total) for name, part in shares.items()]
    found = [part for part in parts if part.ns > 0]
    return sorted(found, key=lambda part: (-part.ns, part.name))
