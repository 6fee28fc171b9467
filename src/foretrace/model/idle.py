"""When no work ran on the GPU, and what the host was doing meanwhile.

Looked at is the time of the steps, each from its start to its end or the end of its last GPU work,
whichever is later; without steps, the time from the first to the last GPU work. Every gap goes to
one cause, the first that fits:

    sync      the host was waiting for the GPU when it ran dry, or for most of the time until the
              next launch: nothing could be launched until the wait was over
    unknown   the launch of the next work is not in the trace
    device    the next work was already launched when the gap began: the device was between two
              GPU operations, or waited for another stream
    profiler  for most of the time until the next launch the profiler was at work on itself (buffer
              requests, lazy loading)
    copy      for most of that time the host was inside a copy or a fill
    launch    for most of that time the host was inside ops and launch calls: it could not issue
              work fast enough
    host      the host was in no op at all: Python between ops, data loading, logging

With several devices each has gaps of its own; times are summed over devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from foretrace.model import calls
from foretrace.model.covered import Covered
from foretrace.model.intervals import Bools, Ints

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

CAUSES = ("sync", "device", "profiler", "copy", "launch", "host", "unknown")
_FAR = np.iinfo(np.int64).max // 4


class Idle(Struct, frozen=True):
    """One row per gap; `cause` is a place in CAUSES, `then` the row of `gpu` that ended it, or -1.

    `window_ns` is the whole time that was looked at.
    """

    start: Ints
    end: Ints
    cause: Ints
    then: Ints
    window_ns: int

    @property
    def length(self) -> Ints:
        """How long each gap lasts."""
        return self.end - self.start

    def by_cause(self) -> dict[str, int]:
        """Idle time by cause, the causes that occur."""
        total = np.bincount(self.cause, weights=self.length, minlength=len(CAUSES)).astype(np.int64)
        return {cause: int(total[at]) for at, cause in enumerate(CAUSES) if total[at]}

    def of(self, *causes: str) -> Bools:
        """Which gaps have one of these causes."""
        return np.isin(self.cause, [CAUSES.index(cause) for cause in causes])


def busy_by_device(trace: Trace) -> tuple[Covered, ...]:
    """Covered time of every device, in the order of `Gpu.device_number`."""
    gpu = trace.gpu
    usable = np.flatnonzero(gpu.usable)
    number = gpu.device_number[usable]
    rows = [
        usable[number == device] for device in range(int(number.max()) + 1 if len(number) else 0)
    ]
    return tuple(Covered(gpu.start[mine], gpu.end[mine]) for mine in rows)


def find(trace: Trace) -> Idle:
    """All gaps of a trace."""
    parts = [
        _device(trace, number, busy) for number, busy in enumerate(trace.busy) if len(busy.start)
    ]
    if not parts:
        empty = np.empty(0, np.int64)
        return Idle(empty, empty, empty, empty, 0)
    start, end, then = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return Idle(start, end, _causes(trace, start, end, then), then, sum(part[3] for part in parts))


def _device(trace: Trace, number: int, busy: Covered) -> tuple[Ints, Ints, Ints, int]:
    """The gaps of one device inside the windows, and what ended each of them."""
    gpu = trace.gpu
    windows = _windows(trace, number, busy)
    outside = Covered(
        np.concatenate(([-_FAR], windows.end)), np.concatenate((windows.start, [_FAR]))
    )
    taken = Covered(
        np.concatenate((busy.start, outside.start)), np.concatenate((busy.end, outside.end))
    )
    start, end = taken.end[:-1], taken.start[1:]
    rows = np.flatnonzero(gpu.usable & (gpu.device_number == number))
    place = np.searchsorted(gpu.start[rows], end)  # gpu rows are in time order
    found = np.minimum(place, len(rows) - 1)
    then = np.where(gpu.start[rows[found]] == end, rows[found], -1)
    return start, end, then, int((windows.end - windows.start).sum())


def _windows(trace: Trace, number: int, busy: Covered) -> Covered:
    gpu = trace.gpu
    limits = []
    for span in trace.spans.steps:
        mine = span.work[gpu.usable[span.work] & (gpu.device_number[span.work] == number)]
        if len(mine):
            limits.append((span.start_ns, max(span.end_ns, int(gpu.end[mine].max()))))
    if not limits:
        return Covered(busy.start[:1], busy.end[-1:])
    edges = np.array(limits, np.int64)
    return Covered(edges[:, 0], edges[:, 1])


def _causes(trace: Trace, start: Ints, end: Ints, then: Ints) -> Ints:
    host, launch = trace.host, trace.gpu.launch[np.maximum(then, 0)]
    known = (then >= 0) & (launch >= 0)
    launched = np.where(known, host.start[np.maximum(launch, 0)], end)
    # the host had until here; what follows is the launch on its way
    until = np.clip(launched, start, end)
    waits, own, copying, issuing = _host_time(trace)
    waiting = waits.holds(start)
    half = (until - start) / 2
    tests = {
        "sync": (waiting & (until > start)) | (waits.between(start, until) > half),
        "unknown": (then >= 0) & ~known,
        "device": known & (launched <= start),
        "profiler": own.between(start, until) > half,
        "copy": copying.between(start, until) > half,
        "launch": issuing.between(start, until) > half,
    }
    numbers = [CAUSES.index(cause) for cause in tests]
    return np.select(list(tests.values()), numbers, CAUSES.index("host"))


def _host_time(trace: Trace) -> tuple[Covered, Covered, Covered, Covered]:
    """What the host can be seen doing: waiting, serving the profiler, copying, running ops."""
    host = trace.host

    def covered(chosen: Bools) -> Covered:
        rows = chosen & host.lasting
        return Covered(host.start[rows], host.end[rows])

    return (
        covered(host.is_wait),
        covered(host.is_kind("overhead")),
        covered(host.is_call & host.named(calls.copies)),
        covered((host.is_op | host.is_call) & ~host.is_wait),
    )
