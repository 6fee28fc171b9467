"""The windows that a scope means in a trace: steps, calls of a region, of a module or of an op."""

from __future__ import annotations

import re

import numpy as np

from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.scope import NoSuchPlace, Scope, Unknown, Window, named
from foretrace.analyze.guess.tokens import LONGEST, nearest
from foretrace.model.host import step_number
from foretrace.model.intervals import Ints
from foretrace.model.module_calls import PREFIX
from foretrace.model.spans import Span

_LISTED = 12  # names in a message; nobody reads more


def windows_of(scope: Scope, evidence: Evidence) -> list[Window]:
    """The windows to look at.

    `Unknown` when the trace lacks data of that kind, `NoSuchPlace` when it has other ones.
    """
    if scope.kind == "trace":
        return [Window(evidence, "the whole trace", evidence.by_launch[0])]
    if scope.kind in ("steps", "step"):
        return _steps(evidence, scope)
    if scope.kind == "op":
        return _ops(evidence, scope.name)
    return _regions(evidence, scope.name)


def _absent(evidence: Evidence, problem: str) -> Exception:
    """A name that a complete trace does not have is wrong; an incomplete one may have lost it."""
    return Unknown(problem) if evidence.trace.ledger.gap else NoSuchPlace(problem)


def _window(evidence: Evidence, span: Span, label: str) -> Window:
    return Window(evidence, label, span.work, span.start_ns, span.end_ns, region=span.name)


def _steps(evidence: Evidence, scope: Scope) -> list[Window]:
    steps = evidence.trace.spans.steps
    if not steps:
        raise Unknown("no steps in this trace: record with a schedule and call step()")
    number = None if scope.kind == "steps" else int(scope.name)
    wanted = [span for span in steps if number in (None, step_number(span.name))]
    if not wanted:
        numbers = ", ".join(str(step_number(span.name)) for span in steps[:_LISTED])
        raise _absent(evidence, f"no step {scope.name} in this trace; it has {numbers}")
    return [_window(evidence, span, span.name) for span in wanted]


def _regions(evidence: Evidence, name: str) -> list[Window]:
    groups = evidence.trace.spans.region_groups()
    spans = [span for group, calls in groups.items() if named(name, group) for span in calls]
    if not spans:
        return _modules(evidence, name)
    labels = [f"call {number} of {span.name}" for number, span in enumerate(spans, 1)]
    return [_window(evidence, *pair) for pair in zip(spans, labels, strict=True)]


def _modules(evidence: Evidence, name: str) -> list[Window]:
    """Every forward of `LlamaMLP_0`, or of all modules of the class `LlamaMLP`."""
    host = evidence.trace.host
    wanted = re.compile(r"_\d+$")

    def fits(text: str) -> bool:
        module = text.removeprefix(PREFIX)
        return module != text and (named(name, module) or named(name, wanted.sub("", module)))

    events = np.flatnonzero(host.is_kind("python_function") & host.lasting & host.named(fits))
    if not len(events):
        raise _absent(evidence, _no_region(name, evidence))
    return op_windows(evidence, name, events.tolist())


def modules(evidence: Evidence) -> list[str]:
    """The classes of the modules in a trace, in order of name."""
    names = [name for name in evidence.trace.host.names if name.startswith(PREFIX)]
    return sorted({re.sub(r"_\d+$", "", name.removeprefix(PREFIX)) for name in names})


def _no_region(name: str, evidence: Evidence) -> str:
    groups = evidence.trace.spans.region_groups()
    there = [group for group in groups if not group.startswith("##")]
    if not there + modules(evidence):
        return f"no region {name!r}: this trace has no record_function ranges and no modules"
    near = nearest(name, there + modules(evidence))
    hint = f" (did you mean {near}?)" if near else ""
    listed = [_listed("", there), _listed("modules ", modules(evidence))]
    return f"no region {name!r} in this trace; it has {'; '.join(filter(None, listed))}{hint}"


def _listed(word: str, names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{word}{', '.join(names[:_LISTED])}{more}" if names else ""


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


def cpu_place(evidence: Evidence) -> Scope:
    """Where the work of a CPU trace is: its steps, else the region that holds most of it."""
    trace = evidence.trace
    if trace.spans.steps:
        return Scope("steps")
    names = [name for name in quotable_regions(evidence) if not name.startswith("##")]
    times = {name: sum(span.cpu_ns for span in trace.spans.region_groups()[name]) for name in names}
    longest = max(times, key=lambda name: times[name], default="")
    ops = trace.host.is_op & trace.host.lasting
    held = 2 * times.get(longest, 0) >= int(trace.host.self_length[ops].sum())
    return Scope("region", longest) if longest and held else Scope()


def quotable_regions(evidence: Evidence) -> dict[str, int]:
    """Names of regions that a prediction can spell, and how many GPU operations each launches."""
    return {
        name: sum(len(call.work) for call in calls)
        for name, calls in evidence.trace.spans.region_groups().items()
        if name.isprintable() and '"' not in name and "::" not in name and len(name) < LONGEST // 2
    }
