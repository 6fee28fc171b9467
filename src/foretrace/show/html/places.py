"""Where findings are on the timeline: gaps to shade, events to frame, and the stretch to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from foretrace.model.trace import Trace
from foretrace.schema.documents.look import FindingEntry
from foretrace.show.html.timeline import Outline

Stretch = tuple[int, int]


class Place(Struct, frozen=True):
    """One finding on the timeline; times are ns from the first event.

    `key` names it in an address: its rule, with a number behind it where a rule found more than one
    thing. `shades` are gaps (start, end, GPU), `events` what to frame (event, start, end), `frame`
    the stretch that shows them: those of one step, where there are steps.
    """

    key: str
    frame: Stretch | None
    shades: list[tuple[int, int, int]]
    events: list[tuple[int, int, int]]


def places(trace: Trace, findings: Sequence[FindingEntry], outline: Outline) -> list[Place]:
    """The place of each finding, in their order."""
    seen, found = Counter[str](), []
    for finding in findings:
        seen[finding.rule] += 1
        number = seen[finding.rule]
        key = finding.rule if number == 1 else f"{finding.rule}_{number}"
        found.append(_place(trace, key, finding, outline))
    return found


def _place(trace: Trace, key: str, finding: FindingEntry, outline: Outline) -> Place:
    origin, host = outline.origin_ns, trace.host
    shades = [(start - origin, end - origin, gpu) for start, end, gpu in finding.ranges]
    rows = np.array([event for event in finding.events if event < host.count], np.int64)
    rows = rows[host.lasting[rows]]
    columns = rows, host.start[rows] - origin, host.end[rows] - origin
    events = list(zip(*(column.tolist() for column in columns), strict=True))
    shown = [(start, end) for start, end, _ in shades] or [(start, end) for _, start, end in events]
    return Place(key, _frame(shown, outline) if shown else None, shades, events)


def _frame(shown: Sequence[Stretch], outline: Outline) -> Stretch:
    """The stretch of those in the step that the page opens at, else of those in the step of the
    first one; of all, where there is no step.
    """
    typical = [] if outline.step is None else [outline.steps[outline.step]]
    there = [step for step in outline.steps if step.start <= shown[0][0] < step.last]
    inside = [
        [one for one in shown if step.start < one[1] and one[0] < step.last]
        for step in [*typical, *there]
    ]
    pieces = next(filter(None, inside), shown)
    return min(start for start, _ in pieces), max(end for _, end in pieces)
