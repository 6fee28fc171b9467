"""`View`: the stretch of a trace that a prediction is about, and the lines that show what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretrace.guess.work import Work
from foretrace.model.intervals import Bools, Ints
from foretrace.units import time_text

LINES = 16  # of a slice; the rest is counted


class Unknown(Exception):
    """The trace cannot decide this; the text says what is missing."""


@dataclass(frozen=True)
class View:
    """One step, one call of a region or an op, or the whole trace (`start_ns` None). `rows` are GPU
    work in launch order.

    `track` is set for ops: what other threads did meanwhile is not theirs.
    """

    work: Work
    label: str
    rows: Ints
    start_ns: int | None = None
    end_ns: int | None = None
    track: int | None = None

    @property
    def whole(self) -> bool:
        return self.start_ns is None

    @property
    def gap(self) -> str:
        """Why this stretch may have held more than is seen; empty when the trace is whole."""
        return self.work.trace.ledger.gap

    def need_whole(self) -> None:
        """For what only a whole trace decides: totals, shares, orders."""
        if self.gap:
            raise Unknown(self.gap)

    def events(self, mask: Bools) -> Ints:
        """Events of the host that begin in this stretch and are in `mask`, in time order."""
        inside = self._inside
        return inside[mask[inside]]

    @cached_property
    def _inside(self) -> Ints:
        events, times = self.work.timeline
        if self.start_ns is None or self.end_ns is None:
            return events
        first, last = np.searchsorted(times, (self.start_ns, self.end_ns))
        held = events[first:last]
        return held if self.track is None else held[self.work.trace.host.track[held] == self.track]

    def need_gpu(self) -> None:
        if not self.work.trace.has("gpu"):
            raise Unknown(
                "no GPU events in this trace: record it on a machine with a GPU, with the GPU "
                "activity on"
            )

    @cached_property
    def lost(self) -> int:
        """How many pieces of GPU work may belong here and cannot be counted: launches that left no
        GPU event, and GPU work without a launch that ran after this stretch began."""
        silent = len(self.events(self.work.silent))
        if self.start_ns is None:
            return silent
        return silent + len(self.work.stray) - int(np.searchsorted(self.work.stray, self.start_ns))

    def gpu_lines(self, rows: list[int]) -> tuple[str, ...]:
        """Kernels with their time, the call that launched them and the ops above them; like
        neighbours share a line.
        """
        return _folded([self._gpu_line(row) for row in rows])

    def _gpu_line(self, row: int) -> tuple[str, int]:
        case, gpu = self.work.case(row), self.work.trace.gpu
        name = case.ident.short if case.kind == "kernel" else case.name
        above = " > ".join(case.chain) or "no op"
        return f"{name} · {self.work.launch_name(row) or 'no launch recorded'} · {above}", int(
            gpu.length[row]
        )

    def host_lines(self, events: list[int]) -> tuple[str, ...]:
        """Host events under the ops that called them."""
        host = self.work.trace.host
        lines = []
        for event in events:
            above = " > ".join(host.op_chain(int(host.parent[event])))
            lines.append(
                (
                    host.names[host.name[event]] + (f" · in {above}" if above else ""),
                    int(host.length[event]),
                )
            )
        return _folded(lines)


def _folded(lines: list[tuple[str, int]]) -> tuple[str, ...]:
    """Runs of equal lines as one, the times beside it; at most `LINES`."""
    runs: list[tuple[str, list[int]]] = []
    for text, length in lines:
        if runs and runs[-1][0] == text:
            runs[-1][1].append(length)
        else:
            runs.append((text, [length]))
    shown = [
        f"{time_text(sum(times) / len(times)):>8}  {text}"
        + (f"  (x{len(times)})" if len(times) > 1 else "")
        for text, times in runs[:LINES]
    ]
    return (*shown, *([f"… and {len(runs) - LINES} more lines"] if len(runs) > LINES else []))
