"""From a file to what the viewer keeps of it; a large one is read in a process of its own.

Reading a trace takes several times the memory that looking at it does. A process gives all of it
back when it ends; meanwhile it says what it is doing.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection

import msgspec

from foretrace.base import budget, notices
from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError
from foretrace.model import opening
from foretrace.model.trace import Trace
from foretrace.show.html.changes import MARKS
from foretrace.show.html.tables import facts
from foretrace.show.html.timeline import CONFIG, Timeline
from foretrace.show.serve.catalog import Entry
from foretrace.show.serve.opened import PreparedTrace
from foretrace.show.serve.ranges import Ranges

# a few hundred thousand events, compressed or not: about half a second of reading
LARGE_BYTES = 32 << 20
EVERY_S = 0.2  # often enough to be seen to move
Say = Callable[[str], None]


def prepared(entry: Entry, limits: Limits, cache: bool) -> tuple[PreparedTrace, Trace]:
    """What the viewer keeps of a trace, and the trace."""
    trace = opening.open(entry.path, cache=cache, limits=limits)
    notices.report("laying out the timeline")
    timeline = Timeline(trace)
    notices.report("applying the rules")
    shown = facts(trace, entry.label, timeline.outline(timeline.typical_step))
    answer = {"state": "ready", "entry": shown, "config": CONFIG, "marks": MARKS}
    kept = msgspec.json.encode(answer, enc_hook=str)
    shorts = {row.name: row.short for row in shown.decoded}
    ranges = Ranges(trace, timeline)
    return PreparedTrace(timeline, trace.host.names, shorts, ranges, kept), trace


def _without_trace(entry: Entry, limits: Limits, cache: bool) -> PreparedTrace:
    with budget.ceiling(entry.path, limits):
        return prepared(entry, limits, cache)[0]


def read(entry: Entry, limits: Limits, cache: bool, say: Say) -> tuple[PreparedTrace, Trace | None]:
    """What the viewer keeps, and the trace itself where it is small enough to keep."""
    if entry.bytes <= LARGE_BYTES:
        return prepared(entry, limits, cache)
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    with receiver, ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(sender,)) as pool:
        reading = pool.submit(_without_trace, entry, limits, cache)
        try:
            return _followed(reading, receiver, say), None
        except BrokenProcessPool:
            what = "the process that read it was ended, perhaps for want of memory"
            raise LimitError("E_TOO_MUCH_MEMORY", entry.path, what) from None
        finally:
            sender.close()


def _followed(reading: Future[PreparedTrace], receiver: Connection, say: Say) -> PreparedTrace:
    with suppress(EOFError, OSError):  # the process has ended: its result says how
        while not reading.done():
            if receiver.poll(EVERY_S):
                say(receiver.recv())
    return reading.result()


def _begin(sender: Connection) -> None:
    """In the process that reads: its ceilings, and reports of what takes time."""
    budget.arm()
    due = 0.0

    def send(text: str) -> None:
        nonlocal due
        if text and time.monotonic() >= due:
            due = time.monotonic() + EVERY_S
            with suppress(OSError):
                sender.send(text)

    notices.show_with(send)
