"""What a trace says about compiled calls: how often each ran, how long, and for which bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from foretrace.base.units import sum_of_all
from foretrace.read.compiler.records import CompilerRun, KernelCall
from foretrace.trace.compiled.launches import CallRun, Launches
from foretrace.trace.metadata import device_of
from foretrace.work.kernel_row import KernelRow

if TYPE_CHECKING:
    from foretrace.trace.trace import Trace


def _sizes(
    names: Iterable[str], runs: Sequence[CallRun], others: Sequence[CallRun]
) -> Iterator[int | None]:
    wanted = tuple(names)
    for place, run in enumerate(runs):
        known: dict[str, int | None] = {}
        for each in (*others[place : place + 1], run):
            for access in each.call.accesses if each.call else ():
                known[access.tensor.name] = access.tensor.bytes
        yield sum_of_all(known.get(name) for name in wanted)


class CallRuns(Struct, frozen=True):
    """Runs of one or several calls, of which each may launch several kernels."""

    runs: list[CallRun]
    names: list[str]
    launches: int | None = None  # kernels; None without a trace
    total_ns: int | None = None

    @property
    def times(self) -> list[int]:
        """The kernel time of each run."""
        return [run.ns for run in self.runs if run.kernels]

    @property
    def median_ns(self) -> float | None:
        """Of one run."""
        return median(self.times) if self.times else None

    @property
    def bytes(self) -> list[int | None]:
        """What the runs moved, each amount once; sizes may differ between runs."""
        return sorted({run.bytes for run in self.runs}, key=lambda size: size or 0)

    @property
    def sized(self) -> KernelCall | None:
        """The call with the sizes of a run that has them."""
        return next((run.call for run in self.runs if run.bytes is not None), None)


class Ran:
    """What a trace says about the calls of a run; without a trace, nothing."""

    def __init__(self, run: CompilerRun, trace: Trace | None, found: Launches | None) -> None:
        self.trace = trace
        self.by_call = {
            id(run.compilations[each.compilation].calls[each.call]): each.runs
            for each in (found.calls if found else ())
        }

    def of(self, calls: Sequence[KernelCall]) -> CallRuns:
        """All runs of these calls."""
        if self.trace is None:
            return CallRuns([], [])
        runs = [run for call in calls for run in self.runs(call)]
        names = dict.fromkeys(self.name(event) for run in runs for event in run.kernels)
        launches = sum(len(run.kernels) for run in runs)
        return CallRuns(runs, list(names), launches, sum(run.ns for run in runs))

    def name(self, event: int) -> str:
        """The name of an event."""
        assert self.trace is not None  # only a trace has events
        name: str = self.trace.host.names[self.trace.host.name[event]]
        return name

    @cached_property
    def bytes_per_s(self) -> float | None:
        """The bandwidth of the GPU."""
        device = device_of(self.trace.about) if self.trace is not None else None
        return device.bytes_per_s if device else None

    def runs(self, call: KernelCall) -> Sequence[CallRun]:
        """The runs of a call."""
        return self.by_call.get(id(call), ())

    def whole(self, call: KernelCall) -> int:
        """Time of all runs."""
        return sum(run.ns for run in self.runs(call))

    def spent(
        self, call: KernelCall, count: int | None, names: Iterable[str], other: KernelCall
    ) -> int | None:
        """Time that all runs of a call spend on `count` bytes, never more than all of it.

        Where shapes are dynamic, `count` is None and the bytes are those of the named tensors in
        each run of this call or the other. A generated loop moves bytes at its own rate. What a
        library's kernel or a template computes meanwhile is not known: its bytes count at the
        GPU's bandwidth.
        """
        runs, rate, total = self.runs(call), self.bytes_per_s, 0.0
        computes = call.extern or call.kernel.startswith("triton_tem_")
        sizes = _sizes(names, runs, self.runs(other)) if count is None else [count] * len(runs)
        for run, size in zip(runs, sizes, strict=True):
            if size is None or (computes and not rate):
                return None
            if not computes and run.bytes:
                total += run.ns * min(size / run.bytes, 1.0)
            elif rate:
                total += min(size / rate * 1e9, run.ns)
        return round(total) if runs else None

    def kernel(self, ran: CallRuns) -> KernelRow | None:
        """The kernel in which these runs spent most time; None without any."""
        if self.trace is None or not ran.runs:
            return None
        spent: Counter[int] = Counter()
        for event in (event for run in ran.runs for event in run.kernels):
            if event in self.cases:
                spent[self.cases[event]] += int(self.trace.host.length[event])
        first = spent.most_common(1)
        return self.trace.kernel_rows[first[0][0]] if first else None

    def config(self, ran: CallRuns) -> dict[str, int]:
        """Block sizes and warps of a Triton kernel, as the trace has them of its first run."""
        if self.trace is None or not ran.runs or not len(self.trace.gpu):
            return {}
        gpu = self.trace.gpu
        rows = np.searchsorted(gpu.id, ran.runs[0].kernels)
        row = next((self.triton[op] for op in gpu.op[rows].tolist() if op in self.triton), None)
        if row is None:
            return {}
        pairs = [part.partition("=") for part in (row["kwargs"] or "").split(",")]
        pairs += [(name, "=", row[name] or "") for name in ("num_warps", "num_stages")]
        return {
            name.strip(): int(value)
            for name, _, value in pairs
            if value.strip().isdecimal() and len(value) < 10
        }

    @cached_property
    def triton(self) -> dict[int, dict[str, Any]]:
        """How Triton kernels were configured, by op."""
        if self.trace is None:
            return {}
        return self.trace.tables["triton"].rows_by_key("event", named=True, unique=True)

    @cached_property
    def cases(self) -> dict[int, int]:
        """The case of every kernel, by event."""
        listed = self.trace.kernel_cases["kernels"].to_list() if self.trace is not None else []
        return {event: at for at, events in enumerate(listed) for event in events}
