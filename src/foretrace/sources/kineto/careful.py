"""Reads a damaged stretch of events record by record: keeps what is complete, repairs what it can.

A record's end is looked for in two ways. The first is the writer's own habit: `},` and then `{`
with a key that begins an event; broken quoting inside a record cannot hide that. The second, when
the first does not parse, is counting brackets.
"""

from __future__ import annotations

import re

import msgspec

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.kineto.coerce import coerce
from foretrace.sources.kineto.records import Event, decode_any, decode_any_exact
from foretrace.sources.limits import Limits

_FIRST_KEYS = rb'"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*:'
# possessive: a megabyte of blanks is read once
BOUNDARY = re.compile(rb"\}\s*+(?:,\s*+)?(?=\{\s*+" + _FIRST_KEYS + rb")")
ARRAY_END = re.compile(rb'\]\s*(?:,\s*"|\}|$)')
_LAST_END = re.compile(rb'\}\s*(?=\]\s*(?:,\s*"|\}\s*$|$))')
# possessive: a long string must not fill the stack
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
_JUNK = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^,\]{}"]+|[^\s]', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[:,\[\s]-?\d{19,}\s*[,}\]]")  # may not fit 64 bits
_ESCAPES = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')  # group 1: escapes nothing
_OTHER_HEADER = re.compile(rb'"(?:schemaVersion|traceEvents|deviceProperties)"\s*:')


