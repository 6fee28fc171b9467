"""Runs of empty records are skipped at once, and counted as if each were read alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foretrace.base.budget import Limits
from foretrace.model import opening
from foretrace.read.kineto import careful
from foretrace.schema.ledger import Ledger

EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":5,"dur":1}'
MANY = b"{}," * 30


@pytest.mark.parametrize(
    "records",
    [
        MANY + EVENT,
        b"{},\n" * 30 + EVENT + b",{},{},{},,{},{},{}," + EVENT,
        b"{}" * 30 + EVENT,
        EVENT + b",{}" * 40,
        MANY + b"{} {},{},{},{},{}/*x*/,{},{}," + EVENT,
        MANY + b"@,{},{}," + EVENT,
        MANY * 3000 + EVENT,
    ],
)
def test_a_run_counts_as_its_records(
    records: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents":[' + records + b"]}")
    found = _ledger(path)
    monkeypatch.setattr(careful, "_EMPTIES", re.compile(rb"(?!)"))
    assert found == _ledger(path)
    assert found.skipped >= records.count(b"{}")


def _ledger(path: Path) -> Ledger:
    return opening.load(str(path), Limits(), use_kept=False, keep=False).ledger
