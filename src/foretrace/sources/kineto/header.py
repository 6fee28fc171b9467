"""The document around the events: keys before and after them, and where their list begins.

Header entries that are not valid JSON (torch 2.13 writes user metadata with its escapes undone) are
repaired when that is safe and kept as raw text otherwise; one bad entry never costs another.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.limits import Limits

EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*([\[{])')


class EventsStart(Struct, frozen=True):
    """Where the list of events opens, the text before it, and whether it is an object instead."""

    at: int
    header: bytes
    is_object: bool = False


def find_events(buffer: bytes) -> EventsStart | None:
    """The first `traceEvents` key at the top level; the first at all when the header is damaged."""
    body = buffer.lstrip(b" \t\r\n")
    if body.startswith(b"["):
        return EventsStart(len(buffer) - len(body) + 1, b"")
    first = None
    for match in EVENTS_KEY.finditer(buffer):
        found = EventsStart(match.end(), buffer[: match.start()], match[1] == b"{")
        if _strict(found.header) is not None:
            return found
        first = first or found
    return first


def read_header(text: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    """The keys of an object whose text may stop after any entry."""
    if not text.strip():
        return {}
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

    whole = text.rstrip().rstrip(b",").rstrip()
    try:
        found = json.loads(whole + b"}", object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    return (found, repeated) if isinstance(found, dict) else None


class Tail(Struct, frozen=True):
    """What follows the events: more keys, and a second list of events at `events_at`, if any."""

    entries: dict[str, Any]
    events_at: int | None
    truncated: bool
    trailing: int


def read_tail(text: bytes, in_object: bool, limits: Limits, ledger: LedgerBuilder) -> Tail:
    """`text` starts right behind the `]` that closed the events."""
    if not in_object:
        return Tail({}, None, False, len(text.strip()))
    opened = b"{" + text.lstrip(b", \t\r\n")
    shift = len(opened) - len(text)
    for match in EVENTS_KEY.finditer(opened):
        strict = _strict(opened[: match.start()])
        if strict is not None and match[1] == b"[":
            return Tail(strict[0], match.end() - shift, False, 0)
        break
    return _closed(opened, limits, ledger)


def _closed(opened: bytes, limits: Limits, ledger: LedgerBuilder) -> Tail:
    try:
        decoded = opened.decode()
        found, end = json.JSONDecoder(strict=False).raw_decode(decoded)
        return Tail(found, None, False, len(decoded[end:].strip()))
    except (ValueError, RecursionError):
        pass
    cut = not opened.rstrip().endswith(b"}")
    entries = _repaired(opened, limits, LedgerBuilder() if cut else ledger)
    return Tail(entries, None, cut, 0)


def _repaired(text: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    from foretrace.sources.kineto.repair import repair_header  # compiles many patterns

    return repair_header(text, limits, ledger)
