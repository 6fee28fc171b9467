"""The document around the events: keys before and after them, and where their list begins.

Header entries that are not valid JSON (torch 2.13 writes user metadata with its escapes undone) are
repaired when that is safe and kept as raw text otherwise; one bad entry never costs another.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from foretrace.read.limits import Limits
from foretrace.schema.ledger import LedgerBuilder

EVENTS_KEY = re.compile(rb'"traceEvents"\s*+:\s*+([\[{])')
# group 1 is empty when the string has no end
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)
# torch begins every record with its phase
RECORD = re.compile(rb'\}\s*+(?:,\s*+)?(?=\{\s*+"ph"\s*+:)')
_BLANKS = b" \t\r\n"
_LONE = re.compile("[\ud800-\udfff]")
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
    for match in _TOKEN.finditer(text, 0, len(text) if stop is None else stop):
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
    return _torn_tail(text, opened, found.broken, last, limits, ledger)


def _torn_tail(
    text: bytes, opened: bytes, broken: bool, last: bool, limits: Limits, ledger: LedgerBuilder
) -> Tail | None:
    record = RECORD.search(text)
    if not last and not (broken and record):
        return None
    if record is not None:  # another writer's records follow
        entries = _repaired(opened[: record.start() + len(opened) - len(text)], limits, ledger)
        return Tail(entries, 1)
    cut = not opened.rstrip().endswith(b"}")
    entries = _repaired(opened, limits, LedgerBuilder() if cut else ledger)
    return Tail(entries, len(text), truncated=cut)


def _repaired(text: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    from foretrace.read.kineto.repaired_header import repair_header  # compiles many patterns

    return repair_header(text, limits, ledger)
