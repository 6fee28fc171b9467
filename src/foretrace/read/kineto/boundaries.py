"""Bytes that were read but not yet understood, and where records begin and end in them.

A sound record ends where its brackets are balanced. In damaged bytes the habit of the writer
counts: `},` and then `{` with a key that begins an event, or the end of the list. Such a place is a
*stop*. Each question is answered in one pass over the bytes of the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from foretrace.base.budget import Limits
from foretrace.base.patterns import regex

# large enough that per-chunk cost vanishes, small enough that its objects stay in cache
CHUNK = 256 << 10


class Buffer:
    """`data` starts at byte `offset` of the document; `ended`: no more bytes will come."""

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


_FIRST = rb'\{\s*+"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*+:'
# possessive: a megabyte of blanks is read once
BOUNDARY = regex(rb"\}\s*+(?:,\s*+)?(?=" + _FIRST + rb")")
FIRST_KEY = regex(_FIRST)
FIRST_RECORD = regex(rb"\[[\s,]*+" + _FIRST)
# a record that begins where no value of another record can begin
_BEGINS = regex(rb"[:\[]\s*+\{|(" + _FIRST + rb")")
_TAIL_KEY = (
    rb'"(?:traceName|displayTimeUnit|baseTimeNanoseconds|schemaVersion|deviceProperties'
    rb'|distributedInfo|record_shapes|profile_memory|with_\w{1,9}|traceEvents)"\s*+:'
)
_STOPS = rb"\}\s*+(?:(?:,\s*+)?(?=" + _FIRST + rb")|(?=\]\s*+(?:,\s*+" + _TAIL_KEY + rb"%s)))"
_OTHER_LIST = rb'|"traceEvents"\s*+:\s*+\['
_STOP = regex(_STOPS % b"" + _OTHER_LIST)
_LAST_STOP = regex(_STOPS % rb"|(?:\}\s*+)?\Z" + _OTHER_LIST)
_LIST_END = regex(rb'\}\s*+(?=\]\s*+(?:,\s*+"|\}|\Z))')
HOLE = regex(rb"\0{4}")  # a block that was never written; one NUL may stand in a name
# group 1 is empty when the string has no end
TOKEN = regex(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)
OTHER_HEADER = regex(rb'"(?:schemaVersion|traceEvents|deviceProperties)"\s*+:')
_BLANKS = regex(rb"\s*+")
OBJECT, CLOSED, LIST, LIST_CLOSED, QUOTE = b'{}[]"'
_CLOSES = {CLOSED: OBJECT, LIST_CLOSED: LIST}
_REAL_DEPTH = 8  # of records; public traces have 6
_LONG_BLANK = 64 << 10
_OPENING = b"{["
_AFTER_VALUE = b",{]/\0"  # a comment and a hole of zeros may follow, too


class Undecided(Exception):
    """The answer lies behind the bytes at hand."""


class _Next:
    """The next match of a pattern; asked in rising places, it reads the data once."""

    def __init__(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        self.pattern, self.data = pattern, data
        self.asked = len(data) + 1
        self.found: re.Match[bytes] | None = None

    def match(self, at: int) -> re.Match[bytes] | None:
        """The first match that begins at `at` or behind it."""
        if self.asked > at or (self.found is not None and self.found.start() < at):
            self.asked, self.found = at, self.pattern.search(self.data, at)
        return self.found


class Patience:
    """How often a value is followed into depths, or into a list of records, that never end."""

    left = 64


class Bounds:
    """Ends of records in `data`. `last`: nothing follows; `piece`: a record follows."""

    def __init__(
        self, data: bytes, limits: Limits, patience: Patience, *, last: bool, piece: bool
    ) -> None:
        self.data, self.limits, self.last, self.piece = data, limits, last, piece
        self.patience = patience
        self.stops = _Next(_LAST_STOP if last else _STOP, data)
        self.list_ends, self.holes = _Next(_LIST_END, data), _Next(HOLE, data)

    def stop(self, at: int) -> int | None:
        """The end of the first record at or behind `at` that its writer closed."""
        match = self.stops.match(at)
        if match is None:
            return len(self.data) if self.piece else None
        return match.start() + 1 if match[0][:1] == b"}" else match.end()

    def hole(self, at: int, end: int) -> int | None:
        """Where a block of zeros begins before `end`."""
        match = self.holes.match(at)
        return match.start() if match is not None and match.start() < end else None

    def balanced(self, at: int) -> int | None:
        """The end of the value at `at`; None when its brackets or strings are broken."""
        open_, first, whole = bytearray(), self.stop(at) or 0, True
        stop = first or None
        for match in TOKEN.finditer(self.data, at):
            start, end = match.span()
            while stop is not None and stop < end:
                if start < stop or self._torn(open_, stop):
                    self.patience.left -= stop > first
                    return None
                stop = self.stop(stop)
            token = self.data[start]
            if token == QUOTE:
                whole = bool(match[1])
                if not whole:
                    break
            elif token in _OPENING:
                open_.append(token)
                if len(open_) > (self.limits.depth if self.patience.left > 0 else _REAL_DEPTH):
                    self.patience.left -= 1
                    return None
            elif not open_ or open_.pop() != _CLOSES[token]:
                return None
            elif not open_:
                return end
        more = stop == len(self.data) if self.piece else stop is None and not self.last
        if not more or (stop is not None and not whole):
            return None
        if stop is not None and self._torn(open_, stop):
            return None
        raise Undecided

    def _torn(self, open_: bytearray, stop: int) -> bool:
        """Whether no sound record can go on behind a stop: only a list holds further records."""
        if not self.patience.left > 0 or not open_ or open_[-1] != LIST:
            return True
        return self.data[stop - 1] == LIST and len(open_) == 2  # the list of another document

    def followed_well(self, end: int) -> bool:
        """Whether what follows a value may follow one."""
        at = _BLANKS.match(self.data, end).end()  # type: ignore[union-attr]
        if at == len(self.data):
            if self.last or self.piece or at - end > _LONG_BLANK:
                return True
            raise Undecided
        return self.data[at] in _AFTER_VALUE

    def end_of_damage(self, at: int) -> int:
        """Where reading goes on: the first stop, the end of the list, or the end of the data."""
        stop = self.stop(at)
        while stop is not None and self._in_header(at, stop):
            stop = self.stop(stop)
        if stop is not None:
            return stop
        if not self.last:
            raise Undecided
        match = self.list_ends.match(at)
        return match.start() + 1 if match is not None else len(self.data)

    def _in_header(self, at: int, stop: int) -> bool:
        """Whether the list that ends at `stop` is one of another writer's header."""
        closes = _BLANKS.match(self.data, stop)
        ended = closes is not None and self.data[closes.end() : closes.end() + 1] == b"]"
        return ended and OTHER_HEADER.search(self.data, at, stop) is not None

    def next_record(self, at: int) -> int:
        """Where a record begins or ends behind bytes that belong to none."""
        stop = self.stop(at)
        for match in _BEGINS.finditer(self.data, at, len(self.data) if stop is None else stop):
            if match[1]:
                return match.start(1)
        return self.end_of_damage(at)


def last_boundary(data: bytes, start: int, stop: int) -> int:
    """The end of the last record in `data[start:stop]` that another one follows, or `start`."""
    window = 4 << 10  # a dozen records, usually
    while True:
        begin = max(stop - window, start)
        last = None
        for match in BOUNDARY.finditer(data, begin, stop):
            last = match
        if last is not None:
            return last.start() + 1
        if begin == start:
            return start
        window *= 8
