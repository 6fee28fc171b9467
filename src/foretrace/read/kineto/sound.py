"""Decodes a stretch of sound JSON straight into typed records."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from foretrace.read.kineto.records import Event, decode_events, decode_exact_events

# real records reach 6.9 kB; larger ones are checked against the limits
SUSPICIOUS = 32 << 10
_ESCAPES = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')  # group 1: escapes nothing


def sound_events(body: bytes, exact: bool) -> Sequence[Event] | None:
    """The records of `body`, separated by commas; None when one needs a closer look."""
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
    return None if badly_escaped(body) or _odd_metadata(body, events) else events


def badly_escaped(body: bytes) -> bool:
    """Whether a string that was skipped over is no valid JSON: a bad escape, or a NUL."""
    if b"\0" in body:
        return True
    return b"\\" in body and any(match[1] for match in _ESCAPES.finditer(body))


def _odd_metadata(body: bytes, events: Sequence[Event]) -> bool:
    """Some writers append communication metadata to kernels that have it: keys are there twice."""
    stated = [a for event in events if (a := event.args) is not None and a.dtype is not None]
    if not stated:
        return False
    written = body.count(b'"dtype"')
    ids = [bytes(args.comms_id) for args in stated]
    return written != len(stated) or any(len(text) > 18 and _beyond_64_bits(text) for text in ids)


def _beyond_64_bits(text: bytes) -> bool:
    digits = text.lstrip(b"-")
    return digits.isdigit() and (len(digits) > 20 or not -(1 << 63) <= int(text) < 1 << 64)
