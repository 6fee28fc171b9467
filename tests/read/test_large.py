"""Hostile and very large files: memory stays below the ceiling of the case, offsets stay right,
sums stay exact.

Each runs in a process of its own, since the peak of a process is read at its end. The full sweep
builds them at full size (2.5 GB, 4 GB, 10 GiB unpacked); small forms are among the odd files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from corpus.build import gn_chunks
from corpus.odd_files import ALL
from corpus.places import RECORDED

MIB = 1 << 20
SCRIPT = """
import json, resource, sys
import msgspec
import foretrace
from foretrace.base.errors import ForetraceError
from foretrace.look import look
result = {}
try:
    trace = foretrace.open(sys.argv[1], cache=False)
    doc = msgspec.to_builtins(look(trace))
    result = {"totals": doc["totals"], "ledger": doc["ledger"],
              "sum": sum(row["total_ns"] for row in doc["kernels"]),
              "where": {note.code: note.where for note in trace.ledger.notes}}
except ForetraceError as error:
    result = {"code": error.code, "offset": error.offset}
# ru_maxrss would start from the peak of the parent process
with open("/proc/self/status") as status:
    result["rss"] = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
result["workers_rss"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
json.dump(result, sys.stdout)
"""


def read(path: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return json.loads(ran.stdout)


def peak(result: dict[str, Any]) -> int:
    return result["rss"] + result["workers_rss"]


HOSTILE = [case for case in ALL if case.id in ("B29", "A30", "A41", "A42", "A45", "B28")]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_hostile_files_stay_small(case: Any, tmp_path: Path) -> None:
    """I3: 300 MiB for anything hostile."""
    result = read(case.put(tmp_path))
    assert peak(result) < 300 * MIB
    assert result.get("code", "") == case.expect.code


@pytest.mark.sweep
def test_memory_follows_the_file(tmp_path: Path) -> None:
    """A trace of 17.6 MB (1.1 MB packed) in less than 400 MiB, the ceiling for 100 MB."""
    result = read(RECORDED / "llama_train_eager.json.gz")
    assert peak(result) < 400 * MIB


@pytest.mark.sweep
def test_bomb_of_ten_gib(tmp_path: Path) -> None:
    """B29: ten GiB of blanks in ten MiB."""
    path = tmp_path / "t.json.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for _ in range(10 * 1024):
            file.write(packer.compress(b" " * MIB))
        file.write(packer.flush())
    result = read(path)
    assert result["code"] == "E_BOMB"
    assert peak(result) < 300 * MIB


@pytest.mark.sweep
def test_trace_of_two_and_a_half_gb(tmp_path: Path) -> None:
    """B31: past 2^31 bytes, in 3 GiB. The workers are gone before the tables are made, so their
    memory is not added.
    """
    path, copies = tmp_path / "t.json", 2_240_000
    with path.open("wb") as file:
        for chunk in gn_chunks(copies):
            file.write(chunk)
    assert path.stat().st_size > 2.5e9
    result = read(path)
    totals = result["totals"]
    assert totals["kernels"] == totals["launches"] == totals["cpu_ops"] == copies
    assert totals["gpu_busy_ns"] == 50_000 * copies
    assert result["rss"] < 3 << 30
    assert 8 * result["workers_rss"] < 3 << 30


LIMITED = """
import json, sys
from foretrace import read
from foretrace.base.budget import Limits
from foretrace.read.kineto import document, parallel
document.WORTHWHILE, parallel.PIECE, parallel.TAIL = 0, 48 << 10, 8 << 10
parallel.cores = lambda: 2
ledger = read.read(sys.argv[1], Limits(events=int(sys.argv[2]))).ledger
json.dump([ledger.seen, *(note.code for note in ledger.notes)], sys.stdout)
"""


def test_the_limit_of_events_holds_for_files_read_by_several(tmp_path: Path) -> None:
    """Each worker counts for itself: together they must not pass the limit."""
    path = tmp_path / "t.json"
    events = ({"ph": "X", "cat": "cpu_op", "name": "a", "ts": at, "dur": 1} for at in range(9_000))
    path.write_text(json.dumps({"traceEvents": list(events)}))
    for most in (5_000, 9_000):
        command = [sys.executable, "-c", LIMITED, str(path), str(most)]
        ran = subprocess.run(command, capture_output=True, check=True)
        seen, *codes = json.loads(ran.stdout)
        assert seen == most
        assert ("limit_events" in codes) == (most < 9_000)
