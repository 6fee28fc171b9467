"""The report of one trace or several: gathers what the page shows, and writes the file.

A report can also show marked guesses, a climb of the ladder, what `foretrace try` measured, and
what `why` says of the last trace; the last two have pages of their own.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.base.tables import WORDS, Column
from foretrace.base.terminal import plain
from foretrace.check.documents import CheckDocument
from foretrace.look.steering import Steering
from foretrace.pages.changes import MARKS, Compared, all_marks, compared
from foretrace.pages.page import pack, page, safe, write_page
from foretrace.pages.timeline import CONFIG, Timeline
from foretrace.pages.trace_facts import TraceFacts, code_text, facts
from foretrace.pages.view_data import MatmulsOnMap, matmuls_on_map
from foretrace.read.tried import KEPT, TryDocument
from foretrace.record.tries import lines as try_page
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace
from foretrace.why import explain
from foretrace.why import lines as why_page
from foretrace.why.documents import Why

# A page of this many events is near 3 MB (6.4 bytes an event); more is a case for
# `foretrace serve`.
MOST_EVENTS = 400_000
MOST_TRACES = 8  # tracks of more do not fit a screen
MOST_KERNELS = 100  # with their code; the table has all
TOP_ROWS = 1_000  # rows of a table
Answer = TypeVar("Answer", bound=Struct)


class Report(Struct):
    """What a report's script reads; the documents of `check` and `ladder --json`.

    `why` is about the last trace, where the compiler's logs are beside it. `only` names the one
    view of a page in a notebook.
    """

    traces: list[TraceFacts]
    compared: Compared | None
    guesses: object | None
    ladder: object | None
    matmuls: MatmulsOnMap | None = None
    tried: TryPage | None = None
    why: WhyPage | None = None
    config: tuple[str, ...] = CONFIG
    marks: tuple[str, ...] = MARKS
    schema: int = 1
    only: str = ""
    kind: str = "report"


def compiled_code(trace: Trace) -> WhyPage | None:
    """What `why` says of a trace; None without the compiler's logs beside it."""
    run = trace.compiler_records.run
    return None if run is None else why_data(explain(run, trace))


def write_report(path: str | os.PathLike[str], traces: Sequence[Trace], **how: Any) -> Path:
    """Write `report(traces, ...)` to `path`: all or nothing, and never over one of the traces."""
    return write_page(path, report(traces, **how), [trace.path for trace in traces])


def report(
    traces: Sequence[Trace],
    *,
    step: int | None = None,
    guesses: object | None = None,
    ladder: object | None = None,
    tried: TryDocument | None = None,
    only: str = "",
    most_events: int = MOST_EVENTS,
    steering: Steering | None = None,
) -> str:
    """The report as HTML; it opens at step `step`, or at the typical one."""
    if not 1 <= len(traces) <= MOST_TRACES:
        raise UsageError(f"a report is about 1 to {MOST_TRACES} traces, not {len(traces)}")
    timelines = [Timeline(trace) for trace in traces]
    found = compared(timelines, traces) if len(traces) > 1 else None
    given = [None] * len(traces) if found is None else all_marks(found, traces)
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
    matmuls = None if only else matmuls_on_map(traces[-1])
    beside = None if tried is None else tries(tried)
    why = None if only else compiled_code(traces[-1])
    return page(title, Report(drawn, found, guesses, ladder, matmuls, beside, why, only=only))


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


def marked_guesses(
    traces: Sequence[Trace], texts: Sequence[str], file: str | None
) -> CheckDocument | None:
    """The document of `check --json`, from a file or made; predictions call the first trace `A`."""
    if file is not None and file.endswith(".json"):
        return read_answer(file, CheckDocument, "check")
    if not texts and file is None:
        return None
    from foretrace.check import check, parse
    from foretrace.check.guess_files import load
    from foretrace.check.marking import document

    guesses = [parse(text) for text in texts] + (load(file) if file else [])
    against = traces[0] if len(traces) > 1 else None
    return document(check(traces[-1], guesses, against))


def read_answer(file: str, document: type[Answer], command: str) -> Answer:
    """The document that a command printed into a file."""
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=document)
    except (OSError, msgspec.MsgspecError) as problem:
        words = f"{file}: not what `foretrace {command} --json` prints: {problem}"
        raise UsageError(words) from None


class TriedBar(Struct, frozen=True):
    """A time per step with its interval, in nanoseconds; `state` is that of the fix."""

    state: str
    median_ns: float
    low_ns: float
    high_ns: float


class TryPage(Struct, frozen=True):
    """What a script draws: `bars` are those of the rows of `table`; `diff` is the patch."""

    head: object
    untouched: TriedBar
    bars: list[TriedBar]
    table: object
    sections: list[object]
    diff: list[str]
    kind: str = "try"


def try_html(document: TryDocument) -> str:
    """The page as HTML."""
    return page(f"try {plain(os.path.basename(document.script))}", tries(document))


def tries(document: TryDocument) -> TryPage:
    """What is drawn of a result; the folders it was made in stay behind."""
    if (patch := document.patch) is not None:
        patch = replace(patch, path=os.path.basename(patch.path))
    named = replace(document, script=os.path.basename(document.script), patch=patch)
    head, table, *rest = try_page.parts(named)
    fixes = try_page.measured(document)
    state = table.columns[-1]
    change = Column("", lambda fix: fix.write if fix.state == KEPT else state.value(fix), WORDS)
    base, bars = document.baseline, list[TriedBar]()
    for fix in fixes:
        median = fix.median_ns or 0.0
        bars.append(TriedBar(fix.state, median, fix.low_ns or median, fix.high_ns or median))
    return TryPage(
        safe(head),
        TriedBar("untouched", base.median_ns, base.low_ns, base.high_ns),
        bars,
        safe(dataclasses.replace(table, columns=[*table.columns[:-1], change])),
        [safe(each) for each in rest],
        [plain(line) for line in patch.diff.splitlines()] if patch else [],
    )


class WhyKernel(Struct, frozen=True):
    """One kernel: what the terminal says of it, the lines it came from, and its code."""

    title: str
    about: object
    lines: list[tuple[str, str]]
    language: str
    code: str


class WhyPage(Struct, frozen=True):
    """What the script reads."""

    head: object
    sections: list[object]
    kernels: list[WhyKernel]
    left_out: int
    not_fused: list[object]
    kind: str = "why"


def why_data(why: Why) -> WhyPage:
    """What a page shows; kernels that take most time come first."""
    ordered = why_page.by_cost(why)
    _, *tables = why_page.sections(why, {"stages", "kernels", "breaks", "cost"}, TOP_ROWS)
    return WhyPage(
        safe(why_page.head(why)),
        [safe(each) for each in tables if each.filled],
        [
            WhyKernel(
                plain(why_page.kernel_title(row)),
                safe(why_page.kernel_page(why, row)[0]),
                [(plain(line.place), plain(line.code)) for line in row.sources],
                row.language,
                code_text(row.code),
            )
            for row in ordered[:MOST_KERNELS]
        ],
        max(len(ordered) - MOST_KERNELS, 0),
        [safe(each) for each in why_page.not_fused(why, TOP_ROWS)],
    )


def why_html(why: Why) -> str:
    """The page as HTML."""
    return page(plain(why_page.title(why)), why_data(why))
