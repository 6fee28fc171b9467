"""What torch.compile logged: structured logs (`TORCH_TRACE`) and log text (`TORCH_LOGS`).

`look` asks for every trace whether a log lies beside it, so that nothing else is imported before.
"""

from __future__ import annotations

from itertools import chain

from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.read.compiler.bundle import (
    CompilerLogs,
    LogRecord,
    TextRecord,
    beside,
    located,
    manifest_of,
    nothing,
    one_run,
    stranger,
)
from foretrace.read.ledger import LedgerBuilder

__all__ = [
    "CompilerLogs",
    "LogRecord",
    "TextRecord",
    "beside",
    "manifest_of",
    "one_run",
    "read",
    "stranger",
]


def read(path: str, limits: Limits | None = None) -> CompilerLogs:
    """Read a log, a folder of logs, a bundle, or what lies beside a trace. Raises `TraceError`."""
    from foretrace.read.compiler.reader import Ranks, files_of, read_files

    bounds, ledger, found = limits or Limits(), LedgerBuilder(), located(path)
    with budget.ceiling(path, bounds):
        sources = files_of(found, bounds, ledger)
        files = read_files(sources, bounds, ledger)
    if ledger.seen == ledger.skipped:
        damaged = " that can be read" if ledger.skipped else ""
        raise nothing(path, f"holds no record of torch.compile{damaged}")
    manifest = manifest_of(found)
    ranks = Ranks(manifest.rank if manifest else None)
    for source, file in files.items():
        ranks.learn(source, chain(file.records, file.messages.texts))
    records = (ranks.filled(source, file.records) for source, file in files.items())
    texts = (ranks.filled(source, file.messages.texts) for source, file in files.items())
    return CompilerLogs(
        found,
        list(chain.from_iterable(records)),
        list(chain.from_iterable(texts)),
        ledger.freeze(),
        tuple(files),
        ranks.processes,
    )
