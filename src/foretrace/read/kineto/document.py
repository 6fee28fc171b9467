"""A whole trace document, read as a stream: header, events, tail.

The list of events is decoded a chunk at a time straight into typed records. A chunk that does not
decode is read again carefully, so damage costs time only where it is. Workers decode large files.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.read.bytestream import (
    CHROME_HINT,
    ByteStream,
    empty,
    refuse_no_events,
    refuse_non_json,
)
from foretrace.read.kineto.boundaries import CHUNK, Buffer, last_boundary
from foretrace.read.kineto.careful import After, CarefulReader
from foretrace.read.kineto.columns import Columns, Pools
from foretrace.read.kineto.header import find_events, read_ending, read_header
from foretrace.read.kineto.records import (
    SUSPICIOUS,
    beyond_floats,
    exact_times,
    more_lengths,
    sound_events,
)
from foretrace.schema.ledger import DAMAGE, LedgerBuilder

_PHASE = attrgetter("ph")
_SEPARATOR = regex(rb"[ \t\r\n]*+(,?)")


class EventReader:
    """Reads the list of events from a buffer into `columns`, at most `most` of them.

    The bytes of a `piece` end where a record ends and another one follows.
    """

    def __init__(
        self,
        buffer: Buffer,
        limits: Limits,
        ledger: LedgerBuilder,
        most: int | None = None,
        pools: Pools | None = None,
        *,
        piece: bool = False,
    ) -> None:
        self.buffer, self.limits, self.ledger = buffer, limits, ledger
        self.most = limits.events if most is None else most
        self.columns = Columns(pools)
        self.exact = False  # times were met that a float cannot hold, or that are text
        self.careful = CarefulReader(buffer, limits, ledger, piece=piece)

    def run(self, first: bool) -> bool:
        """True when the list was closed; the buffer then stands at its `]`."""
        self.careful.after = After.START if first else After.RECORD
        at, closed = 0, False
        while not closed and not self.careful.full:
            if len(self.buffer.data) - at < CHUNK:
                self.buffer.drop(at)
                self.buffer.fill(CHUNK)
                at = 0
            if at == len(self.buffer.data):
                break
            at, closed = self._chunk(at)
        self.buffer.drop(at)
        if self.careful.full:
            text = f"reading stopped at {self.limits.events:,} events; {raised_by('events')}"
            self.ledger.note("limit_events", text=text)
        return closed

    def _chunk(self, at: int) -> tuple[int, bool]:
        """Read one stretch: where it ended, and whether the list was closed there."""
        data, reader = self.buffer.data, self.careful
        stop = min(at + 2 * CHUNK, len(data))
        cut = last_boundary(data, at, stop)
        if cut > at and self._fast(data, at, cut):
            reader.after = After.RECORD
            return cut, False
        closed = reader.run(at, cut if cut > at else stop, self.most - len(self.columns))
        self.columns.add(reader.events)
        self.exact |= "ts_type" in self.ledger.counts
        return reader.at, closed

    def _fast(self, data: bytes, at: int, cut: int) -> bool:
        """Take a stretch of whole records, if all of them are sound."""
        separator = _SEPARATOR.match(data, at, cut)
        if not separator or bool(separator[1]) is (self.careful.after is After.START):
            return False
        # one copy of the stretch: it is checked and decoded as a list
        listed = b"".join((b"[", memoryview(data)[separator.end() : cut], b"]"))
        events = sound_events(listed, self.exact)
        if events and not self.exact and beyond_floats(events):
            self.exact = True
            events = sound_events(listed, exact=True)
        if events is None or len(events) > self.most - len(self.columns):
            return False
        if more_lengths(listed, events, self.exact):
            return False
        if _holds_huge_record(listed, self.limits) or not all(map(_PHASE, events)):
            return False
        texts = exact_times(events) if self.exact else 0
        self.columns.add(events, exact=self.exact)
        self.ledger.seen += len(events)
        self.ledger.note("ts_type", texts)
        return True


def _holds_huge_record(body: bytes, limits: Limits) -> bool:
    """Whether some record may exceed a limit: then no `"ph"` is in its stretch of bytes."""
    size, at = min(SUSPICIOUS, limits.string, limits.event, 7 * limits.args), 0
    while len(body) - at > size:
        found = body.rfind(b'"ph"', at + 1, at + size)
        if found < 0:
            return True
        at = found
    return False


_FIRST = 64 << 10  # bytes that tell what a file is
_SCHEMA = 1  # the version that every torch so far has written
_LISTS = 8  # lists of events, or stretches of other writers, beyond the first
_PHASED = 256 << 10  # a list that is no trace is told by so many bytes without a phase


class Document(Struct):
    """What reading gives: columns in file order, and every header entry."""

    columns: list[Columns] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    begun: int = 0  # where the list of events that counts begins


def read_document(
    stream: ByteStream,
    limits: Limits,
    ledger: LedgerBuilder,
    apart: Callable[[ByteStream, Buffer], list[Columns]] = lambda *_: [],
) -> Document:
    """Read `stream` to its end; `apart` may decode most of it elsewhere.

    Raises `TraceError` when it cannot be a trace.
    """
    buffer = Buffer(stream.blocks, stream.start)
    start, header = _find_start(buffer, stream.label, limits)
    document = Document(header=read_header(header, limits, ledger))
    buffer.drop(start)
    if not header:
        _refuse_other_list(buffer, stream.label)
    document.begun = buffer.offset
    document.columns = apart(stream, buffer)
    if not _read_lists(document, buffer, bool(header), limits, ledger):
        ledger.note("trace_truncated", 0 if ledger.counts.get("trace_truncated") else 1)
    _refuse_if_nothing(document, ledger, stream.label)
    ledger.inherit(document.header.get(DAMAGE))
    ledger.note("schema_version", document.header.get("schemaVersion", _SCHEMA) != _SCHEMA)
    return document


def _find_start(buffer: Buffer, label: str, limits: Limits) -> tuple[int, bytes]:
    """(where the events begin, header text); refuses what is not a trace."""
    size = _FIRST
    buffer.fill(size)
    while not buffer.data.strip() and not buffer.ended:
        buffer.drop(len(buffer.data))
        buffer.fill(size)
    if not buffer.data.strip():
        raise empty(label)
    refuse_non_json(label, buffer.data[:_FIRST], limits.depth)
    while True:
        large = len(buffer.data) > limits.event
        found = find_events(buffer.data, last=buffer.ended or large)
        if found is not None:
            break
        if buffer.ended:
            raise refuse_no_events(label, buffer.data, buffer.data.rstrip().endswith((b"}", b"]")))
        if large:
            what, hint = f"no events in the first {limits.event:,} bytes", raised_by("event")
            raise TraceError("E_NO_EVENTS", label, what, offset=len(buffer.data), hint=hint)
        size *= 4
        buffer.fill(size)
    if found.is_object:
        what = "`traceEvents` is not a list"
        raise TraceError("E_NO_EVENTS", label, what, offset=found.at, hint=CHROME_HINT)
    return found.at, found.header


def _read_lists(
    document: Document, buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder
) -> bool:
    """Read the events, the keys behind them, and the events behind those; False when cut short."""
    first = not document.columns
    for again in range(_LISTS, -1, -1):
        lists, begun, before = len(document.columns), buffer.offset, copy(ledger)
        room = limits.events - sum(map(len, document.columns))
        reader = EventReader(buffer, limits, ledger, room)
        document.columns.append(reader.columns)
        closed = reader.run(first)
        if first and len(reader.columns) and any(map(len, document.columns[:lists])):
            _forget(document, lists, before, ledger)
            ledger.leave(document.begun, begun - document.begun)
            document.begun = begun
        if not closed:
            return reader.careful.full
        ending = read_ending(buffer, in_object, limits, ledger, again=again > 0)
        own = first or again == _LISTS  # not of another writer
        entries = ending.entries
        document.header = document.header | entries if own else entries | document.header
        if ending.goes_on is None:
            break
        first = ending.goes_on is After.START
    return True


def _forget(document: Document, lists: int, before: LedgerBuilder, ledger: LedgerBuilder) -> None:
    """Of two lists the last counts: the records of the first `lists` are skipped."""
    del document.columns[:lists]
    ledger.skipped += before.seen - before.skipped
    ledger.repaired -= before.repaired


def _refuse_other_list(buffer: Buffer, label: str) -> None:
    """A list whose records have no phase is no trace, and is not read to its end."""
    buffer.fill(_PHASED)
    body = buffer.data[:_PHASED].lstrip()
    if body and not body.startswith(b"]") and b'"ph"' not in body:
        raise _no_events(label)


def _refuse_if_nothing(document: Document, ledger: LedgerBuilder, label: str) -> None:
    if not any(map(len, document.columns)) and ledger.skipped and not document.header:
        raise _no_events(label)


def _no_events(label: str) -> TraceError:
    what = "a JSON list, but not of trace events"
    return TraceError("E_NO_EVENTS", label, what, offset=0, hint=CHROME_HINT)
