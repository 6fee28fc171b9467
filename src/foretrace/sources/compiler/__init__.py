"""What torch.compile logged: structured logs (`TORCH_TRACE`) and log text (`TORCH_LOGS`)."""

from __future__ import annotations

from functools import partial
from itertools import chain

from foretrace import progress
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources import budget
from foretrace.sources.compiler.bundle import beside, files_of
from foretrace.sources.compiler.reader import LogFile
from foretrace.sources.compiler.records import CompilerLogs, LogRecord, TextRecord
from foretrace.sources.limits import Limits
from foretrace.units import bytes_text

__all__ = ["CompilerLogs", "LogRecord", "TextRecord", "beside", "read"]


def read(path: str, limits: Limits | None = None) -> CompilerLogs:
    """Read a bundle, a folder of logs or one log. Raises `TraceError`."""
    bounds, ledger = limits or Limits(), LedgerBuilder()
    sources = files_of(path)
    files = [LogFile(ledger, bounds) for _ in sources]
    with budget.ceiling(path, bounds):
        for file, source in zip(files, sources, strict=True):
            file.read(source, partial(_watch, source))
    return CompilerLogs(
        path,
        list(chain.from_iterable(file.records for file in files)),
        list(chain.from_iterable(file.messages.texts for file in files)),
        ledger.freeze(),
        tuple(sources),
    )


def _watch(source: str, done: int, size: int) -> None:
    of = f" of {bytes_text(size)}" if size else ""  # standard input has none
    progress.report(f"reading {bytes_text(done)}{of}: {source}")
