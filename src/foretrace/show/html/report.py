"""The report of one trace or several: gathers what the page shows, and writes the file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.show.html.changes import MARKS, Compared, all_marks, compared
from foretrace.show.html.matmuls import MatmulsOnMap, on_map
from foretrace.show.html.packing import pack
from foretrace.show.html.page import page, write_page
from foretrace.show.html.tables import TraceFacts, facts
from foretrace.show.html.timeline import CONFIG, Timeline
from foretrace.show.render.safe import plain

# A page of this many events is near 3 MB (6.4 bytes an event); more is a case for
# `foretrace serve`.
MOST_EVENTS = 400_000
MOST_TRACES = 8  # tracks of more do not fit a screen


class Report(Struct):
    """What a report's script reads; the documents of `check` and `ladder --json`.

    `only` names the one view of a page in a notebook.
    """

    traces: list[TraceFacts]
    compared: Compared | None
    guesses: object | None
    ladder: object | None
    matmuls: MatmulsOnMap | None = None
    config: tuple[str, ...] = CONFIG
    marks: tuple[str, ...] = MARKS
    schema: int = 1
    only: str = ""


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
    only: str = "",
    most_events: int = MOST_EVENTS,
) -> str:
    """The report as HTML; it opens at step `step`, or at the typical one."""
    if not 1 <= len(traces) <= MOST_TRACES:
        raise UsageError(f"a report is about 1 to {MOST_TRACES} traces, not {len(traces)}")
    timelines = [Timeline(trace) for trace in traces]
    found = compared(timelines, traces) if len(traces) > 1 else None
    given = [None] * len(traces) if found is None else all_marks(found, traces)
    most = most_events // len(traces)
    drawn = [
        _drawn(trace, timeline, step, mark, most)
        for trace, timeline, mark in zip(traces, timelines, given, strict=True)
    ]
    for shown, name in zip(drawn, titles(traces), strict=True):
        shown.title = name
    title = " and ".join(trace.title for trace in drawn)
    matmuls = None if only else on_map(traces[-1])
    return page(title, Report(drawn, found, guesses, ladder, matmuls, only=only))


def titles(traces: Sequence[Trace]) -> list[str]:
    """What traces are called: their files, without the words that all of several end with."""
    names = [plain(os.path.basename(trace.path)) for trace in traces]
    words = [re.split(r"(?<=.)(?=[_.-])", name) for name in names]
    if len({*names}) < len(names):  # files of one name in several folders, which stay behind
        return [f"{name} ({at})" for at, name in enumerate(names, 1)]
    while names[1:] and len({each[-1] for each in words}) == 1 and all(each[1:] for each in words):
        words = [each[:-1] for each in words]
    return ["".join(each) for each in words]


def _drawn(
    trace: Trace, timeline: Timeline, step: int | None, mark: Ints | None, most: int
) -> TraceFacts:
    wanted = timeline.typical_step if step is None else step
    if step is not None and step not in range(len(timeline.steps)):
        raise UsageError(
            f"{trace.path} has {len(timeline.steps)} steps, numbered from 0: no step {step}"
        )
    rows, shown = _shown(timeline, wanted, most), timeline.outline(wanted)
    shown.events, shown.left_out = timeline.packed(rows), len(timeline) - len(rows)
    if mark is not None:
        shown.marks = pack({"mark": mark[timeline.event[rows]]})
    return facts(trace, plain(os.path.basename(trace.path)), shown)


def _shown(timeline: Timeline, step: int | None, most: int) -> Ints:
    """All events where they fit; else GPU work first, then what is in the step, the longest first.

    Without short kernels a GPU would look idle that is busy.
    """
    if len(timeline) <= most:
        return np.arange(len(timeline))
    on_gpu = np.array([lane.gpu for lane in timeline.lanes], bool)[timeline.lane]
    inside = np.ones(len(timeline), bool)
    if step is not None:
        start, last = timeline.steps[step].start, timeline.steps[step].last
        inside = (timeline.start <= last) & (timeline.start + timeline.length >= start)
    wanted = np.lexsort((-timeline.length, ~inside, ~on_gpu))
    return np.sort(wanted[:most])
