"""The report of one trace or two: gathers what the page shows, and writes the file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from foretrace.errors import UsageError
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.render.html.changes import MARKS, comparison, marks
from foretrace.render.html.packing import pack
from foretrace.render.html.page import page
from foretrace.render.html.story import story
from foretrace.render.html.tables import CONFIG, about
from foretrace.render.html.timeline import Timeline
from foretrace.render.safe import plain
from foretrace.schema.documents.compare import CompareDocument

# A page of this many events is near 3 MB (6.4 bytes an event); more is a case for
# `foretrace serve`.
MOST_EVENTS = 400_000


def write_report(path: str | os.PathLike[str], traces: Sequence[Trace], **given: Any) -> Path:
    """Write `report(traces, ...)` to `path`: all of it or nothing, and never over one of the
    traces.
    """
    target = Path(path)
    for trace in traces:
        if target.exists() and os.path.exists(trace.path) and target.samefile(trace.path):
            raise UsageError(f"{target} is the trace itself: choose another name for the report")
    text = report(traces, **given)
    try:
        _put(text, target)
    except OSError as problem:
        raise UsageError(
            f"{target} cannot be written: {problem.strerror}; choose another place"
        ) from None
    return target


def _put(text: str, target: Path) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            # a temporary file is private; a report is as open as any other file
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, target)
        except OSError:
            os.unlink(file.name)
            raise


def report(
    traces: Sequence[Trace],
    *,
    step: int | None = None,
    guesses: Mapping[str, Any] | None = None,
    ladder: Mapping[str, Any] | None = None,
) -> str:
    """The report as HTML.

    `step` is the index of the step to open at (the typical one otherwise). `guesses` is the
    document of `foretrace check --json`, `ladder` that of `foretrace ladder --json`.
    """
    if not 1 <= len(traces) <= 2:
        raise UsageError("a report is about one trace or two")
    timelines = [Timeline(trace) for trace in traces]
    compared = comparison(*traces) if len(traces) == 2 else None
    data = {
        "schema": 1,
        "config": CONFIG,
        "marks": MARKS,
        "comparison": None if compared is None else msgspec.to_builtins(compared),
        "guesses": guesses,
        "ladder": ladder,
        "traces": [
            _trace(*each, step, compared) for each in zip(traces, timelines, "ab", strict=False)
        ],
    }
    return page(" and ".join(_title(trace) for trace in traces), data)


def _trace(
    trace: Trace, timeline: Timeline, side: str, step: int | None, compared: CompareDocument | None
) -> dict[str, Any]:
    wanted = timeline.typical_step if step is None else step
    if step is not None and step not in range(len(timeline.steps)):
        raise UsageError(
            f"{trace.path} has {len(timeline.steps)} steps, counted from 0: there is no step {step}"
        )
    rows = _shown(timeline, wanted)
    known = about(trace)
    packed = timeline.packed(rows)
    entry = known | {
        "title": _title(trace),
        "story": story(known["look"], known["kernels"]),
        "timeline": outline(timeline, wanted)
        | {"events": packed, "left_out": len(timeline) - len(rows)},
    }
    if compared is not None:
        entry["timeline"]["marks"] = pack(
            {"mark": marks(compared, trace, side)[timeline.event[rows]]}
        )
    return entry


def outline(timeline: Timeline, step: int | None) -> dict[str, Any]:
    """What a page must know of a timeline before it has any event."""
    return {
        "lanes": [
            {"label": plain(lane.label), "gpu": lane.gpu, "rows": lane.rows}
            for lane in timeline.lanes
        ],
        "end": timeline.end_ns,
        "steps": timeline.steps,
        "step": step,
        "configs": timeline.configs,
    }


def _shown(timeline: Timeline, step: int | None) -> Ints:
    """All events where they fit; else those of one step, and of these the longest."""
    if len(timeline) <= MOST_EVENTS:
        return np.arange(len(timeline))
    rows = np.arange(len(timeline))
    if step is not None:
        rows = timeline.between(timeline.steps[step]["start"], timeline.steps[step]["last"])
    longest = np.argsort(-timeline.length[rows], kind="stable")[:MOST_EVENTS]
    return np.sort(rows[longest])


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _title(trace: Trace) -> str:
    return plain(os.path.basename(trace.path))
