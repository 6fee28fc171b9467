"""A whole trace document, read as a stream: header, events, tail.

The list of events is decoded a chunk at a time straight into typed records. A chunk that does not
decode is read again carefully (`damage.py`), so damage costs time only where it is. Workers decode
large files.

The document around the events: keys before and after them, and where their list begins.

Header entries that are not valid JSON (torch 2.13 writes user metadata with its escapes undone) are
repaired when that is safe and kept as raw text otherwise; one bad entry never costs another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Any

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
from foretrace.read.kineto.records import (
    CHUNK,
    FIRST_KEY,
    SUSPICIOUS,
    TOKEN,
    After,
    Buffer,
    Columns,
    Pools,
    beyond_floats,
    exact_times,
    last_boundary,
    more_lengths,
    sound_events,
)
from foretrace.read.ledger import DAMAGE, LedgerBuilder

if TYPE_CHECKING:
    from foretrace.read.kineto.damage import CarefulReader

EVENTS_KEY = regex(rb'"traceEvents"\s*+:\s*+([\[{])')
# torch begins every record with its phase
RECORD = regex(rb'\}\s*+(?:,\s*+)?(?=\{\s*+"ph"\s*+:)')
_BLANKS = b" \t\r\n"
_LONE = regex("[\ud800-\udfff]")
_CLOSING = {b"{": b"}", b"[": b"]"}


class EventsStart(Struct, frozen=True):
    """Where the list of events opens, the text before it, and whether it is an object instead."""

    at: int
    header: bytes
    is_object: bool = False


class Skeleton(Struct, frozen=True):
    """What one pass over an object finds: its list of events, or its end, or what is still open.

    `open` is None inside a string.
    """

    events: EventsStart | None = None
    end: int | None = None
    open: bytes | None = None
    broken: bool = False


def skeleton(text: bytes, stop: int | None = None) -> Skeleton:
    """Look for the key `traceEvents` of the object that begins `text`, and for its end."""
    open_: list[bytes] = []
    for match in TOKEN.finditer(text, 0, len(text) if stop is None else stop):
        token = match[0]
        if token in _CLOSING:
            open_.append(token)
        elif token in (b"}", b"]"):
            if not open_ or _CLOSING[open_.pop()] != token:
                return Skeleton(broken=True)
            if not open_:
                return Skeleton(end=match.end())
        elif not match[1]:
            return Skeleton()
        elif len(open_) == 1 and (key := EVENTS_KEY.match(text, match.start())):
            before = text[: match.start()]
            return Skeleton(EventsStart(key.end(), before, key[1] == b"{"))
    return Skeleton(open=b"".join(open_))


def find_events(buffer: bytes, last: bool) -> EventsStart | None:
    """The first `traceEvents` key at the top level; the first at all when the header is damaged.

    None when it may still come, or when there is none: `last` says that nothing follows.
    """
    body = buffer.lstrip(b" \t\r\n")
    if body.startswith(b"["):
        return EventsStart(len(buffer) - len(body) + 1, b"")
    found = skeleton(buffer)
    if found.events is not None and _strict(found.events.header) is not None:
        return found.events
    first = EVENTS_KEY.search(buffer)
    if first is None or (found.events is None and _nested(buffer, first.start(), found, last)):
        return None
    return EventsStart(first.end(), buffer[: first.start()], first[1] == b"{")


def _nested(text: bytes, key: int, found: Skeleton, last: bool) -> bool:
    """Whether the key stands deeper in a document that is sound as far as it goes."""
    if found.end is not None:
        return key < found.end and _strict(text[: found.end - 1]) is not None
    opened = skeleton(text, key).open
    if last or not opened or len(opened) < 2:
        return False
    closing = b"".join(_CLOSING[bytes([bracket])] for bracket in reversed(opened[1:]))
    return _strict(_without_comma(text[:key]) + closing) is not None


def _without_comma(text: bytes) -> bytes:
    return text.rstrip(_BLANKS).removesuffix(b",").rstrip(_BLANKS)


def read_header(text: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    """The keys of an object whose text may stop after any entry."""
    if not text.strip():
        return {}
    if not text.rstrip(_BLANKS).endswith((b",", b"{")):
        ledger.note("repaired_header")
    strict = _strict(text)
    if strict is not None:
        entries, repeated = strict
        ledger.note("dup_key", repeated)
        return entries
    return _repaired(text, limits, ledger)


def _strict(text: bytes) -> tuple[dict[str, Any], int] | None:
    """The entries and how many keys were written twice; None when the text is no sound JSON."""
    repeated = 0

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated += len(items) - len({key for key, _ in items})
        return dict(items)

    try:
        found = json.loads(_without_comma(text) + b"}", object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or (b"\\u" in text and _LONE.search(str(found))):
        return None
    return found, repeated


class Tail(Struct, frozen=True):
    """What follows the events up to `end`: more keys, and perhaps a second list of events."""

    entries: dict[str, Any]
    end: int
    events_follow: bool = False
    truncated: bool = False


def read_tail(text: bytes, last: bool, limits: Limits, ledger: LedgerBuilder) -> Tail | None:
    """The keys behind the `]` that `text` begins with; None when more bytes are needed."""
    body = text[1:].lstrip(b", \t\r\n")
    commas = text.count(b",", 0, len(text) - len(body)) - body.startswith(b'"')
    opened = b"{" + body
    shift = len(opened) - len(text)
    found = skeleton(opened)
    if found.events is not None and not found.events.is_object:
        ledger.note("trailing_comma", commas)
        entries = read_header(found.events.header, limits, ledger)
        return Tail(entries, found.events.at - shift, events_follow=True)
    if found.end is not None and (strict := _strict(opened[: found.end - 1])):
        stray = opened[: found.end - 1].rstrip().endswith(b",")
        ledger.note("trailing_comma", commas + stray)
        ledger.note("dup_key", strict[1])
        return Tail(strict[0], found.end - shift)
    record = RECORD.search(text)
    if not last and not (found.broken and record):
        return None
    if record is not None:  # another writer's records follow
        entries = _repaired(opened[: record.start() + len(opened) - len(text)], limits, ledger)
        return Tail(entries, 1)
    cut = not opened.rstrip().endswith(b"}")
    entries = _repaired(opened, limits, LedgerBuilder() if cut else ledger)
    return Tail(entries, len(text), truncated=cut)


def _repaired(text: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    from foretrace.read.kineto.damage import repair_header

    return repair_header(text, limits, ledger)


_TAIL = 4 << 10  # the keys that current writers put there are far shorter
_KEPT = 64 << 10  # what is looked at again when more bytes come


def read_ending(
    buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder, *, again: bool
) -> tuple[dict[str, Any], After | None]:
    """The keys behind the `]` that closed the events, and what the events that follow come after.

    With `again`, more events may be read: of a new list, or of the same.
    """
    entries: dict[str, Any] = {}
    if not in_object:
        buffer.drop(1)
    else:
        tail = _tail(buffer, limits, ledger)
        buffer.drop(tail.end)
        entries = tail.entries
        ledger.note("trace_truncated", tail.truncated)
        if tail.events_follow:
            text = "`traceEvents` is written twice; the last list that is not empty counts"
            ledger.note("dup_key", text=text)
            if again:
                return entries, After.START
    return entries, After.RECORD if _trailing(buffer, ledger, again) else None


def _tail(buffer: Buffer, limits: Limits, ledger: LedgerBuilder) -> Tail:
    size = _TAIL
    while True:
        buffer.fill(size)
        text = buffer.data[:size]
        last = size > limits.event or (buffer.ended and len(text) == len(buffer.data))
        tail = read_tail(text, last, limits, ledger)
        if tail is not None:
            return tail
        size *= 4


def _trailing(buffer: Buffer, ledger: LedgerBuilder, again: bool) -> bool:
    """Step over what follows the document; True where the records of another writer begin."""
    _skip_blanks(buffer)
    begin, end, records = buffer.offset, buffer.offset, False
    whole = buffer.data[:1] in (b"{", b"[") and not FIRST_KEY.match(buffer.data)
    while buffer.data:
        found = RECORD.search(buffer.data) if again and not whole else None
        if found is not None:
            ledger.note("interleaved_writers")
            ledger.leave(begin, buffer.offset + found.start() + 1 - begin)
            buffer.drop(found.start() + 1)
            return True
        records = records or b'"ph"' in buffer.data
        end = max(end, buffer.offset + len(buffer.data.rstrip()))
        if buffer.ended:
            break
        kept = min(len(buffer.data), _KEPT)
        buffer.drop(len(buffer.data) - kept)
        buffer.fill(kept + CHUNK)
    if end > begin:
        text = f"{end - begin:,} bytes after the end of the document were ignored"
        ledger.note("trailing_data", text=text)
        if records:
            ledger.leave(begin, end - begin)
    return False


def _skip_blanks(buffer: Buffer) -> None:
    while True:
        buffer.drop(len(buffer.data) - len(buffer.data.lstrip()))
        if buffer.data or buffer.ended:
            buffer.fill(_KEPT)
            return
        buffer.fill(CHUNK)


_PHASE = attrgetter("ph")
_SEPARATOR = regex(rb"[ \t\r\n]*+(,?)")
# the last record, the end of the list, and what goes on behind it
_LAST = regex(rb'\}\s*+\]\s*+(?:(,\s*+"|\})|\Z)')


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
        self.piece, self.after, self.full = piece, After.START, False
        self.careful: CarefulReader | None = None  # of the first damage on

    def run(self, first: bool) -> bool:
        """True when the list was closed; the buffer then stands at its `]`."""
        self.after = After.START if first else After.RECORD
        at, closed = 0, False
        while not closed and not self.full:
            if len(self.buffer.data) - at < CHUNK:
                self.buffer.drop(at)
                self.buffer.fill(CHUNK)
                at = 0
            if at == len(self.buffer.data):
                break
            at, closed = self._chunk(at)
        self.buffer.drop(at)
        if self.full:
            text = f"reading stopped at {self.limits.events:,} events; {raised_by('events')}"
            self.ledger.note("limit_events", text=text)
        return closed

    def _chunk(self, at: int) -> tuple[int, bool]:
        """Read one stretch: where it ended, and whether the list was closed there."""
        data = self.buffer.data
        stop = min(at + 2 * CHUNK, len(data))
        cut = last_boundary(data, at, stop)
        if cut > at and self._fast(data, at, cut):
            self.after = After.RECORD
            return cut, False
        if (end := self._end_of_list(data, at, stop)) and self._fast(data, at, end):
            return data.index(b"]", end), True
        from foretrace.read.kineto.damage import CarefulReader

        if self.careful is None:
            self.careful = CarefulReader(self.buffer, self.limits, self.ledger, piece=self.piece)
        reader = self.careful
        reader.after = self.after
        closed = reader.run(at, cut if cut > at else stop, self.most - len(self.columns))
        self.after, self.full = reader.after, reader.full
        self.columns.add(reader.events)
        self.exact |= "ts_type" in self.ledger.counts
        return reader.at, closed

    def _end_of_list(self, data: bytes, at: int, stop: int) -> int:
        """The end of the record that may be the last one; 0 where none is."""
        match = None if self.piece else _LAST.search(data, at, stop)
        if match is None or (match[1] is None and not (self.buffer.ended and stop == len(data))):
            return 0
        return match.start() + 1

    def _fast(self, data: bytes, at: int, cut: int) -> bool:
        """Take a stretch of whole records, if all of them are sound."""
        separator = _SEPARATOR.match(data, at, cut)
        if not separator or bool(separator[1]) is (self.after is After.START):
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
WORTHWHILE = 24 << 20  # below this a fork costs about what it saves (measured on two cores)
_SCHEMA = 1  # the version that every torch so far has written
_LISTS = 8  # lists of events, or stretches of other writers, beyond the first
_PHASED = 256 << 10  # a list that is no trace is told by so many bytes without a phase


class ReadAlone(Exception):
    """Workers cannot answer for this file: it is read again in one process."""


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
        # a list whose records have no phase is no trace, and is not read to its end
        buffer.fill(_PHASED)
        body = buffer.data[:_PHASED].lstrip()
        if body and not body.startswith(b"]") and b'"ph"' not in body:
            raise _no_events(stream.label)
    document.begun = buffer.offset
    document.columns = apart(stream, buffer)
    if not _read_lists(document, buffer, bool(header), limits, ledger):
        ledger.note("trace_truncated", 0 if ledger.counts.get("trace_truncated") else 1)
    left_out = ledger.skipped or ledger.counts.get("limit_events")
    if not any(map(len, document.columns)) and not (document.header and left_out):
        raise _no_events(stream.label)
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
            # of two lists the last counts: the records of the first `lists` are skipped
            del document.columns[:lists]
            ledger.skipped += before.seen - before.skipped
            ledger.repaired -= before.repaired
            ledger.leave(document.begun, begun - document.begun)
            document.begun = begun
        if not closed:
            return reader.full
        entries, goes_on = read_ending(buffer, in_object, limits, ledger, again=again > 0)
        own = first or again == _LISTS  # not of another writer
        document.header = document.header | entries if own else entries | document.header
        if goes_on is None:
            break
        first = goes_on is After.START
    return True


def _no_events(label: str) -> TraceError:
    what = "JSON without a trace event"
    return TraceError("E_NO_EVENTS", label, what, offset=0, hint=CHROME_HINT)
