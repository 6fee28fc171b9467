"""`foretrace share --json`: what was published, and where."""

from __future__ import annotations

from msgspec import Struct


class SharedTrace(Struct, frozen=True):
    """One trace that was shared. `was_there` when an earlier run had put it there already.

    `perfetto` is the address that opens it in Perfetto, where a browser can fetch it; `lost_data`
    when its ledger says so. `removed` counts what was replaced or left out, by kind; it is empty
    where the copy was there. `report` is empty for a memory snapshot. `why` is the folder of the
    compiler's records, where there are any.
    """

    source: str
    trace: str
    report: str
    perfetto: str | None
    regions: tuple[str, ...]
    was_there: bool
    lost_data: bool
    removed: dict[str, int] = {}
    why: str | None = None


class ShareDocument(Struct, frozen=True):
    """Where the traces are now, and what of them remains in the copies.

    `unknown` says what private text the rules cannot recognise.
    """

    schema: int
    to: str
    index: str
    shared: list[SharedTrace]
    remains: list[str]
    unknown: str = ""


DOCUMENT = ShareDocument
