"""A whole trace document, read as a stream: header, events, tail.

Events are decoded a chunk at a time straight into typed records; a chunk that will not decode is
read again carefully, so damage costs time only where it is. Large plain files are shared out to
worker processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from foretrace.errors import TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import ByteStream
from foretrace.sources.kineto.careful import BOUNDARY, badly_escaped, read_carefully
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.header import find_events, read_header, read_tail
from foretrace.sources.kineto.records import Event, decode_events, decode_exact_events
from foretrace.sources.limits import Limits
from foretrace.sources.sniff import refuse_no_events, refuse_non_json

# large enough that per-chunk cost vanishes, small enough that its objects stay in cache
CHUNK = 256 << 10
_WINDOW = 64 << 10
# real records reach 6.9 kB; larger ones are checked against the limits
_SUSPICIOUS_RECORD = 32 << 10
# An absolute time with decimals: a float near 1.7e15 has steps of a quarter microsecond.
_ABSOLUTE_DECIMAL = re.compile(rb'"ts"\s*:\s*"?(\d{14,16})\.\d*[1-9]')


@dataclass(slots=True)
class Document:
    """What reading gives: columns in file order, and every header entry."""

    columns: list[Columns] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    origin_us: int = 0


class Buffer:
    """Bytes read but not yet understood, and where in the document they start."""

    def __init__(self, blocks: Iterator[bytes], offset: int = 0) -> None:
        self.blocks, self.offset, self.data, self.ended = blocks, offset, b"", False

    def fill(self, size: int) -> None:
        """Hold at least `size` bytes, or all there are."""
        if len(self.data) >= size or self.ended:
            return
        pieces, held = [self.data], len(self.data)
        while held < size:
            block = next(self.blocks, None)
            if block is None:
                self.ended = True
                break
            pieces.append(block)
            held += len(block)
        self.data = b"".join(pieces)

    def drop(self, count: int) -> None:
        self.data = self.data[count:]
        self.offset += count


def read_document(
    stream: ByteStream,
    limits: Limits,
    ledger: LedgerBuilder,
    meanwhile: Callable[[], object] = lambda: None,
) -> Document:
    """Read `stream` to its end. Raises `TraceError` when it cannot be a trace."""
    buffer = Buffer(stream.blocks, stream.plain_start)
    start = _find_start(buffer, stream.label, limits)
    document = Document(header=read_header(start[1], limits, ledger))
    in_object = bool(start[1])
    buffer.drop(start[0])
    document.origin_us = _origin(buffer)
    if stream.plain_path is not None and stream.size is not None:
        from foretrace.sources.kineto.parallel import read_apart  # only needed for plain files

        buffer = read_apart(stream, buffer, limits, ledger, document, meanwhile)
    nothing_yet = not document.columns
    closed = EventReader(buffer, limits, ledger, document).run(first=nothing_yet)
    while closed and _after_events(buffer, in_object, limits, ledger, document):
        closed = EventReader(buffer, limits, ledger, document).run(first=True)
    if not closed and not ledger.counts.get("limit_events"):
        ledger.note("trace_truncated", 0 if ledger.counts.get("trace_truncated") else 1)
    _refuse_if_nothing(document, ledger, stream.label)
    return document


def _find_start(buffer: Buffer, label: str, limits: Limits) -> tuple[int, bytes]:
    """(where the events begin, header text); refuses what is not a trace."""
    size = _WINDOW
    buffer.fill(size)
    while not buffer.data.strip() and not buffer.ended:
        buffer.drop(len(buffer.data))
        buffer.fill(size)
    if not buffer.data.strip():
        raise TraceError(
            "E_EMPTY", label, "empty", offset=0, hint="was the export killed? record again"
        )
    refuse_non_json(label, buffer.data[: 1 << 20], limits.depth)
    while True:
        found = find_events(buffer.data)
        if found is not None:
            break
        if buffer.ended:
            raise refuse_no_events(label, buffer.data, buffer.data.rstrip().endswith((b"}", b"]")))
        if len(buffer.data) > limits.event:
            raise TraceError(
                "E_NO_EVENTS",
                label,
                f"no events in the first {limits.event:,} bytes",
                offset=len(buffer.data),
                hint="raise it with --limit event=NUMBER",
            )
        size *= 4
        buffer.fill(size)
    if found.is_object:
        raise TraceError(
            "E_NO_EVENTS",
            label,
            "`traceEvents` is not a list",
            offset=found.at,
            hint="give a Chrome-trace JSON file as torch.profiler writes it",
        )
    return found.at, found.header


def _after_events(
    buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder, document: Document
) -> bool:
    """Read what follows the list; True when a second `traceEvents` key was found and is to be read
    as well.
    """
    buffer.fill(limits.event)
    tail = read_tail(buffer.data[1:], in_object, limits, ledger)
    for key, value in tail.entries.items():
        document.header[key] = value
    if tail.events_at is not None:
        ledger.note(
            "dup_key", text="`traceEvents` is written twice; the list that is not empty counts"
        )
        buffer.drop(1 + tail.events_at)
        return True
    if tail.truncated:
        ledger.note("trace_truncated")
    if tail.trailing:
        ledger.note(
            "trailing_data",
            text=f"{tail.trailing:,} bytes after the end of the document were ignored",
        )
    return False


def _refuse_if_nothing(document: Document, ledger: LedgerBuilder, label: str) -> None:
    held = sum(len(columns) for columns in document.columns)
    if not held and ledger.skipped and not document.header:
        raise TraceError(
            "E_NO_EVENTS",
            label,
            "a JSON list, but not of trace events",
            offset=0,
            hint="give a Chrome-trace JSON file as torch.profiler writes it",
        )


class EventReader:
    """Reads the list of events from a buffer into the last columns of a document."""

    def __init__(
        self, buffer: Buffer, limits: Limits, ledger: LedgerBuilder, document: Document
    ) -> None:
        self.buffer, self.limits, self.ledger = buffer, limits, ledger
        self.most = limits.events - sum(len(columns) for columns in document.columns)
        self.columns = Columns(document.origin_us)
        self.exact = document.origin_us > 0
        self.full = False  # the limit of events left no room for the next one
        document.columns.append(self.columns)

    def run(self, first: bool) -> bool:
        """True when the list was closed; the buffer then stands at its `]`."""
        while True:
            cut = self._next_cut()
            if cut:
                if self._chunk(self.buffer.data[:cut], first) is not None:
                    return True
                self.buffer.drop(cut)
                first = False
            if not self.full and self.buffer.ended and self._finish(first):
                return True
            if self.full:
                self.ledger.note(
                    "limit_events",
                    text=(
                        f"reading stopped at {self.limits.events:,} events; raise it with "
                        "--limit events=NUMBER"
                    ),
                )
                return False
            if self.buffer.ended:
                return False

    def _room(self) -> int:
        """How many more events the limit leaves room for."""
        return self.most - len(self.columns)

    def _next_cut(self) -> int:
        """The end of the last whole record in the buffer, filling it until there is one; 0 when
        there is none.
        """
        size = CHUNK
        while True:
            self.buffer.fill(size)
            cut = last_boundary(self.buffer.data)
            if cut or self.buffer.ended:
                return cut
            if len(self.buffer.data) > self.limits.event:
                self._skip_huge()
            size = len(self.buffer.data) * 2 + CHUNK

    def _chunk(self, data: bytes, first: bool) -> int | None:
        """Take one stretch of whole records; the place of the closing bracket if it was in there."""
        events = fast_events(data, first, self.limits, self.exact)
        if events is not None and len(events) > self._room():
            events = None
        stated = len(self.columns.sides["comms"]["event"])
        if events is not None and self.columns.add(events, whole=True):
            self.ledger.seen += len(events)
            stated = len(self.columns.sides["comms"]["event"]) - stated
            if stated:
                note_comms(data, events, self.ledger)
            return None
        return self._careful(data, first, last=False)

    def _careful(self, data: bytes, first: bool, last: bool) -> int | None:
        stretch = read_carefully(
            data,
            self.buffer.offset,
            self.limits,
            self.ledger,
            last=last,
            first=first,
            exact=self.exact,
            most=self._room(),
        )
        self.columns.add(stretch.events)
        self.full = stretch.full
        if stretch.ended is not None:
            self.buffer.drop(stretch.ended)
        return stretch.ended

    def _finish(self, first: bool) -> bool:
        if self._careful(self.buffer.data, first, last=True) is not None:
            return True
        self.buffer.drop(len(self.buffer.data))
        return False

    def _skip_huge(self) -> None:
        """A record beyond the limit: step over it to the next record that looks like one, keeping
        little in memory.
        """
        start, size = self.buffer.offset, len(self.buffer.data)
        while not self.buffer.ended:
            self.buffer.drop(max(len(self.buffer.data) - _WINDOW, 0))
            self.buffer.fill(CHUNK)
            match = BOUNDARY.search(self.buffer.data)
            if match:
                self.buffer.drop(match.start() + 1)
                break
        self.ledger.seen += 1
        self.ledger.skipped += 1
        self.ledger.note(
            "limit_event",
            where=(start, max(self.buffer.offset - start, size)),
            text=(
                f"a record beyond {self.limits.event:,} bytes was skipped; --limit event=NUMBER "
                "raises it"
            ),
        )


def last_boundary(data: bytes) -> int:
    """The end of the last record that another one follows, or 0."""
    window = 4 << 10  # a dozen records as they usually are
    while True:
        start = max(len(data) - window, 0)
        last = None
        for match in BOUNDARY.finditer(data, start):
            last = match
        if last is not None:
            return last.start() + 1
        if start == 0:
            return 0
        window *= 8


def _origin(buffer: Buffer) -> int:
    """What times are counted from so that floats hold them exactly; 0 for every current writer."""
    buffer.fill(CHUNK)
    match = _ABSOLUTE_DECIMAL.search(buffer.data[:CHUNK])
    return int(match[1]) if match else 0


def fast_events(
    data: bytes, first: bool, limits: Limits, exact: bool = False
) -> Sequence[Event] | None:
    """The records of a sound stretch, or None when it must be read carefully."""
    body = data.lstrip(b" \t\r\n")
    if not first:
        if not body.startswith(b","):
            return None
        body = body[1:]
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    try:
        decode = decode_exact_events if exact else decode_events
        events: Sequence[Event] = decode(b"[" + body + b"]")
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if _holds_huge_record(body, limits) or badly_escaped(body) else events


def _holds_huge_record(body: bytes, limits: Limits) -> bool:
    """Whether some record is large enough that a limit may be exceeded: then no `"ph"` stands in
    its stretch of bytes.
    """
    size, at = min(_SUSPICIOUS_RECORD, limits.string, limits.event, 7 * limits.args), 0
    while len(body) - at > size:
        found = body.rfind(b'"ph"', at + 1, at + size)
        if found < 0:
            return True
        at = found
    return False


def note_comms(body: bytes, events: Sequence[Event], ledger: LedgerBuilder) -> None:
    """Exporters append communication metadata to kernels that have it already: keys written twice,
    the last one counts.
    """
    stated = [
        event.args for event in events if event.args is not None and event.args.dtype is not None
    ]
    ledger.note("dup_key", body.count(b'"dtype"') - len(stated))
    ledger.note(
        "bigint",
        sum(
            len(bytes(args.comms_id)) > 18 and beyond_64_bits(bytes(args.comms_id))
            for args in stated
        ),
    )


def beyond_64_bits(text: bytes) -> bool:
    digits = text.lstrip(b"-")
    return digits.isdigit() and (len(digits) > 20 or not -(1 << 63) <= int(text) < 1 << 64)
