"""The records of each compilation: by rank, compile id, and how often the numbers began again.

After `torch._dynamo.reset()` Dynamo counts from `0/0` again. A compile id that starts a second time
is another compilation, of another function perhaps.
"""

from __future__ import annotations

from collections import Counter

from foretrace.read.compiler.records import CompilerLogs, LogRecord, TextRecord

Key = tuple[int | None, str, int]  # rank, compile id, resets before it


def by_compilation(
    logs: CompilerLogs,
) -> tuple[dict[Key, list[LogRecord]], dict[Key, list[TextRecord]]]:
    """Records and messages by compilation; a message rarely states its rank.

    A message does not say how often the numbers began again. Where that matters it is left out.
    """
    records: dict[Key, list[LogRecord]] = {}
    resets: Counter[tuple[int | None, int]] = Counter()
    started: set[tuple[int | None, int, str]] = set()
    for record in logs.records:
        if not record.compile_id:
            continue
        process = record.rank, record.pid
        if record.kind == "dynamo_start" and record.attempt == 0:
            if (*process, record.compile_id) in started:
                resets[process] += 1
                started = {each for each in started if each[:2] != process}
            started.add((*process, record.compile_id))
        key = record.rank, record.compile_id, resets[process]
        records.setdefault(key, []).append(record)
    return records, _texts(logs, records)


def _texts(logs: CompilerLogs, records: dict[Key, list[LogRecord]]) -> dict[Key, list[TextRecord]]:
    known: dict[str, list[Key]] = {}
    for key in records:
        known.setdefault(key[1], []).append(key)
    texts: dict[Key, list[TextRecord]] = {}
    for text in logs.texts:
        keys = known.get(text.compile_id, [])
        own = keys if len(keys) == 1 else [key for key in keys if key[0] == text.rank]
        if text.compile_id and len(own) < 2:
            key = own[0] if own else (text.rank, text.compile_id, 0)
            texts.setdefault(key, []).append(text)
    return texts
