"""Steps and regions: stretches of host time, and the GPU work that was launched inside them.

A step is a `ProfilerStep#N` range, a region any other `record_function` range that is not inside
one of the same name. GPU work belongs to the stretch whose CPU range contains its launch, on
whatever thread of the process that launch was made: autograd launches from a thread of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import Narrow, distinct
from foretrace.trace.gpu import EVER, Gpu
from foretrace.trace.host import HOST_KINDS, Host, step_number
from foretrace.trace.intervals import Ints, innermost, numbered, open_at_start

# Steps or regions that may be open at once, more than any program nests: each costs its own look
# at the work that it shares with the others. Further ones are left out, and noted.
NESTED = 64


class Span(Struct, frozen=True):
    """One step, or one call of a region. `work` are rows of `Gpu`, in order of launch."""

    name: str
    index: int
    event: int
    start_ns: int
    end_ns: int
    work: Ints

    @property
    def cpu_ns(self) -> int:
        """Host time."""
        return self.end_ns - self.start_ns


class Spans:
    """All steps and region calls of a trace."""

    def __init__(self, host: Host, gpu: Gpu) -> None:
        self.host, self.gpu = host, gpu
        self.left_out = 0
        work = gpu.launch_order[gpu.launch[gpu.launch_order] >= 0]
        self._launched = gpu.launched[work]
        process = host.process[gpu.launch[work]]
        by_process = np.argsort(process, kind="stable")  # a merged file has several
        self._work = work[by_process]
        self._place = self._places(process[by_process], self._launched[by_process])
        self.steps = self._spans(np.flatnonzero(host.is_step))
        self.regions = self._spans(self._outermost(np.flatnonzero(host.is_region)))

    def _outermost(self, events: Ints) -> Ints:
        """Those that no range of the same name is around: it has their time and their work."""
        host = self.host
        same = numbered(host.track[events], host.name[events])
        outermost: Ints = events[open_at_start(same, host.start[events], host.end[events]) == 0]
        return outermost

    def _spans(self, events: Ints) -> list[Span]:
        host = self.host
        around = open_at_start(self._launcher(events), host.start[events], host.end[events])
        self.left_out += int((around >= NESTED).sum())
        events = events[around < NESTED]
        process, start, end = self._launcher(events), host.start[events], host.end[events]
        edges = [np.searchsorted(self._place, self._places(process, at)) for at in (start, end)]
        columns = (host.name[events], events, start, end, *edges)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [
            Span(host.names[name], index, event, start, end, self._work[low:high])
            for index, (name, event, start, end, low, high) in enumerate(rows)
        ]

    def _launcher(self, events: Ints) -> Narrow:
        """The process whose launches belong to each range: its own, or the only one that launches.

        Only one of its rank, in a merged file; -1 where its own launches nothing and several do.
        """
        own, space = self.host.process[events], self.host.namespace[events]
        launching, only = self._launchers
        return np.where(np.isin(own, launching), own, only[space])

    @cached_property
    def _launchers(self) -> tuple[Narrow, Ints]:
        """The processes that launch, and the only one of each rank; -1 where a rank has several."""
        host, calls = self.host, distinct(self.gpu.launch[self._work])
        process, first = np.unique(host.process[calls], return_index=True)
        rank = host.namespace[calls[first]]
        only = np.full(int(host.namespace.max(initial=0)) + 1, -1, np.int64)
        only[rank] = process
        only[np.bincount(rank, minlength=len(only)) > 1] = -1
        return process, only

    def _places(self, process: Narrow, moments: Ints) -> Ints:
        """Numbers that sort by process, and within one as the launches before each moment do."""
        before = np.searchsorted(self._launched, moments, side="left")
        return process.astype(np.int64) * (len(self._launched) + 1) + before

    def window(self, span: Span) -> tuple[int, int]:
        """The time that a step or call takes, by the GPU's clock.

        It begins on the host, or where the GPU finishes what was launched earlier: a host that runs
        ahead waits for nothing. It ends with its last GPU work or on the host, whichever is later.
        A range that outlasts everything recorded ends with the last recorded event.
        """
        begin, lag = self._free(span), self.gpu.lag
        ends = self.gpu.end[span.work][self.gpu.usable[span.work]]
        last = min(span.end_ns, self._last)
        end = max(int(ends.max(initial=span.start_ns + lag)), last + lag)
        return min(begin, end), end

    def _free(self, span: Span) -> int:
        """When a step or call begins and the GPU has finished what was launched earlier."""
        return max(span.start_ns + self.gpu.lag, self.drained(span))

    def drained(self, span: Span) -> int:
        """When the GPU has finished what was launched before a step or call."""
        launched, reach = self._reach
        earlier = int(np.searchsorted(launched, span.start_ns, side="left"))
        return int(reach[earlier - 1]) if earlier else EVER

    def since(self, span: Span) -> int:
        """From when on GPU work counts for a step: what runs beside an earlier step's work takes
        no time of its own. A call of a region has all of its work.
        """
        aligned = step_number(span.name) is not None and self.gpu.aligned
        return self._free(span) if aligned else EVER

    def busy(self, span: Span) -> int:
        """GPU time of one step or call."""
        return self.gpu.busy(span.work, self.since(span))

    @cached_property
    def _reach(self) -> tuple[Ints, Ints]:
        """Launch times in order, and how long the GPU is busy with all that was launched so far."""
        gpu = self.gpu
        untimed = (gpu.launch >= 0) & ~self.host.timed[gpu.launch]  # nothing says when it was
        rows = np.flatnonzero(gpu.usable & ~untimed)
        launched = np.where(gpu.before_recording, np.iinfo(np.int64).min, gpu.launched)[rows]
        order = np.argsort(launched, kind="stable")
        return launched[order], np.maximum.accumulate(gpu.end[rows[order]])

    @cached_property
    def _last(self) -> int:
        """When the host was last seen doing anything; steps and regions are only frames."""
        host = self.host
        seen = host.lasting & host.is_kind(*HOST_KINDS) & ~host.is_step & ~host.is_region
        return int(host.end[seen].max()) if seen.any() else np.iinfo(np.int64).max

    def step_of_work(self) -> Ints:
        """The index of the step each GPU operation belongs to, or -1."""
        owner = np.full(len(self.gpu), -1, np.int64)
        for span in self.steps:
            owner[span.work] = span.index
        return owner

    def step_of_events(self) -> Ints:
        """The step of its process that contains each event's start; GPU work goes with its launch.

        Where one process has all steps, every event counts as one of its own.
        """
        host = self.host
        owner = np.full(host.count, -1, np.int64)
        if not self.steps:
            return owner
        events = np.array([span.event for span in self.steps])
        rows, own = np.flatnonzero(host.timed), host.process[events]
        mine = host.process[rows] if (own != own[0]).any() else np.full(len(rows), own[0])
        moments = distinct(np.concatenate((host.start[events], host.end[events])))

        def place(process: Narrow, at: Ints) -> Ints:
            before = np.searchsorted(moments, at, side="right")
            return process.astype(np.int64) * (len(moments) + 1) + before

        first, last = place(own, host.start[events]), place(own, host.end[events])
        order = np.argsort(first, kind="stable")
        found = innermost(first[order], last[order], place(mine, host.start[rows]))
        owner[rows] = np.where(found >= 0, order[np.maximum(found, 0)], -1)
        owner[self.gpu.id] = self.step_of_work()
        return owner

    def median_busy(self, spans: Sequence[Span]) -> float | None:
        """GPU time of one step or call: the median over those that launched anything.

        This is the one figure that pages, guesses and comparisons give. None where no GPU event of
        them has a time.
        """
        gpu = self.gpu
        timed = [span for span in spans if bool(gpu.usable[span.work].any())]
        return float(np.median([self.busy(span) for span in timed])) if timed else None

    def region_groups(self) -> dict[str, list[Span]]:
        """Calls by region name, in order of first call."""
        return self._groups

    @cached_property
    def _groups(self) -> dict[str, list[Span]]:
        groups: dict[str, list[Span]] = {}
        for span in self.regions:
            groups.setdefault(span.name, []).append(span)
        return groups
