"""The document around the events: keys before and after them, and where their list begins.

Header entries that are not valid JSON (torch 2.13 writes user metadata with its escapes undone) are
repaired when that is safe and kept as raw text otherwise; one bad entry never costs another.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.kineto.repair import KEY, NEXT_KEY, Reader, Unrepairable, text_of
from foretrace.sources.limits import Limits

EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*([\[{])')
_NEXT_LINE_KEY = re.compile(r',?\s*\n\s*"[^"\n]{1,120}"\s*:')
_SPACE_COMMAS = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class EventsStart:
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
    return _repaired(text_of(text, ledger), limits, ledger)


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


def _repaired(text: str, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = text.find("{") + 1
    while True:
        at = _SPACE_COMMAS.match(text, at).end()  # type: ignore[union-attr]
        key = KEY.match(text, at)
        if key is None:
            if text[at : at + 1] not in ("", "}"):
                ledger.note("repaired_header")
            return found
        found[key[1]], at = _entry(text, key.end(), limits, ledger)


def _entry(text: str, at: int, limits: Limits, ledger: LedgerBuilder) -> tuple[Any, int]:
    """One value: as JSON, as JSON with repaired quoting, or as the raw text up to the next key."""
    for quotes in (None, NEXT_KEY):
        scratch = LedgerBuilder()
        reader = Reader(text, limits, scratch, quotes)
        try:
            value, end = reader.value(at, 0, in_list=False)
        except Unrepairable:
            continue
        following = text[reader.skip(end) : reader.skip(end) + 1]
        if following in ("", ",", "}"):
            ledger.merge(scratch)
            if quotes is not None or reader.repaired:
                ledger.note("repaired_header")
            return value, end
    ledger.note("repaired_header")
    match = _NEXT_LINE_KEY.search(text, at)
    end = match.start() if match else len(text)
    return text[at:end].strip(), end


@dataclass(frozen=True, slots=True)
class Tail:
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
    if not opened.rstrip().endswith(b"}"):
        scratch = LedgerBuilder()
        return Tail(_repaired(text_of(opened, scratch), limits, scratch), None, True, 0)
    return Tail(_repaired(text_of(opened, ledger), limits, ledger), None, False, 0)
