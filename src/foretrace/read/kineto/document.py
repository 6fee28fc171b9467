"""A whole trace document, read as a stream: header, events, tail. Workers decode large files."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from msgspec import Struct, field

from foretrace.base.errors import TraceError
from foretrace.read.bytestream import ByteStream
from foretrace.read.kineto.buffer import Buffer
from foretrace.read.kineto.careful import After
from foretrace.read.kineto.columns import Columns
from foretrace.read.kineto.ending import read_ending
from foretrace.read.kineto.events import EventReader
from foretrace.read.kineto.header import find_events, read_header
from foretrace.read.limits import Limits, raised_by
from foretrace.read.sniff import CHROME_HINT, empty, refuse_no_events, refuse_non_json
from foretrace.schema.ledger import DAMAGE, LedgerBuilder

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
