"""`foretrace share --json`: what was published, and where."""

from __future__ import annotations

from msgspec import Struct


class SharedTrace(Struct, frozen=True):
    """One trace that was shared. `was_there` when an earlier run had put it there already.

    `perfetto` is the address that opens it in Perfetto, where a browser can fetch it; `lost_data`
    when its ledger says so.
    """

    source: str
    trace: str
    report: str
    perfetto: str | None
    regions: tuple[str, ...]
    was_there: bool
    lost_data: bool


class ShareDocument(Struct, frozen=True):
    """Where the traces are now, and what of them remains in the copies."""

    schema: int
    to: str
    index: str
    shared: list[SharedTrace]
    remains: list[str]


DOCUMENT = ShareDocument
