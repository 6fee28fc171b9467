"""Worker processes give the same tables and the same ledger as one process, packed or plain.

The readers run in a process of their own: forking is refused where Polars is loaded.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corpus.build import gz
from corpus.places import RECORDED
from sweep import FULL

SCRIPT = """
import json, os, sys
from foretrace import read as sources
from foretrace.read.kineto import document, parallel

document.WORTHWHILE, parallel.PIECE, parallel.TAIL = 0, 48 << 10, 8 << 10
parallel.cores = lambda: 3
joined, given = parallel._joined, []

def recorded(parts, sent, *rest):
    given.append((len(parts), sent))
    return joined(parts, sent, *rest)

parallel._joined = recorded
exec(os.environ.get("CHANGE", ""))
apart = sources.read(sys.argv[1])
parallel.cores = lambda: 1
alone = sources.read(sys.argv[1])
tables = all(apart.frames[name].equals(alone.frames[name]) for name in alone.frames)
answer = {"given": given, "tables": tables, "header": apart.header == alone.header,
          "ledger": apart.ledger == alone.ledger, "seen": alone.ledger.seen,
          "notes": [note.code for note in alone.ledger.notes]}
json.dump(answer, sys.stdout)
"""
# the worker that gets the third piece dies in it
DIES = """
take = parallel.Pieces.take
def dying(pieces):
    for number, buffer in take(pieces):
        if number == 2:
            os.kill(os.getpid(), 9)
        yield number, buffer
parallel.Pieces.take = dying
"""
TRACE = RECORDED / "mlp_eager_train.json.gz"
PLAIN = gzip.decompress(TRACE.read_bytes())


def read(path: Path, change: str = "") -> dict[str, Any]:
    """How a file read by workers compares with the same file read by one process."""
    command = [sys.executable, "-c", SCRIPT, str(path)]
    ran = subprocess.run(
        command, capture_output=True, check=False, env=os.environ | {"CHANGE": change}
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    answer: dict[str, Any] = json.loads(ran.stdout)
    assert (answer["tables"], answer["header"], answer["ledger"]) == (True, True, True)
    return answer


def damaged(text: bytes) -> bytes:
    """One record without a value, in the middle of the events."""
    at = text.index(b'"ph"', len(text) // 2)
    return text[:at] + b'"dur": ,' + text[at:]


def cut(text: bytes) -> bytes:
    return text[: len(text) * 2 // 3]


def gz_cut(text: bytes) -> bytes:
    return gz(text)[:-4000]


PAIRS = [(pack, damage) for pack in (bytes, gz, gz_cut) for damage in (bytes, damaged, cut)]
USUAL = [(bytes, damaged), (gz_cut, bytes)]


@pytest.mark.parametrize(("pack", "damage"), PAIRS if FULL else USUAL)
def test_workers_give_what_one_process_gives(pack: Any, damage: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(pack(damage(PLAIN)))
    (parts, sent), *again = read(path)["given"]
    assert parts == sent >= 3
    assert not again


def test_a_worker_that_dies_costs_nothing_but_time(tmp_path: Path) -> None:
    answer = read(TRACE, DIES)
    (parts, sent), *_ = answer["given"]
    assert parts < sent


def test_absolute_times_stay_exact(tmp_path: Path) -> None:
    """Writers of early 2024 gave times from 1970 on; the arguments beside them are plain floats."""
    path = tmp_path / "t.json"
    shifted = re.sub(rb'"ts": (\d+)\.(\d+)', rb'"ts": 170\g<1>.\g<2>', PLAIN)
    path.write_bytes(gz(shifted))
    answer = read(path)
    assert "ts_precision" in answer["notes"]
    assert "arg_type" not in answer["notes"]