class CarefulReader:
    """Reads `data` into `events`; `full` says that there was one event more than wanted.

    `data` starts at byte `offset` of the document; `last` says that no more bytes will come.
    """

    def __init__(
        self,
        data: bytes,
        offset: int,
        limits: Limits,
        ledger: LedgerBuilder,
        *,
        last: bool,
        exact: bool,
    ) -> None:
        self.data, self.offset, self.last, self.exact = data, offset, last, exact
        self.limits, self.ledger = limits, ledger
        self.decode = decode_any_exact if exact else decode_any
        self.events: list[Event] = []
        self.full = False

    def run(self, first: bool, most: int) -> int | None:
        """Read at most `most` events; returns where their list ends. `first`: none came before."""
        at = 0
        while not self.full:
            at, stray = self._separators(at, first)
            first = False
            if at >= len(self.data):
                break
            if self.data[at] == 0x5D:  # ]
                if ARRAY_END.match(self.data, at):
                    self.ledger.note("trailing_comma", stray)
                    return at
                self.ledger.note("trailing_comma", text="a stray ] between events was ignored")
                at += 1
            elif len(self.events) >= most:
                self.full = True
            elif self.data[at] == 0x7B:  # {
                at = self._record(at)
            else:
                at = self._junk(at)
        return None

    def _separators(self, at: int, first: bool) -> tuple[int, int]:
        """Where the next value starts, and the number of stray commas before a closing bracket."""
        match = _SEPARATORS.match(self.data, at)
        assert match is not None
        commas = match[0].count(b",")
        closing = self.data[match.end() : match.end() + 1] == b"]"
        extra = commas if first or closing else commas - 1
        if extra > 0 and not closing and match.end() < len(self.data):
            self.ledger.note("trailing_comma", extra)
        return match.end(), max(extra, 0) if closing else 0

    def _record(self, at: int) -> int:
        boundary = BOUNDARY.search(self.data, at)
        habit = boundary.start() + 1 if boundary else None
        if habit is not None and self._take(at, habit):
            return habit
        counted = self._balanced(at)
        if counted is not None and counted != habit and self._take(at, counted):
            return counted
        if habit is None and counted is not None and not self._broken_end(counted):
            habit = counted
        elif habit is None and (last := _LAST_END.search(self.data, at)):
            habit = last.start() + 1
        if habit is None:
            return self._cut(at)
        self._repaired(at, habit)
        return habit

    def _broken_end(self, counted: int) -> bool:
        """Whether counting brackets ended where no record can end."""
        match = _SEPARATORS.match(self.data, counted)
        assert match is not None
        return self.data[match.end() : match.end() + 1] not in (b"", b"]", b"{")

    def _take(self, start: int, end: int) -> bool:
        """Keep `data[start:end]` if it is one sound record."""
        piece = self.data[start:end]
        if badly_escaped(piece) or self._exceeded(piece):
            return False
        try:
            found = self.decode(piece)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if not isinstance(found, dict):
            return False
        args = found.get("args")
        many = isinstance(args, dict) and len(args) > self.limits.args
        # the slow reader counts keys written twice, and drops what is nested too deeply
        odd = piece.count(b'"dtype"') > 1 or _LONG_NUMBER.search(piece) or not found
        if many or odd or not _shallow(found, self.limits.depth):
            return False
        self.ledger.seen += 1
        self.events.append(coerce(found, self.ledger))
        return True

    def _exceeded(self, piece: bytes) -> str | None:
        """The limit of size that a record exceeds."""
        most = self.limits.string
        if len(piece) > self.limits.event:
            return "limit_event"
        if len(piece) > most and any(len(match[0]) > most for match in _TOKEN.finditer(piece)):
            return "limit_string"
        return None

    def _repaired(self, start: int, end: int) -> None:
        from foretrace.sources.kineto.repair import Unrepairable, repair

        piece = self.data[start:end]
        self.ledger.seen += 1
        try:
            if exceeded := self._exceeded(piece):
                raise Unrepairable(exceeded)
            found, repaired = repair(piece, self.limits, self.ledger, self.exact)
            if not isinstance(found, dict) or not found:
                raise Unrepairable("ts_missing" if found == {} else "event_unparsable")
        except Unrepairable as error:
            self._skip(start, end, error.code)
            return
        if repaired:
            self.ledger.repaired += 1
            self.ledger.note("repaired_string", where=(self.offset + start, len(piece)))
        self.events.append(coerce(found, self.ledger))

    def _skip(self, start: int, end: int, code: str) -> None:
        self.ledger.skipped += 1
        self.ledger.note(code, where=(self.offset + start, end - start))
        if _OTHER_HEADER.search(self.data, start, end):
            self.ledger.note("interleaved_writers")

    def _junk(self, at: int) -> int:
        """Something that is not an object where an event should be: one skipped record."""
        end = self._balanced(at) if self.data[at] == 0x5B else None
        if end is None:
            match = _JUNK.match(self.data, at)
            assert match is not None
            end = match.end()
            if self.data[at] not in b'"-0123456789tfn':
                following = BOUNDARY.search(self.data, at)
                end = max(end, following.end() if following else len(self.data))
        self.ledger.seen += 1
        self._skip(at, end, "event_unparsable")
        return end

    def _balanced(self, at: int) -> int | None:
        """The end of the value at `at` by counting brackets; None when the data ends first."""
        depth = 0
        for match in _TOKEN.finditer(self.data, at):
            token = match[0]
            if token in (b"{", b"["):
                depth += 1
            elif token in (b"}", b"]"):
                depth -= 1
                if depth == 0:
                    return match.end()
        return None

    def _cut(self, at: int) -> int:
        """The data ends inside a record: lost if nothing more will come."""
        if self.last:
            self.ledger.seen += 1
            self._skip(at, len(self.data), "trace_truncated")
        return len(self.data)


def _shallow(value: object, depth: int) -> bool:
    """Whether nothing is nested deeper than `depth`; level by level, without recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            item
            for thing in level
            if isinstance(thing, dict | list)
            for item in (thing.values() if isinstance(thing, dict) else thing)
        ]
        if not level:
            return True
    return not any(isinstance(thing, dict | list) for thing in level)


def badly_escaped(body: bytes) -> bool:
    """Whether a string that was skipped over is no valid JSON: a bad escape, or a NUL."""
    if b"\0" in body:
        return True
    return b"\\" in body and any(match[1] for match in _ESCAPES.finditer(body))
