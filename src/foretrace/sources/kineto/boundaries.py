"""Where records begin and end, in bytes that may be damaged.

A sound record ends where its brackets are balanced. In damage the writer's own habit counts: `},`
and then `{` with a key that begins an event, or the end of the list. Such a place is a *stop*.
Each question is answered in one pass over the bytes of the record.
"""

from __future__ import annotations

import re

from foretrace.sources.limits import Limits

_FIRST = rb'\{\s*+"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*+:'
# possessive: a megabyte of blanks is read once
BOUNDARY = re.compile(rb"\}\s*+(?:,\s*+)?(?=" + _FIRST + rb")")
FIRST_KEY = re.compile(_FIRST)
FIRST_RECORD = re.compile(rb"\[[\s,]*+" + _FIRST)
# a record that begins where no value of another record can begin
_BEGINS = re.compile(rb"[:\[]\s*+\{|(" + _FIRST + rb")")
_TAIL_KEY = (
    rb'"(?:traceName|displayTimeUnit|baseTimeNanoseconds|schemaVersion|deviceProperties'
    rb'|distributedInfo|record_shapes|profile_memory|with_\w{1,9}|traceEvents)"\s*+:'
)
_STOPS = rb"\}\s*+(?:(?:,\s*+)?(?=" + _FIRST + rb")|(?=\]\s*+(?:,\s*+" + _TAIL_KEY + rb"%s)))"
_OTHER_LIST = rb'|"traceEvents"\s*+:\s*+\['
_STOP = re.compile(_STOPS % b"" + _OTHER_LIST)
_LAST_STOP = re.compile(_STOPS % rb"|(?:\}\s*+)?\Z" + _OTHER_LIST)
_LIST_END = re.compile(rb'\}\s*+(?=\]\s*+(?:,\s*+"|\}|\Z))')
# group 1 is empty when the string has no end
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)
OTHER_HEADER = re.compile(rb'"(?:schemaVersion|traceEvents|deviceProperties)"\s*+:')
_BLANKS = re.compile(rb"\s*+")
OBJECT, CLOSED, LIST, LIST_CLOSED, QUOTE = b'{}[]"'
_CLOSES = {CLOSED: OBJECT, LIST_CLOSED: LIST}
_LONG_BLANK = 64 << 10
_OPENING = b"{["
_AFTER_VALUE = b",{]/\0"  # a comment and a hole of zeros may follow, too


class Undecided(Exception):
    """The answer lies behind the bytes at hand."""


class _Next:
    """The next match of a pattern; asked in rising places, it reads the data once."""

    def __init__(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        self.pattern, self.data = pattern, data
        self.asked, self.found = len(data) + 1, -1

    def at(self, at: int) -> int:
        """The place behind the first byte of the match (behind a `}`), or -1."""
        if self.asked <= at and (self.found < 0 or self.found > at):
            return self.found
        match = self.pattern.search(self.data, at)
        self.asked, self.found = at, -1
        if match is not None:
            self.found = match.start() + 1 if match[0][:1] == b"}" else match.end()
        return self.found


class Bounds:
    """Ends of records in `data`. `last`: nothing follows; `piece`: a record follows."""

    def __init__(self, data: bytes, limits: Limits, *, last: bool, piece: bool) -> None:
        self.data, self.limits, self.last, self.piece = data, limits, last, piece
        self.stops = _Next(_LAST_STOP if last else _STOP, data)
        self.list_ends = _Next(_LIST_END, data)

    def stop(self, at: int) -> int | None:
        """The end of the first record at or behind `at` that its writer closed."""
        found = self.stops.at(at)
        if found < 0:
            return len(self.data) if self.piece else None
        return found

    def balanced(self, at: int) -> int | None:
        """The end of the value at `at`; None when its brackets or strings are broken."""
        open_, stop, whole = bytearray(), self.stop(at), True
        for match in _TOKEN.finditer(self.data, at):
            start, end = match.span()
            while stop is not None and stop < end:
                if start < stop or self._torn(open_, stop):
                    return None
                stop = self.stop(stop)
            token = self.data[start]
            if token == QUOTE:
                whole = bool(match[1])
                if not whole:
                    break
            elif token in _OPENING:
                open_.append(token)
            elif not open_ or open_.pop() != _CLOSES[token]:
                return None
            elif not open_:
                return end
        if not self._more_may_follow(stop) or (stop is not None and not whole):
            return None
        if stop is not None and self._torn(open_, stop):
            return None
        raise Undecided

    def _torn(self, open_: bytearray, stop: int) -> bool:
        """Whether no sound record can go on behind a stop: only a list holds further records."""
        if not open_ or open_[-1] != LIST or len(open_) > self.limits.depth:
            return True
        return self.data[stop - 1] == LIST and len(open_) == 2  # the list of another document

    def _more_may_follow(self, stop: int | None) -> bool:
        return stop == len(self.data) if self.piece else stop is None and not self.last

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
        found = self.list_ends.at(at)
        return found if found >= 0 else len(self.data)

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
