"""Where a prediction looks: every step, one step, every call of a region, an op or a module.

A prediction holds when it holds in every window. `total.` looks at the whole recording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from foretrace.base.errors import UsageError
from foretrace.base.units import time_text
from foretrace.check.evidence import Evidence
from foretrace.check.language import Scope, Unknown, glob, nearest
from foretrace.trace.gpu import EVER
from foretrace.trace.host import step_number
from foretrace.trace.intervals import Bools, Floats, Ints
from foretrace.trace.module_calls import ENGINE, PREFIX
from foretrace.trace.spans import Span

LINES = 16  # of the evidence under a miss; the rest is counted
LISTED = 8  # names in a message
PASSES = ("backward", "forward")


class NoSuchPlace(UsageError):
    """The trace has no region, module or step of this name; the text names those that it has."""


@dataclass(frozen=True)
class Window:
    """One step, one call of a region, an op or a module, or the whole recording (`start_ns` None).

    `rows` are GPU operations in launch order. `track` is set for ops and modules: what other
    threads did meanwhile is not theirs. `part` is the pass that `rows` are of, where no range marks
    it. `event` is the host event of a step or region. `alone`: a step of a number, not each.
    """

    evidence: Evidence
    label: str
    rows: Ints
    start_ns: int | None = None
    end_ns: int | None = None
    track: int | None = None
    region: str = ""
    part: str = ""
    event: int = -1
    alone: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is the whole recording."""
        return self.start_ns is None

    @property
    def span(self) -> Span:
        """The window as the trace has it; not for the whole recording."""
        return Span(self.region, 0, self.event, self.start_ns or 0, self.end_ns or 0, self.rows)

    @cached_property
    def shared(self) -> Floats:
        """The time of every GPU operation of it; what runs at once shares it."""
        trace = self.evidence.trace
        since = EVER if self.event < 0 else trace.spans.since(self.span)
        return trace.gpu.shared(self.rows, since)

    @property
    def length_ns(self) -> int:
        """How long it is on the host."""
        return (self.end_ns or 0) - (self.start_ns or 0)

    @property
    def gap(self) -> str:
        """Why there may be more than was read; empty when the trace is complete."""
        return self.evidence.trace.ledger.gap

    def need_gpu(self) -> None:
        """For what only GPU events decide."""
        if not self.evidence.trace.has("gpu"):
            raise Unknown(
                "no GPU events in this trace: record with ProfilerActivity.CUDA on a machine with "
                "a GPU"
            )

    def need_all(self) -> None:
        """For what one more event could overturn."""
        if self.gap:
            raise Unknown(self.gap)

    def events(self, mask: Bools) -> Ints:
        """Host events of `mask` that begin here, in time order."""
        if self.part:
            raise Unknown(f"no range marks the {self.part} pass on the host")
        inside = self._inside
        return inside[mask[inside]]

    @cached_property
    def _inside(self) -> Ints:
        events, times = self.evidence.timeline
        if self.start_ns is None or self.end_ns is None:
            return events
        first, last = np.searchsorted(times, (self.start_ns, self.end_ns))
        inside, track = events[first:last], self.evidence.trace.host.track
        return inside if self.track is None else inside[track[inside] == self.track]

    @cached_property
    def lost(self) -> int:
        """How many GPU operations may belong here and cannot be placed: launches without a GPU
        event, and GPU operations without a launch that ran after this window began.
        """
        if self.part:
            return 0
        silent, stray = len(self.events(self.evidence.silent)), self.evidence.stray
        if self.start_ns is None:
            return silent
        return silent + len(stray) - int(np.searchsorted(stray, self.start_ns))

    def lines(self, rows: Sequence[int], events: Sequence[int]) -> list[str]:
        """GPU operations with launch call and ops, and host events with the ops above them."""
        gpu, host = self.evidence.trace.gpu, self.evidence.trace.host
        launched, called = [], []
        for row in rows:
            work = self.evidence.operation(row)
            launch = self.evidence.launch_name(row) or "no launch recorded"
            text = f"{work.label} · {launch} · {' > '.join(work.chain) or 'no op'}"
            launched.append((text, int(gpu.length[row])))
        for event in events:
            above = " > ".join(host.op_chain(int(host.parent[event])))
            text = self.evidence.name(event) + (f" · in {above}" if above else "")
            called.append((text, int(host.length[event])))
        return [*_folded(launched), *_folded(called)]


def _folded(lines: list[tuple[str, int]]) -> list[str]:
    """Runs of equal lines as one with their mean time."""
    runs = [
        (text, [length for _, length in run])
        for text, run in groupby(lines, key=lambda line: line[0])
    ]
    shown = [
        f"{time_text(sum(times) / len(times)):>8}  {text}"
        + (f"  (x{len(times)})" if len(times) > 1 else "")
        for text, times in runs[:LINES]
    ]
    return shown + ([f"… and {len(runs) - LINES} more lines"] if len(runs) > LINES else [])


def whole(evidence: Evidence) -> Window:
    """The whole recording."""
    return Window(evidence, "the recording", evidence.by_launch[0])


