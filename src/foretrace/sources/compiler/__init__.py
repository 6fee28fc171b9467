"""What torch.compile logged: structured logs (`TORCH_TRACE`) and log text (`TORCH_LOGS`).

`look` asks for every trace whether a log lies beside it, so that nothing else is imported before.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

from foretrace import progress
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources import budget
from foretrace.sources.compiler.bundle import beside, located, nothing
from foretrace.sources.compiler.manifest import Manifest, manifest_of, stranger
from foretrace.sources.compiler.records import CompilerLogs, LogRecord, TextRecord
from foretrace.sources.limits import Limits
from foretrace.units import bytes_text

__all__ = [
    "CompilerLogs",
    "LogRecord",
    "Manifest",
    "TextRecord",
    "beside",
    "located",
    "manifest_of",
    "read",
    "stranger",
]


def read(path: str, limits: Limits | None = None) -> CompilerLogs:
    """Read a log, a folder of logs, a bundle, or what lies beside a trace. Raises `TraceError`."""
    from foretrace.sources.compiler.contents import files_of
    from foretrace.sources.compiler.reader import LogFile

    bounds, ledger, found = limits or Limits(), LedgerBuilder(), located(path)
    with budget.ceiling(path, bounds):
        sources = files_of(found, bounds, ledger)
        files = [LogFile(ledger, bounds) for _ in sources]
        for file, source in zip(files, sources, strict=True):
            file.read(source, partial(_watch, source))
    if not ledger.seen:
        raise nothing(path, "holds no record of torch.compile")
    return CompilerLogs(
        found,
        list(chain.from_iterable(file.records for file in files)),
        list(chain.from_iterable(file.messages.texts for file in files)),
        ledger.freeze(),
        tuple(sources),
    )


def _watch(source: str, done: int, size: int) -> None:
    of = f" of {bytes_text(size)}" if size else ""  # standard input has none
    progress.report(f"reading {bytes_text(done)}{of}: {source}")
