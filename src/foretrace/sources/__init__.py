"""From files to tables. One package per input format; Kineto's Chrome JSON is the first."""

from __future__ import annotations

from collections.abc import Callable

from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import Tables
from foretrace.sources.limits import Limits

__all__ = ["Limits", "read"]


def read(
    path: str, limits: Limits | None = None, meanwhile: Callable[[], object] = lambda: None
) -> Tables:
    """Read one trace; the ledger says what was repaired or left out. Raises `TraceError`.

    `meanwhile` is called while other processes decode a large file: a time to import what is next.
    """
    from foretrace.sources.bytestream import open_stream
    from foretrace.sources.kineto.document import read_document

    limits, ledger = limits or Limits(), LedgerBuilder()
    document = read_document(open_stream(path, limits, ledger), limits, ledger, meanwhile)
    # brings NumPy and Polars, which must not be loaded before workers are forked
    from foretrace.sources.kineto.assemble import assemble

    return assemble(document, ledger)
