"""The launches of compiled code in a trace, by call: how often each ran, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from foretrace.model.about import device_of
from foretrace.model.costs.roofline import Roofline, Work, impossible, position
from foretrace.schema.compiler import CompilerRun, KernelCall

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


class Launches(Struct, frozen=True):
    """Launches of one or several calls; times are None where there is no trace."""

    events: list[int]
    names: list[str]
    count: int | None = None
    total_ns: int | None = None
    median_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None


class Ran:
    """What a trace says about the calls of a run; without a trace, nothing."""

    def __init__(self, run: CompilerRun, trace: Trace | None) -> None:
        from foretrace.why.launches import join

        self.trace = trace
        self.by_event = join(run, trace) if trace is not None else {}
        self.by_call: dict[int, list[int]] = {}
        for event, launch in self.by_event.items():
            self.by_call.setdefault(id(launch.call), []).append(event)
        self.flops = _flops(trace) if trace is not None and self.by_event else {}

    def of(self, calls: Sequence[KernelCall]) -> Launches:
        """All launches of these calls."""
        if self.trace is None:
            return Launches([], [])
        host = self.trace.host
        events = sorted(event for call in calls for event in self.by_call.get(id(call), ()))
        names = list(dict.fromkeys(host.names[host.name[event]] for event in events))
        times = [int(host.length[event]) for event in events if host.lasting[event]]
        if not times:
            return Launches(events, names, len(events))
        ends = (min(times), max(times))
        return Launches(events, names, len(events), sum(times), median(times), *ends)

    def place(self, ran: Launches, bytes_moved: int | None) -> Roofline:
        """Where one launch lies under the roofs of the GPU, by its median time."""
        if self.trace is None or ran.median_ns is None:
            return Roofline()
        device = device_of(self.trace.about)
        known = [self.flops[event] for event in ran.events if event in self.flops]
        flops, dtype = known[0] if known and len(ran.names) == 1 else (None, None)
        work = Work(flops, bytes_moved, ran.median_ns, dtype, True if flops else None)
        return Roofline() if impossible(device, work) else position(device, work)

    @property
    def time_ns(self) -> int | None:
        """Time of all launches of compiled code."""
        if self.trace is None:
            return None
        host = self.trace.host
        return sum(int(host.length[event]) for event in self.by_event if host.lasting[event])

    @property
    def whole_ns(self) -> int | None:
        """GPU time of the whole trace."""
        gpu = self.trace.gpu if self.trace is not None else None
        return gpu.busy(gpu.usable) if gpu is not None and len(gpu) else None

    @property
    def unexplained(self) -> list[str]:
        """Kernels that compiled code launched and no call explains, by name."""
        return []


def _flops(trace: Trace) -> dict[int, tuple[int, str | None]]:
    """FLOP and operand type of every kernel that has them, by event."""
    known = trace.kernels.select("id", "flops", "operand_type").drop_nulls("flops")
    return {event: (flops, dtype) for event, flops, dtype in known.iter_rows()}
