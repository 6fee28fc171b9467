"""From a file to what the viewer keeps of it.

Reading a trace takes several times the memory that looking at it does. So what is kept is a
`Reading`: the timeline's columns and the facts, plain data. Large files are read in a process of
their own, which gives all it took back when it ends.
"""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from foretrace.model.trace import Trace
from foretrace.opening import open
from foretrace.render.html.changes import MARKS
from foretrace.render.html.report import outline
from foretrace.render.html.story import story
from foretrace.render.html.tables import CONFIG, about
from foretrace.render.html.timeline import Timeline
from foretrace.serve.catalog import Entry
from foretrace.sources.limits import Limits

# a few hundred thousand events, compressed or not: about half a second of reading
LARGE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """One trace as the viewer keeps it: where its events are, their names, and everything else as
    the JSON the page reads.
    """

    timeline: Timeline
    names: list[str]
    facts: bytes


def read(entry: Entry, limits: Limits, cache: bool) -> tuple[Reading, Trace | None]:
    """The reading, and the trace itself where it is small enough to keep."""
    if entry.bytes <= LARGE_BYTES:
        trace = open(entry.path, cache=cache, limits=limits)
        return reading_of(trace, entry.label), trace
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        return apart.submit(_read_apart, entry, limits, cache).result(), None


def _read_apart(entry: Entry, limits: Limits, cache: bool) -> Reading:
    return reading_of(open(entry.path, cache=cache, limits=limits), entry.label)


def reading_of(trace: Trace, label: str) -> Reading:
    known, timeline = about(trace), Timeline(trace)
    shown = outline(timeline, timeline.typical_step) | {"left_out": 0}
    entry = known | {
        "title": label,
        "story": story(known["look"], known["kernels"]),
        "timeline": shown,
    }
    facts = json.dumps(
        {"state": "ready", "entry": entry, "config": CONFIG, "marks": MARKS}, default=str
    ).encode()
    return Reading(timeline, trace.host.names, facts)
