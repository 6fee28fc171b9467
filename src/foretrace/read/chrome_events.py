"""Events of another format as the text of `traceEvents`: what the readers of databases share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec.json import encode

from foretrace.base import budget, notices

Event = dict[str, Any]
_AT_ONCE = 4096  # events in one block


def listed(events: Iterator[Event], label: str) -> Iterator[bytes]:
    """The inside of a JSON list, block by block, with progress and under the ceilings."""
    comma, done = b"", 0
    while block := list(islice(events, _AT_ONCE)):
        yield comma + encode(block)[1:-1]
        comma, done = b",", done + len(block)
        notices.report(f"reading {done:,} events: {label}")
        budget.check()
