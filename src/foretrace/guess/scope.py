"""Where a prediction looks: the whole trace, every step, one step, every call of a region or an op.

`in mlp_fwd: kernels == 5` and `kernels == 5 in mlp_fwd` mean the same; so do `per step: …` and
`… per step`. A prediction about a region or about steps holds when it holds for every one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from foretrace.guess.evidence import Evidence
from foretrace.guess.tokens import Token, nearest, wrong
from foretrace.model.host import step_number
from foretrace.model.intervals import Bools, Ints
from foretrace.model.spans import Span
from foretrace.units import time_text

LINES = 16  # of the evidence under a miss; the rest is counted
_FILLERS = ("every", "each", "region", "call", "of", "the")
_RESERVED = (*_FILLERS, "step", "steps", "in", "per")


class Unknown(Exception):
    """The trace does not decide this; the text says what is missing."""


@dataclass(frozen=True)
class Window:
    """One step, one call of a region or an op, or the whole trace (`start_ns` is None).

    `rows` are GPU operations in launch order. `track` is set for ops: what other threads did
    meanwhile does not belong to them.
    """

    evidence: Evidence
    label: str
    rows: Ints
    start_ns: int | None = None
    end_ns: int | None = None
    track: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole trace."""
        return self.start_ns is None

    @property
    def gap(self) -> str:
        """Why this window may contain more than was read; empty when the trace is complete."""
        return self.evidence.trace.ledger.gap

    def need_whole(self) -> None:
        """For what only a complete trace decides: totals, shares, orders."""
        if self.gap:
            raise Unknown(self.gap)

    def need_gpu(self) -> None:
        """For what only GPU events decide."""
        if not self.evidence.trace.has("gpu"):
            raise Unknown(
                "no GPU events in this trace: record with ProfilerActivity.CUDA on a machine "
                "with a GPU"
            )

    def events(self, mask: Bools) -> Ints:
        """Host events of `mask` that begin in this window, in time order."""
        inside = self._inside
        return inside[mask[inside]]

    @cached_property
    def _inside(self) -> Ints:
        events, times = self.evidence.timeline
        if self.start_ns is None or self.end_ns is None:
            return events
        first, last = np.searchsorted(times, (self.start_ns, self.end_ns))
        held, track = events[first:last], self.evidence.trace.host.track
        return held if self.track is None else held[track[held] == self.track]

    @cached_property
    def lost(self) -> int:
        """How many GPU operations may belong here and cannot be placed: launches without a GPU
        event, and GPU operations without a launch that ran after this window began.
        """
        silent, stray = len(self.events(self.evidence.silent)), self.evidence.stray
        if self.start_ns is None:
            return silent
        return silent + len(stray) - int(np.searchsorted(stray, self.start_ns))

    def lines(self, rows: list[int], events: list[int]) -> list[str]:
        """GPU operations with launch call and ops, and host events with the ops above them."""
        gpu, host = self.evidence.trace.gpu, self.evidence.trace.host
        launched = [(self._gpu_text(row), int(gpu.length[row])) for row in rows]
        called = [(self._host_text(event), int(host.length[event])) for event in events]
        return [*_folded(launched), *_folded(called)]

    def _gpu_text(self, row: int) -> str:
        operation = self.evidence.operation(row)
        launch = self.evidence.launch_name(row) or "no launch recorded"
        return f"{operation.label} · {launch} · {' > '.join(operation.chain) or 'no op'}"

    def _host_text(self, event: int) -> str:
        host = self.evidence.trace.host
        above = " > ".join(host.op_chain(int(host.parent[event])))
        return self.evidence.name(event) + (f" · in {above}" if above else "")


def _folded(lines: list[tuple[str, int]]) -> list[str]:
    """Runs of equal lines as one with their mean time; at most `LINES`."""
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


@dataclass(frozen=True, slots=True)
class Scope:
    """`kind` is trace, steps, step, region or op; `name` a name with `*`, or a step's number."""

    kind: str = "trace"
    name: str = ""

    @property
    def text(self) -> str:
        """As it is written before a colon."""
        if self.kind in ("trace", "steps"):
            return "per step" if self.kind == "steps" else ""
        if self.kind == "step":
            return f"in step {self.name}"
        plain = re.fullmatch(r"[\w*.-]+(?:::[\w*.-]+)*", self.name)
        bare = plain and self.name.lower() not in _RESERVED
        return f"in {self.name}" if bare else f'in "{self.name}"'

    @property
    def prefix(self) -> str:
        """What stands before a prediction: `in mlp_fwd: `, or nothing for the whole trace."""
        return f"{self.text}: " if self.text else ""

    @property
    def unit(self) -> str:
        """What there are several of."""
        plain = {"steps": "steps", "step": "steps", "trace": "traces"}
        return plain.get(self.kind, f"calls of {self.name}")

    @property
    def open_ended(self) -> bool:
        """Whether it means every call there is, of which an incomplete trace may lack some."""
        return self.kind not in ("trace", "step")

    def windows(self, evidence: Evidence) -> list[Window]:
        """The windows to look at; `Unknown` when the trace has none of them."""
        if self.kind == "trace":
            return [Window(evidence, "the whole trace", evidence.by_launch[0])]
        if self.kind in ("steps", "step"):
            return _steps(evidence, self)
        return _ops(evidence, self.name) if "::" in self.name else _regions(evidence, self.name)


