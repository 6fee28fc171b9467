"""From a file to what the viewer keeps of it.

Reading a trace takes several times the memory that looking at it does. So the viewer keeps a
`PreparedTrace`: the timeline's columns and the facts, plain data. Large files are read in a process
of their own, which gives all its memory back when it ends.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import msgspec

from foretrace import opening
from foretrace.model.trace import Trace
from foretrace.render.html.changes import MARKS
from foretrace.render.html.tables import facts
from foretrace.render.html.timeline import CONFIG, Timeline
from foretrace.serve.catalog import Entry
from foretrace.sources.limits import Limits

# a few hundred thousand events, compressed or not: about half a second of reading
LARGE_BYTES = 32 << 20


class PreparedTrace(msgspec.Struct, frozen=True):
    """One trace: where its events are, their names, and the rest as the JSON the page reads."""

    timeline: Timeline
    names: list[str]
    facts: bytes


def read(entry: Entry, limits: Limits, cache: bool) -> tuple[PreparedTrace, Trace | None]:
    """What the viewer keeps, and the trace itself where it is small enough to keep."""
    if entry.bytes <= LARGE_BYTES:
        trace = opening.open(entry.path, cache=cache, limits=limits)
        return prepare(trace, entry.label), trace
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_read_apart, entry, limits, cache).result(), None


def _read_apart(entry: Entry, limits: Limits, cache: bool) -> PreparedTrace:
    return prepare(opening.open(entry.path, cache=cache, limits=limits), entry.label)


def prepare(trace: Trace, label: str) -> PreparedTrace:
    """The timeline and the facts of an open trace."""
    timeline = Timeline(trace)
    entry = facts(trace, label, timeline.outline(timeline.typical_step))
    answer = {"state": "ready", "entry": entry, "config": CONFIG, "marks": MARKS}
    return PreparedTrace(timeline, trace.host.names, msgspec.json.encode(answer, enc_hook=str))
