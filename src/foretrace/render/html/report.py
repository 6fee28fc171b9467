"""The report of one trace or two: gathers what the page shows, and writes the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from foretrace.errors import UsageError
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.render.html.changes import MARKS, comparison, marks
from foretrace.render.html.packing import pack
from foretrace.render.html.page import page, write_page
from foretrace.render.html.tables import TraceFacts, facts
from foretrace.render.html.timeline import CONFIG, Timeline
from foretrace.render.safe import plain

# A page of this many events is near 3 MB (6.4 bytes an event); more is a case for
# `foretrace serve`.
MOST_EVENTS = 400_000


class Report(Struct):
    """What a report's script reads; the documents of `compare`, `check` and `ladder --json`."""

    traces: list[TraceFacts]
    comparison: object | None
    guesses: object | None
    ladder: object | None
    config: tuple[str, ...] = CONFIG
    marks: tuple[str, ...] = MARKS
    schema: int = 1


def write_report(
    path: str | os.PathLike[str],
    traces: Sequence[Trace],
    *,
    step: int | None = None,
    guesses: object | None = None,
    ladder: object | None = None,
) -> Path:
    """Write `report(traces, ...)` to `path`: all or nothing, and never over one of the traces."""
    text = report(traces, step=step, guesses=guesses, ladder=ladder)
    return write_page(path, text, [trace.path for trace in traces])


def report(
    traces: Sequence[Trace],
    *,
    step: int | None = None,
    guesses: object | None = None,
    ladder: object | None = None,
) -> str:
    """The report as HTML; it opens at step `step`, or at the typical one."""
    if not 1 <= len(traces) <= 2:
        raise UsageError("a report is about one trace or two")
    compared = comparison(*traces) if len(traces) == 2 else None
    drawn = []
    for trace, side in zip(traces, "ab", strict=False):
        mark = None if compared is None else marks(compared, trace, side)
        drawn.append(_drawn(trace, step, mark))
    title = " and ".join(trace.title for trace in drawn)
    return page(title, Report(drawn, compared, guesses, ladder))


def _drawn(trace: Trace, step: int | None, mark: Ints | None) -> TraceFacts:
    timeline = Timeline(trace)
    wanted = timeline.typical_step if step is None else step
    if step is not None and step not in range(len(timeline.steps)):
        raise UsageError(
            f"{trace.path} has {len(timeline.steps)} steps, numbered from 0: no step {step}"
        )
    rows, shown = _shown(timeline, wanted), timeline.outline(wanted)
    shown.events, shown.left_out = timeline.packed(rows), len(timeline) - len(rows)
    if mark is not None:
        shown.marks = pack({"mark": mark[timeline.event[rows]]})
    return facts(trace, plain(os.path.basename(trace.path)), shown)


def _shown(timeline: Timeline, step: int | None) -> Ints:
    """All events where they fit; else those of one step, and of these the longest."""
    rows = np.arange(len(timeline))
    if len(timeline) <= MOST_EVENTS:
        return rows
    if step is not None:
        rows = timeline.between(timeline.steps[step].start, timeline.steps[step].last)
    longest = np.argsort(-timeline.length[rows], kind="stable")[:MOST_EVENTS]
    return np.sort(rows[longest])
