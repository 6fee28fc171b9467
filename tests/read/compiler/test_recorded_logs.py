"""Recorded and public logs, read twice: by the reader, and by one that shares no code with it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus.places import PUBLIC
from foretrace.read import compiler
from foretrace.read.compiler import CompilerLogs
from read.compiler.slow_reader import Slow, messages, structured

COMPILE = Path(__file__).parents[2] / "data" / "compile"
RUNS = ["mlp", "unfusable", "recompiles", "llama_train"]
_PUBLIC_LOGS = sorted(Path(PUBLIC).glob("torch_trace/*")) if PUBLIC else []
PUBLIC_LOGS = [
    *(pytest.param(path, id=path.name) for path in _PUBLIC_LOGS),
] or [pytest.param(None, marks=pytest.mark.skip("FORETRACE_PUBLIC_TRACES is not set"))]


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def shown(records: Sequence[compiler.LogRecord]) -> list[Slow]:
    return [
        Slow(r.kind, r.name, r.compile_id, r.rank, r.fields, r.payload.decode(), r.line, None)
        for r in records
    ]


def check_records(logs: CompilerLogs, data: bytes, rank: int | None = None) -> list[int]:
    """Compare all records; returns the lines of the damaged ones. `rank` is that of the file."""
    slow, strings, damaged = structured(data)
    slow = [each if each.rank is not None else each._replace(rank=rank) for each in slow]
    assert shown(logs.records) == [record._replace(agrees=None) for record in slow]
    ledger = logs.ledger
    assert ledger.seen - len(logs.texts) == len(slow) + strings + len(damaged)
    assert ledger.count("log_payload_changed") == [r.agrees for r in slow].count(False)
    assert ledger.skipped == len(damaged)
    assert ledger.seen == ledger.kept + ledger.repaired + ledger.skipped
    return damaged


@pytest.mark.parametrize("name", RUNS)
def test_every_record_is_kept(name: str) -> None:
    logs = compiler.read(str(COMPILE / name))
    assert check_records(logs, unpacked(COMPILE / name / "torch_trace.log.gz")) == []
    assert {note.code for note in logs.ledger.notes} == {"log_payload_changed"}


@pytest.mark.parametrize("name", RUNS)
def test_every_message_is_kept(name: str) -> None:
    texts = compiler.read(str(COMPILE / name)).texts
    found = [
        (t.channel, t.compile_id + (f"_{t.attempt}" if t.attempt else ""), t.text) for t in texts
    ]
    assert found == messages(unpacked(COMPILE / name / "torch_logs.txt.gz"))


@pytest.mark.public
@pytest.mark.parametrize("path", PUBLIC_LOGS)
def test_public_logs_lose_the_damaged_record_alone(path: Path) -> None:
    data = unpacked(path)
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    rank = {"multi_rank_rank_1.log.gz": 1}.get(path.name)  # its records state none
    damaged = check_records(compiler.read(str(path)), data, rank)
    assert damaged == ([13] if "corrupted" in path.name else [])