def split_scope(text: str, tokens: Sequence[Token]) -> tuple[Scope, list[Token]]:
    """The scope of a prediction and the words that are left."""
    keys = [token.key for token in tokens]
    if keys[0] in ("in", "per"):
        if ":" not in keys:
            raise wrong(text, tokens, len(tokens), [":"])
        colon = keys.index(":")
        return _scope(text, tokens, 1, colon), list(tokens[colon + 1 :])
    last = max((place for place, key in enumerate(keys) if key in ("in", "per")), default=0)
    if last and last + 1 < len(tokens):
        return _scope(text, tokens, last + 1, len(tokens)), list(tokens[:last])
    return Scope(), list(tokens)


def _scope(text: str, tokens: Sequence[Token], begin: int, end: int) -> Scope:
    while begin < end and tokens[begin].key in _FILLERS:
        begin += 1
    words = tokens[begin:end]
    if not words:
        raise wrong(text, tokens, begin, ["step", "the name of a region"])
    if words[0].key in ("step", "steps") and len(words) == 1:
        return Scope("steps")
    if words[0].key == "step" and len(words) == 2 and re.fullmatch(r"[0-9]{1,9}", words[1].key):
        return Scope("step", str(int(words[1].key)))
    if len(words) > 1 or words[0].key == ":":
        raise wrong(text, tokens, begin + min(1, len(words) - 1), [":"])
    return Scope("op" if "::" in words[0].text else "region", words[0].text)


def named(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with `*` in it."""
    if "*" not in pattern:
        return pattern == name
    regex = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(regex, name, re.DOTALL) is not None


def _window(evidence: Evidence, span: Span, label: str) -> Window:
    return Window(evidence, label, span.work, span.start_ns, span.end_ns)


def _steps(evidence: Evidence, scope: Scope) -> list[Window]:
    steps = evidence.trace.spans.steps
    if not steps:
        raise Unknown("no steps in this trace: record with a schedule and call step()")
    number = None if scope.kind == "steps" else int(scope.name)
    wanted = [span for span in steps if number in (None, step_number(span.name))]
    if not wanted:
        numbers = ", ".join(str(step_number(span.name)) for span in steps[:12])
        raise Unknown(f"no step {scope.name} in this trace; it has {numbers}")
    return [_window(evidence, span, span.name) for span in wanted]


def _regions(evidence: Evidence, name: str) -> list[Window]:
    groups = evidence.trace.spans.region_groups()
    spans = [span for group, calls in groups.items() if named(name, group) for span in calls]
    if not spans:
        raise Unknown(_no_region(name, [group for group in groups if not group.startswith("##")]))
    labels = [f"call {number} of {span.name}" for number, span in enumerate(spans, 1)]
    return [_window(evidence, *pair) for pair in zip(spans, labels, strict=True)]


def _no_region(name: str, there: list[str]) -> str:
    if not there:
        return f"no region {name!r}: this trace has no record_function ranges"
    near = nearest(name, there)
    hint = f" (did you mean {near}?)" if near else ""
    return f"no region {name!r} in this trace; it has {', '.join(there[:12])}{hint}"


def _ops(evidence: Evidence, name: str) -> list[Window]:
    host = evidence.trace.host
    events = np.flatnonzero(host.is_op & host.lasting & host.named(lambda text: named(name, text)))
    if not len(events):
        why = "" if host.is_op.any() else ": it has no host ops"
        raise Unknown(f"no op {name} in this trace{why}")
    return op_windows(evidence, name, events.tolist())


def op_windows(evidence: Evidence, name: str, events: list[int]) -> list[Window]:
    """One window per call of an op: what its own thread did and launched during the call."""
    host, gpu = evidence.trace.host, evidence.trace.gpu
    rows, launched = evidence.by_launch
    windows = []
    for number, event in enumerate(events, 1):
        begin, end, track = int(host.start[event]), int(host.end[event]), int(host.track[event])
        first, last = np.searchsorted(launched, (begin, end))
        held = rows[first:last]
        held = held[(gpu.launch[held] >= 0) & (host.track[gpu.launch[held]] == track)]
        windows.append(Window(evidence, f"call {number} of {name}", held, begin, end, track))
    return windows


def quotable_regions(evidence: Evidence) -> dict[str, int]:
    """Names of regions that a prediction can spell, and how many GPU operations each launches."""
    return {
        name: sum(len(call.work) for call in calls)
        for name, calls in evidence.trace.spans.region_groups().items()
        if name.isprintable() and '"' not in name and "::" not in name
    }
