"""The list of events: decoded a chunk at a time straight into typed records.

A chunk that will not decode is read again carefully, so damage costs time only where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.kineto.careful import BOUNDARY, CarefulReader, badly_escaped
from foretrace.sources.kineto.coerce import beyond_floats, exact_times
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.records import Event, decode_events, decode_exact_events
from foretrace.sources.limits import Limits, raised_by

# large enough that per-chunk cost vanishes, small enough that its objects stay in cache
CHUNK = 256 << 10
WINDOW = 64 << 10
# real records reach 6.9 kB; larger ones are checked against the limits
_SUSPICIOUS_RECORD = 32 << 10


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
        """Forget the first `count` bytes."""
        self.data = self.data[count:]
        self.offset += count


class EventReader:
    """Reads the list of events from a buffer into `columns`, at most `most` of them."""

    def __init__(
        self,
        buffer: Buffer,
        limits: Limits,
        ledger: LedgerBuilder,
        most: int | None = None,
    ) -> None:
        self.buffer, self.limits, self.ledger = buffer, limits, ledger
        self.most = limits.events if most is None else most
        self.columns = Columns()
        self.exact = False  # times were met that a float cannot hold, or that are text
        self.full = False  # the limit of events left no room for the next one

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
                text = f"reading stopped at {self.limits.events:,} events; {raised_by('events')}"
                self.ledger.note("limit_events", text=text)
                return False
            if self.buffer.ended:
                return False

    def _room(self) -> int:
        return self.most - len(self.columns)

    def _next_cut(self) -> int:
        """The end of the last whole record in the buffer, filled until it holds one; else 0."""
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
        """Take one stretch of whole records; the place of the closing bracket if it was there."""
        events = fast_events(data, first, self.limits, self.exact)
        if events and not self.exact and beyond_floats(events):
            self.exact = True
            events = fast_events(data, first, self.limits, exact=True)
        if events is not None and len(events) > self._room():
            events = None
        stated = len(self.columns.sides["comms"]["event"])
        texts = exact_times(events) if events and self.exact else 0
        if events is not None and self.columns.add(events, whole=True):
            self.ledger.seen += len(events)
            self.ledger.note("ts_type", texts)
            stated = len(self.columns.sides["comms"]["event"]) - stated
            if stated:
                _note_comms(data, events, self.ledger)
            return None
        return self._careful(data, first, last=False)

    def _careful(self, data: bytes, first: bool, last: bool) -> int | None:
        reader = CarefulReader(
            data, self.buffer.offset, self.limits, self.ledger, last=last, exact=True
        )
        ended = reader.run(first, self._room())
        self.columns.add(reader.events)
        self.exact |= "ts_type" in self.ledger.counts
        self.full = reader.full
        if ended is not None:
            self.buffer.drop(ended)
        return ended

    def _finish(self, first: bool) -> bool:
        if self._careful(self.buffer.data, first, last=True) is not None:
            return True
        self.buffer.drop(len(self.buffer.data))
        return False

    def _skip_huge(self) -> None:
        """Step over a record beyond the limit, to the next one, keeping little in memory."""
        start, size = self.buffer.offset, len(self.buffer.data)
        while not self.buffer.ended:
            self.buffer.drop(max(len(self.buffer.data) - WINDOW, 0))
            self.buffer.fill(CHUNK)
            match = BOUNDARY.search(self.buffer.data)
            if match:
                self.buffer.drop(match.start() + 1)
                break
        self.ledger.seen += 1
        self.ledger.skipped += 1
        text = f"a record beyond {self.limits.event:,} bytes was skipped; {raised_by('event')}"
        where = start, max(self.buffer.offset - start, size)
        self.ledger.note("limit_event", text=text, where=where)


def last_boundary(data: bytes, stop: int | None = None) -> int:
    """The end of the last record before `stop` that another one follows, or 0."""
    window, stop = 4 << 10, len(data) if stop is None else stop  # a dozen records, usually
    while True:
        start = max(stop - window, 0)
        last = None
        for match in BOUNDARY.finditer(data, start, stop):
            last = match
        if last is not None:
            return last.start() + 1
        if start == 0:
            return 0
        window *= 8


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
    """Whether some record may exceed a limit: then no `"ph"` is in its stretch of bytes."""
    size, at = min(_SUSPICIOUS_RECORD, limits.string, limits.event, 7 * limits.args), 0
    while len(body) - at > size:
        found = body.rfind(b'"ph"', at + 1, at + size)
        if found < 0:
            return True
        at = found
    return False


def _note_comms(body: bytes, events: Sequence[Event], ledger: LedgerBuilder) -> None:
    """Some writers append communication metadata to kernels that have it: keys are there twice."""
    stated = [event.args for event in events if event.args and event.args.dtype is not None]
    ids = [bytes(args.comms_id) for args in stated]
    ledger.note("dup_key", body.count(b'"dtype"') - len(stated))
    ledger.note("bigint", sum(len(text) > 18 and _beyond_64_bits(text) for text in ids))


def _beyond_64_bits(text: bytes) -> bool:
    digits = text.lstrip(b"-")
    return digits.isdigit() and (len(digits) > 20 or not -(1 << 63) <= int(text) < 1 << 64)
