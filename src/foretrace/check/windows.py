"""Where a prediction looks: the whole trace, every step, one step, every call of a region or an op.

`in mlp_fwd: kernels == 5` and `kernels == 5 in mlp_fwd` mean the same; so do `per step: …` and
`… per step`. A prediction about a region or about steps holds when it holds for every one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from foretrace.base.errors import UsageError
from foretrace.base.units import time_text
from foretrace.check.evidence import Evidence
from foretrace.check.words import PHASES, TRAITS, Token, nearest, wrong
from foretrace.trace.cpu_ops import cpu_region
from foretrace.trace.host import step_number
from foretrace.trace.intervals import Bools, Ints
from foretrace.trace.module_calls import ENGINE, PREFIX
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace

LINES = 16  # of the evidence under a miss; the rest is counted
_SERVED = ("decode", "prefill")  # what a server does; a range may be named so
_FILLERS = ("every", "each", "region", "call", "of", "the")
_IN = ("in", "per")
_RESERVED = (*_FILLERS, *_IN, "step", "steps")


class Unknown(Exception):
    """The trace does not decide this; the text says what is missing."""


class Differs(Unknown):
    """Two readings of one claim have different verdicts."""


class NoSuchPlace(UsageError):
    """The trace has no region, module or step of this name; the text names those that it has."""


@dataclass(frozen=True)
class Window:
    """One step, one call of a region or an op, or the whole trace (`start_ns` is None).

    `rows` are GPU operations in launch order. `track` is set for ops and modules: what other
    threads did meanwhile does not belong to them. `part` is the pass that `rows` are of, where no
    range marks it. `region` is the name of a region, or of a step, and `event` its host event.
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

    @property
    def whole(self) -> bool:
        """Whether it is the whole trace."""
        return self.start_ns is None

    @property
    def span(self) -> Span:
        """The window as the model has it; not for the whole trace."""
        start, end = self.start_ns or 0, self.end_ns or 0
        return Span(self.region, 0, self.event, start, end, self.rows)

    @property
    def length_ns(self) -> int:
        """How long it is on the host; 0 for the whole trace."""
        return (self.end_ns or 0) - (self.start_ns or 0)

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
        held, track = events[first:last], self.evidence.trace.host.track
        return held if self.track is None else held[track[held] == self.track]

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

    def lines(self, rows: list[int], events: list[int]) -> list[str]:
        """GPU operations with launch call and ops, and host events with the ops above them."""
        gpu, host = self.evidence.trace.gpu, self.evidence.trace.host
        launched, called = [], []
        for row in rows:
            operation = self.evidence.operation(row)
            launch = self.evidence.launch_name(row) or "no launch recorded"
            text = f"{operation.label} · {launch} · {' > '.join(operation.chain) or 'no op'}"
            launched.append((text, int(gpu.length[row])))
        for event in events:
            above = " > ".join(host.op_chain(int(host.parent[event])))
            text = self.evidence.name(event) + (f" · in {above}" if above else "")
            called.append((text, int(host.length[event])))
        return [*_folded(launched), *_folded(called)]


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
    """`kind` is trace, steps, step, region or op; `name` a name with `*`, or a step's number.

    A region is a `record_function` range, else a module. `places.windows_of` finds them in a trace.
    """

    kind: str = "trace"
    name: str = ""

    @property
    def text(self) -> str:
        """As it is written before a colon."""
        if self.kind in ("trace", "steps"):
            return "per step" if self.kind == "steps" else ""
        if self.kind == "pass":
            return "per pass"
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
        plain = {"steps": "steps", "step": "steps", "pass": "passes", "trace": "traces"}
        return plain.get(self.kind, f"calls of {self.name}")

    @property
    def open_ended(self) -> bool:
        """Whether it means every call there is, of which an incomplete trace may lack some."""
        return self.kind not in ("trace", "step")


def split_scope(text: str, tokens: Sequence[Token]) -> tuple[Scope, list[Token]]:
    """The scope of a prediction and the words that are left.

    It stands before a colon, at the end, or behind what it belongs to: `kernels per step > 500`.
    """
    keys = [token.key for token in tokens]
    if ":" in keys or keys[:1] in (["in"], ["per"]):
        scope, after = _scope(text, tokens, int(keys[0] in _IN))
        if ":" in keys and keys[after : after + 1] != [":"]:
            raise wrong(text, tokens, min(after, len(tokens) - 1), [":"])
        return scope, list(tokens[after + (keys[after : after + 1] in ([":"], [","])) :])
    last = max((place for place, key in enumerate(keys) if key in _IN), default=0)
    if last and last + 1 < len(tokens):
        scope, after = _scope(text, tokens, last + 1)
        return scope, [*tokens[:last], *tokens[after:]]
    return Scope(), list(tokens)


