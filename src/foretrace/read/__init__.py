"""From files to tables. One package per input format; Kineto's Chrome JSON is the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.base.errors import report
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import Tables

if TYPE_CHECKING:
    from foretrace.read.bytestream import ByteStream
    from foretrace.read.kineto.document import Document
    from foretrace.read.kineto.records import Buffer, Columns

__all__ = ["Limits", "read"]


def read(
    path: str, limits: Limits | None = None, meanwhile: Callable[[], object] = lambda: None
) -> Tables:
    """Read one trace; the ledger says what was repaired or left out. Raises `TraceError`.

    `meanwhile` is called while other processes decode a large file: a time to import what is next.
    """
    bounds = limits or Limits()
    with budget.ceiling(path, bounds):
        from foretrace.read.kineto.document import ReadAlone

        try:
            document, ledger = _read(path, bounds, meanwhile)
        except ReadAlone:
            document, ledger = _read(path, bounds)
        budget.check()
        report("building the tables")
        # brings NumPy and Polars, which must not be loaded before workers are forked
        from foretrace.read.kineto.assemble import assemble

        tables = assemble(document, ledger)
        budget.check()
    return tables


def _read(
    path: str, limits: Limits, meanwhile: Callable[[], object] | None = None
) -> tuple[Document, LedgerBuilder]:
    """Read a document; with `meanwhile`, worker processes may decode it."""
    from foretrace.read.bytestream import open_stream, reported
    from foretrace.read.kineto import document

    def apart(stream: ByteStream, buffer: Buffer) -> list[Columns]:
        if meanwhile is None or stream.likely_size - buffer.offset < document.WORTHWHILE:
            return []
        from foretrace.read.kineto.parallel import read_apart

        return read_apart(buffer, limits, ledger, meanwhile)

    ledger = LedgerBuilder()
    stream = open_stream(path, limits, ledger, reported(path))
    return document.read_document(stream, limits, ledger, apart), ledger
