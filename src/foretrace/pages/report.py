"""The report of one trace or several: gathers what the page shows, and writes the file.

A report can also show marked predictions, a climb of the ladder, what `foretrace try` measured, and
what `why` says of the last trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.base.terminal import plain
from foretrace.check.documents import CheckDocument
from foretrace.look.steering import Steering
from foretrace.pages.changes import MARKS, Compared, compared
from foretrace.pages.page import pack, page, write_page
from foretrace.pages.page_tables import (
    TableData,
    compiled_code,
    ladder_tables,
    predictions_table,
    tries,
)
from foretrace.pages.timeline import Timeline
from foretrace.pages.trace_facts import TraceFacts, facts
from foretrace.pages.view_data import matmuls_on_map
from foretrace.read.tried import TryDocument
from foretrace.record.lab_documents import LadderDocument
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace

# A page of this many events is near 3 MB (6.4 bytes an event); more is a case for
# `foretrace serve`.
MOST_EVENTS = 400_000
MOST_TRACES = 8  # tracks of more do not fit a screen
Answer = TypeVar("Answer", bound=Struct)


class Report(Struct):
    """What a report's script reads; `tabs` are those of this page alone, by name.

    What `why` says is about the last trace, where the compiler's logs are beside it. `only` names
    the one view of a page in a notebook.
    """

    traces: list[TraceFacts]
    compared: Compared | None
    tabs: dict[str, list[TableData]]
    marks: tuple[str, ...] = MARKS
    schema: int = 1
    only: str = ""
    kind: str = "report"


def write_report(path: str | os.PathLike[str], traces: Sequence[Trace], **how: Any) -> Path:
    """Write `report(traces, ...)` to `path`: all or nothing, and never over one of the traces."""
    return write_page(path, report(traces, **how), [trace.path for trace in traces])


def report(
    traces: Sequence[Trace],
    *,
    step: int | None = None,
    predictions: CheckDocument | None = None,
    ladder: LadderDocument | None = None,
    tried: TryDocument | None = None,
    only: str = "",
    most_events: int = MOST_EVENTS,
    steering: Steering | None = None,
) -> str:
    """The report as HTML; it opens at step `step`, or at the typical one."""
    if not 1 <= len(traces) <= MOST_TRACES:
        raise UsageError(f"a report is about 1 to {MOST_TRACES} traces, not {len(traces)}")
    timelines = [Timeline(trace) for trace in traces]
    found, given = compared(timelines, traces) if traces[1:] else (None, [None])
    most = most_events // len(traces)
    drawn = []
    columns = zip(traces, timelines, given, titles(traces), strict=True)
    for trace, timeline, mark, title in columns:
        if step is not None and step not in range(len(timeline.steps)):
            count = len(timeline.steps)
            raise UsageError(f"{trace.path} has {count} steps, numbered from 0: no step {step}")
        wanted = timeline.typical_step if step is None else step
        rows, outline = _shown(timeline, wanted, most), timeline.outline(wanted)
        outline.events, outline.left_out = timeline.packed(rows), len(timeline) - len(rows)
        if mark is not None:
            outline.marks = pack({"mark": mark[timeline.event[rows]]})
        drawn.append(facts(trace, title, outline, steering))
    title = " and ".join(trace.title for trace in drawn)
    why = None if only else compiled_code(traces[-1])
    parts = {"Compiled": why, "Tried": tries(tried) if tried else None}
    tabs = {name: [part.head, *part.tables] for name, part in parts.items() if part is not None}
    if predictions is not None:
        tabs["Predictions"] = [predictions_table(predictions)]
    if not only and (matmuls := matmuls_on_map(traces[-1])):
        tabs["Matmuls"] = matmuls
    if ladder is not None:
        tabs["Ladder"] = ladder_tables(ladder)
    return page(title, Report(drawn, found, tabs, only=only))


def titles(traces: Sequence[Trace]) -> list[str]:
    """What traces are called: their files, without the words that all of several end with."""
    names = [plain(os.path.basename(trace.path)) for trace in traces]
    words = [re.split(r"(?<=.)(?=[_.-])", name) for name in names]
    if len({*names}) < len(names):  # files of one name in several folders, which stay behind
        return [f"{name} ({at})" for at, name in enumerate(names, 1)]
    while names[1:] and len({each[-1] for each in words}) == 1 and all(each[1:] for each in words):
        words = [each[:-1] for each in words]
    return ["".join(each) for each in words]


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


def marked(traces: Sequence[Trace], texts: Sequence[str], file: str | None) -> CheckDocument | None:
    """The document of `check --json`, from a file or made; predictions call the first trace `a`."""
    if file is not None and file.endswith(".json"):
        return read_answer(file, CheckDocument, "check")
    if not texts and file is None:
        return None
    from foretrace.check import check
    from foretrace.check.documents import document
    from foretrace.check.files import load
    from foretrace.check.marking import Given

    given: list[Given] = [*texts, *(load(file) if file else [])]
    against = traces[0] if len(traces) > 1 else None
    return document(check(traces[-1], given, against))


def read_answer(file: str, document: type[Answer], command: str) -> Answer:
    """The document that a command printed into a file."""
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=document)
    except (OSError, msgspec.MsgspecError) as problem:
        words = f"{file}: not what `foretrace {command} --json` prints: {problem}"
        raise UsageError(words) from None