def _scope(text: str, tokens: Sequence[Token], begin: int) -> tuple[Scope, int]:
    """The scope whose name begins at `begin` or behind filler words, and the place after it."""
    while begin < len(tokens) and tokens[begin].key in _FILLERS:
        begin += 1
    if begin >= len(tokens) or tokens[begin].key == ":":
        raise wrong(text, tokens, begin, ["step", "the name of a region"])
    word, follower = tokens[begin], tokens[begin + 1].key if begin + 1 < len(tokens) else ""
    if word.key == "step" and re.fullmatch(r"[0-9]{1,9}", follower):
        return Scope("step", str(int(follower))), begin + 2
    if word.key in ("step", "steps"):
        return Scope("steps"), begin + 1
    if word.key == "pass":
        return Scope("pass"), begin + 1
    if word.key in TRAITS:  # `gemms run in bf16`
        raise wrong(text, tokens, begin, ["step", "the name of a region"])
    return Scope("op" if "::" in word.text else "region", word.text), begin + 1


def named(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with `*` in it."""
    if "*" not in pattern:
        return pattern == name
    first, *between, last = pattern.split("*")
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in between:  # each at its first place leaves the most for the next
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


_LISTED = 12  # names in a message; nobody reads more


def windows_of(scope: Scope, evidence: Evidence) -> list[Window]:
    """The windows to look at.

    `Unknown` when the trace lacks data of that kind, `NoSuchPlace` when it has other ones.
    """
    if scope.kind == "trace":
        return [Window(evidence, "the whole trace", evidence.by_launch[0])]
    if scope.kind == "pass":
        return _passes(evidence)
    if scope.kind in ("steps", "step"):
        return _steps(evidence, scope)
    if scope.kind == "op":
        return _ops(evidence, scope.name)
    return _regions(evidence, scope.name)


def _absent(evidence: Evidence, problem: str) -> Exception:
    """A name that a complete trace does not have is wrong; an incomplete one may have lost it."""
    return Unknown(problem) if evidence.trace.ledger.gap else NoSuchPlace(problem)


def span_window(evidence: Evidence, span: Span, label: str) -> Window:
    """What one step or one call of a region holds."""
    begin, end = span.start_ns, span.end_ns
    return Window(evidence, label, span.work, begin, end, region=span.name, event=span.event)


def _steps(evidence: Evidence, scope: Scope) -> list[Window]:
    steps = evidence.trace.spans.steps
    if not steps:
        raise Unknown("no steps in this trace: record with a schedule and call step()")
    number = None if scope.kind == "steps" else int(scope.name)
    wanted = [span for span in steps if number in (None, step_number(span.name))]
    if number is None:
        wanted = _begun(evidence, wanted)
    if not wanted:
        numbers = ", ".join(str(step_number(span.name)) for span in steps[:_LISTED])
        raise _absent(evidence, f"no step {scope.name} in this trace; it has {numbers}")
    return [span_window(evidence, span, span.name) for span in wanted]


def _begun(evidence: Evidence, steps: list[Span]) -> list[Span]:
    """Without a last step in which no op began: the recording ended with its first moment."""
    host = evidence.trace.host
    starts = np.sort(host.start[host.is_op & host.lasting])
    if len(steps) < 2 or not len(starts) or len(steps[-1].work):
        return steps
    first, last = np.searchsorted(starts, (steps[-1].start_ns, steps[-1].end_ns))
    return steps[:-1] if first == last else steps


def _passes(evidence: Evidence) -> list[Window]:
    """The steps that launched anything; without any, the whole trace."""
    whole = windows_of(Scope(), evidence)
    steps = _steps(evidence, Scope("steps")) if evidence.trace.spans.steps else []
    return [step for step in steps if len(step.rows)] or steps or whole


def _regions(evidence: Evidence, name: str) -> list[Window]:
    groups = evidence.trace.spans.region_groups()
    spans = [span for group, calls in groups.items() if named(name, group) for span in calls]
    if not spans and "*" not in name:  # `capture bs=1`, `capture bs=8`
        spans = [
            span
            for group, calls in groups.items()
            for span in calls
            if group.startswith(f"{name} ")
        ]
    if not spans and name.lower() in (*PHASES, *_SERVED):
        return _phase(evidence, name.lower())
    if not spans:
        return _modules(evidence, name)
    labels = [f"call {number} of {span.name}" for number, span in enumerate(spans, 1)]
    return [span_window(evidence, *pair) for pair in zip(spans, labels, strict=True)]


def _phase(evidence: Evidence, name: str) -> list[Window]:
    """Every range whose name has the word (`## forward ##`), else what each step launches in it."""
    groups = evidence.trace.spans.region_groups()
    found = [group for group in groups if re.search(rf"(?<![a-z.]){name}(?![a-z])", group.lower())]
    calls = sorted((span for group in found for span in groups[group]), key=lambda s: s.start_ns)
    if any(one.end_ns > other.start_ns for one, other in pairwise(calls)):
        raise Unknown(f"several ranges are named so: {', '.join(found[:_LISTED])}")
    if calls:
        return [span_window(evidence, span, span.name) for span in calls]
    alone = not any(op.startswith(ENGINE) for op in evidence.trace.host.names)
    if name in _SERVED or (name == "forward" and alone and evidence.trace.host.is_op.any()):
        return _passes(evidence)  # without a backward pass, all of it
    rows = np.flatnonzero(evidence.is_forward if name == "forward" else evidence.in_engine)
    if not len(rows):
        raise Unknown(f"the trace does not say what the {name} pass launched")
    passes = _passes(evidence)
    kept = [replace(each, rows=each.rows[np.isin(each.rows, rows)], part=name) for each in passes]
    return [each for each in kept if len(each.rows)]


def _modules(evidence: Evidence, name: str) -> list[Window]:
    """Every forward of `LlamaMLP_0`, or of all modules of the class `LlamaMLP`."""
    host = evidence.trace.host
    mine = host.named(lambda text: module_named(name, text))
    events = np.flatnonzero(host.is_kind("python_function") & host.lasting & mine)
    op = name if "::" in name else f"aten::{name}"
    if not len(events) and op in host.names:
        return _ops(evidence, op)
    if not len(events):
        raise _absent(evidence, _no_region(name, evidence))
    return op_windows(evidence, name, events.tolist())


def module_named(name: str, text: str) -> bool:
    """Whether an event is a forward of the module `LlamaMLP_0`, or of one of its class."""
    module = text.removeprefix(PREFIX)
    return module != text and (named(name, module) or named(name, re.sub(r"_\d+$", "", module)))


def inside(evidence: Evidence, kind: str, name: str) -> Bools:
    """Which GPU operations the calls of a range or of a module launched."""
    found: Bools = np.zeros(len(evidence.trace.gpu), bool)
    for window in (_regions if kind == "region" else _modules)(evidence, name):
        found[window.rows] = True
    return found


def modules(evidence: Evidence) -> list[str]:
    """The classes of the modules in a trace, in order of name."""
    names = [name for name in evidence.trace.host.names if name.startswith(PREFIX)]
    return sorted({re.sub(r"_\d+$", "", name.removeprefix(PREFIX)) for name in names})


def _no_region(name: str, evidence: Evidence) -> str:
    groups = evidence.trace.spans.region_groups()
    there = [group for group in groups if not group.startswith("##")]
    classes = modules(evidence)
    if not there + classes:
        return f"no region {name!r}: this trace has no record_function ranges and no modules"
    near = nearest(name, there + classes)
    hint = f" (did you mean {near}?)" if near else ""
    listed = [some_of(there, _LISTED)] if there else []
    listed += [f"modules {some_of(classes, _LISTED)}"] if classes else []
    return f"no region {name!r} in this trace; it has {'; '.join(listed)}{hint}"


def some_of(texts: Iterable[str], most: int) -> str:
    """The first of several texts, and how many more there are."""
    found = [*texts]
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if found[most:] else "")


def _ops(evidence: Evidence, name: str) -> list[Window]:
    host = evidence.trace.host
    events = np.flatnonzero(host.is_op & host.lasting & host.named(lambda text: named(name, text)))
    if not len(events):
        why = "" if host.is_op.any() else ": it has no host ops"
        raise Unknown(f"no op {name} in this trace{why}")
    return op_windows(evidence, name, events.tolist())


def op_windows(evidence: Evidence, name: str, events: list[int]) -> list[Window]:
    """One window per call of an op or a module: what its own thread did and launched meanwhile."""
    host, gpu = evidence.trace.host, evidence.trace.gpu
    rows, launched = evidence.by_launch
    found = []
    for number, event in enumerate(events, 1):
        begin, end, track = int(host.start[event]), int(host.end[event]), int(host.track[event])
        first, last = np.searchsorted(launched, (begin, end))
        held: Ints = rows[first:last]
        held = held[(gpu.launch[held] >= 0) & (host.track[gpu.launch[held]] == track)]
        found.append(Window(evidence, f"call {number} of {name}", held, begin, end, track))
    return found


def cpu_place(trace: Trace) -> Scope:
    """Where the work of a CPU trace is: its steps, else the region that holds most of it."""
    if trace.spans.steps:
        return Scope("steps")
    region = cpu_region(trace)
    return Scope("region", region) if region else Scope()
