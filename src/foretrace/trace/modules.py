"""The nn.Modules of a trace: which of them launched what, where the profiler recorded them.

`trace/module_calls.py` says which module owns a launch. With `profile_memory=True` the memory that
the calls of a module keep is what they allocated less what they freed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import filled
from foretrace.trace.analysis import Analysis
from foretrace.trace.flame import FlameViews
from foretrace.trace.host import Host, Paths, summed
from foretrace.trace.intervals import Bools, Ints, union_length
from foretrace.trace.metadata import device_of
from foretrace.trace.module_calls import PASSES, Owners, class_of
from foretrace.trace.utilization import ideal_times

CPU = 0  # c10::DeviceType
PYTHON = "outside of ops (Python)"


class ModuleWork(Struct, frozen=True):
    """One module: its calls, and the GPU work of it and of the modules that it called.

    `kernels` and `gpu_ns` are what was launched inside its calls. `forward_ns`, `backward_ns` and
    `recomputed_ns` are all that belongs to it. `flops` are those of its matmuls and attention, and
    `flop_ns` is the time that they take at the peak; None where none is known. `memory_bytes` is
    what its calls allocated on the GPU less what they freed. A row of work that no module owns has
    the kind "".
    """

    name: str
    kind: str
    path: tuple[str, ...]
    calls: int
    kernels: int
    gpu_ns: int
    forward_ns: int
    backward_ns: int
    recomputed_ns: int
    flops: int | None = None
    flop_ns: float | None = None
    memory_bytes: int | None = None

    @property
    def total_ns(self) -> int:
        """GPU time of all three."""
        return self.forward_ns + self.backward_ns + self.recomputed_ns


class OwnedWork(Struct, frozen=True):
    """Rows of GPU work or of host time, and which module owns each.

    `inside` is the module call around each. `columns` are kernels, time inside, time by pass, and
    the count, sum and least time of known FLOP. `outside` names what no module owns.
    """

    owners: Owners
    inside: Ints
    columns: list[Ints]
    outside: list[str]


def _on_gpu(trace: Analysis) -> OwnedWork:
    gpu, calls = trace.gpu, trace.module_calls
    ideal = ideal_times(trace, device_of(trace.about))
    known = ideal.matmul & ~np.isnan(ideal.flops)
    columns = [
        gpu.is_kernel.astype(np.int64),
        gpu.length,
        *(np.where(calls.owners.ran == each, gpu.length, 0) for each in PASSES),
        known.astype(np.int64),
        np.where(known, ideal.flops, 0.0),
        np.where(known, ideal.flop_ns, 0.0),
    ]
    return OwnedWork(calls.owners, calls.own, columns, trace.outside_modules)


def _on_host(trace: Analysis) -> OwnedWork:
    """Ops and modules by their own time; nothing is known of their FLOP."""
    views = FlameViews(trace)
    owners, ns = views.host_owners, views.host_ns
    none = np.zeros(len(ns), np.int64)
    times = [np.where(owners.ran == each, ns, 0) for each in PASSES]
    rows = enumerate((owners.call >= 0).tolist())
    outside = ["" if owned else views.host_outside(row) for row, owned in rows]
    return OwnedWork(owners, owners.call, [none, none, *times, none, none, none], outside)


class Modules:
    """The work of the modules of one trace, and what no module owns.

    Without any GPU work the times are host times, which include profiler overhead.
    """

    def __init__(self, trace: Analysis) -> None:
        self.trace, self._calls = trace, trace.module_calls

    @cached_property
    def _work(self) -> OwnedWork:
        return _on_gpu(self.trace) if len(self.trace.gpu) else _on_host(self.trace)

    @cached_property
    def rows(self) -> list[ModuleWork]:
        """Every module in order of first call, then what none owns; empty without modules.

        Work in a nested module counts for both. The rows without a path add up to all GPU time.
        """
        events = np.flatnonzero(self._calls.is_module)
        if not len(events):
            return []
        number = self._calls.paths.numbers(self._calls.owners.first_call[events])
        _, first, place = np.unique(number, return_index=True, return_inverse=True)
        calls = np.bincount(place)
        sums = [np.bincount(place, weights=each[events]) for each in self._below()]
        own = kept_bytes(self.trace, self._calls.paths)
        if own is not None:
            own = np.bincount(place, summed(self._calls.paths.above, own)[events])
        rows = []
        for at in np.argsort(first).tolist():
            path = self._calls.path(int(self._calls.owners.first_call[events[first[at]]]))
            row = _row(path, int(calls[at]), [column[at] for column in sums])
            rows.append(row if own is None else replace(row, memory_bytes=int(own[at])))
        return [*rows, *self._outside()]

    def _below(self) -> Iterator[Ints]:
        """The columns, summed over each module call and those inside it."""
        work, above = self._work, self._calls.paths.above
        inside = work.owners.first_call[work.inside]
        for at, values in enumerate(work.columns):
            call = inside if at < 2 else work.owners.call
            own = np.zeros(len(above), values.dtype)
            np.add.at(own, call[call >= 0], values[call >= 0])
            yield summed(above, own)

    def _outside(self) -> list[ModuleWork]:
        """What no module owns, by name, most time first."""
        work = self._work
        names = np.array(work.outside, np.dtypes.StringDType())
        found = [
            _row((name,), 0, [column[names == name].sum() for column in work.columns], kind="")
            for name in sorted({*work.outside} - {""})
        ]
        if not len(self.trace.gpu) and (left := self._python_ns()):
            found.append(_row((PYTHON,), 0, [0, 0, left, 0, 0, 0, 0, 0], kind=""))
        return sorted(found, key=lambda row: -row.total_ns)

    def _python_ns(self) -> int:
        """The time of the steps in no op and no module."""
        host, owners = self.trace.host, self._work.owners
        left = 0
        for span in self.trace.spans.steps:
            rows = owners.launch[host.track[owners.launch] == host.track[span.event]]
            start, end = np.maximum(host.start[rows], span.start_ns), host.end[rows]
            inside = (end > span.start_ns) & (start < span.end_ns)
            covered = union_length(start[inside], np.minimum(end[inside], span.end_ns))
            left += span.cpu_ns - covered
        return left


def _row(
    path: tuple[str, ...], calls: int, values: list[float], kind: str | None = None
) -> ModuleWork:
    *times, known, flops, at_peak = values
    kernels, inside, forward, backward, recomputed = map(int, times)
    return ModuleWork(
        *(path[-1], class_of(path[-1]) if kind is None else kind, path[:-1], calls),
        *(kernels, inside, forward, backward, recomputed),
        flops=int(flops) if known else None,
        flop_ns=float(at_peak) if known and not np.isnan(at_peak) else None,
    )


def kept_bytes(trace: Analysis, paths: Paths) -> Ints | None:
    """For each event of `host` that is a module call, bytes of its own; None where not recorded."""
    table, host = trace.tables["memory"], trace.host
    on_gpu: Bools = filled(table["device_type"], CPU) != CPU
    if not on_gpu.any():
        return None
    event, size = table["event"].to_numpy()[on_gpu], filled(table["bytes"], 0)[on_gpu]
    call = around(host, paths, event)
    own = np.zeros(len(paths.above), np.int64)
    np.add.at(own, call[call >= 0], size[call >= 0])
    return own


def around(host: Host, paths: Paths, events: Ints) -> Ints:
    """The innermost chosen event on the thread of each of these events at its time, or -1."""
    calls = np.flatnonzero(paths.chosen[: host.count])
    if not len(calls):
        return np.full(len(events), -1, np.int64)
    low, width = int(host.start.min()), int(np.ptp(host.start)) + 1

    def place(events: Ints) -> Ints:
        return host.track[events].astype(np.int64) * width + host.start[events] - low

    calls = calls[np.lexsort((-host.end[calls], place(calls)))]
    at = np.searchsorted(place(calls), place(events), "right")
    found = np.append(calls, -1)[at - 1]
    found[(at == 0) | (host.track[found] != host.track[events])] = -1
    while (past := (found >= 0) & (host.end[found] < host.start[events])).any():
        found[past] = paths.above[found[past]]
    return found
