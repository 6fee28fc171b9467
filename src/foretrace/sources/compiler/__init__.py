"""What torch.compile logged: structured logs (`TORCH_TRACE`) and log text (`TORCH_LOGS`)."""

from __future__ import annotations

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources import budget
from foretrace.sources.compiler.bundle import beside, files_of
from foretrace.sources.compiler.reader import LogFile
from foretrace.sources.compiler.records import CompilerLogs, LogRecord, TextRecord
from foretrace.sources.limits import Limits

__all__ = ["CompilerLogs", "LogRecord", "TextRecord", "beside", "read"]


def read(path: str, limits: Limits | None = None) -> CompilerLogs:
    """Read a bundle, a folder of logs or one log. Raises `TraceError`."""
    bounds, ledger = limits or Limits(), LedgerBuilder()
    sources = files_of(path)
    files = [LogFile(ledger) for _ in sources]
    with budget.ceiling(path, bounds):
        for file, source in zip(files, sources, strict=True):
            file.read(source, bounds)
    return CompilerLogs(
        path,
        [record for file in files for record in file.records],
        [text for file in files for text in file.messages.texts],
        ledger.freeze(),
        tuple(sources),
    )
