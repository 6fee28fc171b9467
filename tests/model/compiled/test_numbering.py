"""Compile ids that begin again after a reset."""

from __future__ import annotations

from msgspec.structs import replace

from foretrace.model.compiled.assemble import assemble, by_compilation
from foretrace.read.compiler import CompilerLogs
from model.compiled.recorded import logs, message


def _twice(run: str) -> CompilerLogs:
    once = logs(run)
    return replace(once, records=[*once.records, *once.records])


def test_a_second_start_is_another_compilation() -> None:
    records, texts = by_compilation(_twice("recompiles"))
    assert list(records) == [(None, "0/0", 0), (None, "0/1", 0), (None, "0/0", 1), (None, "0/1", 1)]
    assert texts == {}  # a message does not say to which of the two it belongs
    run = assemble(_twice("recompiles"))
    assert [(each.id, len(each.code)) for each in run.compilations] == [
        ("0/0", 1), ("0/1", 1), ("0/0", 1), ("0/1", 1)
    ]  # fmt: skip


def test_attempts_are_no_second_start() -> None:
    records, texts = by_compilation(logs("unfusable"))
    assert set(records) == set(texts) == {(None, "0/0", 0), (None, "1/0", 0)}


def test_messages_alone() -> None:
    once = replace(logs("mlp"), records=[], texts=[message("fusion", "fusing op0 with op1")])
    assert list(by_compilation(once)[1]) == [(None, "0/0", 0)]