def windows_of(scope: Scope, evidence: Evidence) -> list[Window]:
    """The windows to look at.

    `Unknown` when the trace lacks data of that kind, `NoSuchPlace` when it has others.
    """
    if not scope.kind:
        return (_steps(evidence, None) if evidence.trace.spans.steps else []) or [whole(evidence)]
    if scope.kind == "step":
        return _steps(evidence, int(scope.name))
    if scope.kind == "op":
        return _calls(evidence, "op", scope.name)
    if scope.kind == "module":
        return _calls(evidence, "module", scope.name)
    if scope.kind == "pass":
        return _passes(evidence, scope.name)
    return _regions(evidence, scope.name)


def span_window(evidence: Evidence, span: Span, label: str) -> Window:
    """What one step or one call of a region holds."""
    begin, end = span.start_ns, span.end_ns
    return Window(evidence, label, span.work, begin, end, region=span.name, event=span.event)


def _absent(evidence: Evidence, problem: str) -> Exception:
    """A name that a complete trace does not have is wrong; an incomplete one may have lost it."""
    return Unknown(problem) if evidence.trace.ledger.gap else NoSuchPlace(problem)


def _steps(evidence: Evidence, number: int | None) -> list[Window]:
    steps = evidence.trace.spans.steps
    if not steps:
        raise Unknown("no steps in this trace: record with a schedule and call step()")
    wanted = [span for span in steps if number in (None, step_number(span.name))]
    if number is None and len(steps) > 1 and not len(steps[-1].work):
        host = evidence.trace.host  # the recording ended with the first moment of its last step
        starts = np.sort(host.start[host.is_op & host.lasting])
        first, last = np.searchsorted(starts, (steps[-1].start_ns, steps[-1].end_ns))
        wanted = wanted[:-1] if len(starts) and first == last else wanted
    if not wanted:
        numbers = ", ".join(str(step_number(span.name)) for span in steps[:LISTED])
        raise _absent(evidence, f"no step {number} in this trace; it has {numbers}")
    windows = [span_window(evidence, span, span.name) for span in wanted]
    return [replace(window, alone=number is not None) for window in windows]


def _regions(evidence: Evidence, name: str) -> list[Window]:
    groups = evidence.trace.spans.region_groups()
    calls = [span for group, spans in groups.items() if glob(name, group) for span in spans]
    if not calls:
        host = evidence.trace.host
        if f"aten::{name}" in host.names:
            return _calls(evidence, "op", f"aten::{name}")
        near = nearest(name, list(groups)) or [*groups][:LISTED]
        known = f"; it has {', '.join(near)}" if near else "; it has none"
        raise _absent(evidence, f"no region {name} in this trace{known}")
    labels = (f"call {number} of {span.name}" for number, span in enumerate(calls, 1))
    return [span_window(evidence, *pair) for pair in zip(calls, labels, strict=True)]


def _passes(evidence: Evidence, name: str) -> list[Window]:
    """Every range whose name has the word (`## forward ##`), else what each step launches in it."""
    groups = evidence.trace.spans.region_groups()
    named = [group for group in groups if re.search(rf"(?<![a-z.]){name}(?![a-z])", group.lower())]
    calls = sorted((span for group in named for span in groups[group]), key=lambda s: s.start_ns)
    if any(one.end_ns > other.start_ns for one, other in pairwise(calls)):
        raise Unknown(f"several ranges are named so: {', '.join(named[:LISTED])}")
    if calls:
        return [span_window(evidence, span, span.name) for span in calls]
    steps = [window for window in windows_of(Scope(), evidence) if len(window.rows)]
    if name == "forward" and not any(op.startswith(ENGINE) for op in evidence.trace.host.names):
        return steps  # without a backward pass, all of it
    mine = np.flatnonzero(evidence.is_forward if name == "forward" else evidence.in_engine)
    if not len(mine):
        raise Unknown(f"the trace does not say what the {name} pass launched")
    parts = [replace(one, rows=one.rows[np.isin(one.rows, mine)], part=name) for one in steps]
    return [part for part in parts if len(part.rows)]


def module_named(pattern: str, text: str) -> bool:
    """Whether a row of a module is that of `LlamaMLP_0`, or of any module of its class."""
    if not text.startswith(PREFIX):
        return False
    name = text.removeprefix(PREFIX)
    return glob(pattern, name) or glob(pattern, name.rpartition("_")[0])


def _calls(evidence: Evidence, kind: str, name: str) -> list[Window]:
    """One window per call of an op or a module: what its own thread did and launched meanwhile."""
    host, gpu = evidence.trace.host, evidence.trace.gpu
    if kind == "op":
        mask = host.is_op & host.named(lambda text: glob(name, text))
        missing = "" if host.is_op.any() else ": it has no host ops"
    else:
        mask = host.is_kind("python_function") & host.named(lambda text: module_named(name, text))
        missing = (
            "" if evidence.has_modules else ": record with modules (foretrace record --stacks)"
        )
    events = np.flatnonzero(mask & host.lasting)
    if not len(events):
        raise (Unknown if missing else NoSuchPlace)(f"no {kind} {name} in this trace{missing}")
    rows, launched = evidence.by_launch
    calls = []
    for number, event in enumerate(events.tolist(), 1):
        begin, end, track = int(host.start[event]), int(host.end[event]), int(host.track[event])
        first, last = np.searchsorted(launched, (begin, end))
        inside: Ints = rows[first:last]
        inside = inside[(gpu.launch[inside] >= 0) & (host.track[gpu.launch[inside]] == track)]
        calls.append(Window(evidence, f"call {number} of {name}", inside, begin, end, track))
    return calls
