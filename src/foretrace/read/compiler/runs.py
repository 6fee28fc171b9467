"""One run of several whose logs lie in one folder: `TORCH_TRACE` adds a file for every process.

Ranks of a job stay together. Processes that state the same rank, or none, are runs of their own:
both have a compilation `0/0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from foretrace.base.errors import UsageError, printable
from foretrace.read.compiler.records import CompilerLogs, LogRecord, TextRecord
from foretrace.schema.ledger import LedgerBuilder

_LISTED = 8


def one_run(logs: CompilerLogs, pids: Collection[int] = ()) -> CompilerLogs:
    """The logs without the processes of other runs than the one with these `pids`.

    Raises `UsageError` where nothing says which of several files is meant.
    """
    compiled = Counter(
        (each.rank, each.pid) for each in _entries(logs) if each.compile_id and each.pid
    )
    ranks: dict[int | None, list[int]] = {}
    for rank, pid in compiled:
        ranks.setdefault(rank, []).append(pid)
    left_out = {
        (rank, pid)
        for rank, several in ranks.items()
        for pid in several
        if len(several) > 1 and pid not in _meant(logs, rank, several, compiled, pids)
    }
    if not left_out:
        return logs
    ledger = LedgerBuilder()
    ledger.note("log_processes_left_out", len(left_out))
    return replace(
        logs,
        ledger=logs.ledger.with_notes(ledger.freeze().notes),
        records=[each for each in logs.records if (each.rank, each.pid) not in left_out],
        texts=[each for each in logs.texts if (each.rank, each.pid) not in left_out],
    )


def _meant(
    logs: CompilerLogs,
    rank: int | None,
    several: list[int],
    compiled: Counter[tuple[int | None, int]],
    pids: Collection[int],
) -> Collection[int]:
    """Those of the trace; else the one that wrote the file, as far as the files agree."""
    if not set(pids).isdisjoint(several):
        return pids
    wrote = {pid: path for path, pid in logs.processes.items() if pid in several}
    if len(wrote) > 1:
        listed = "\n  ".join(map(printable, list(wrote.values())[:_LISTED]))
        shown = f"{len(wrote)} processes that are not ranks of one job"
        raise UsageError(f"{logs.path} contains the logs of {shown}; choose one:\n  {listed}")
    return wrote or [max(several, key=lambda pid: compiled[rank, pid])]


def _entries(logs: CompilerLogs) -> Iterator[LogRecord | TextRecord]:
    yield from logs.records
    yield from logs.texts
