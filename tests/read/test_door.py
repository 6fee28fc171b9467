"""The door: what each kind of path is, and that it is opened once to recognise it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from corpus.build import gn
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read import recordings
from foretrace.read.door import (
    CompilerLog,
    NamedFiles,
    Opened,
    SnapshotFile,
    TraceFile,
    TraceFolder,
    TryResult,
    one_trace,
    open_any,
)

LOGS = Path(recordings.explained()["mlp_why"]).parent / "mlp_why.why"
SNAPSHOT = recordings.snapshots()["gpt_leak"]
TRY = next(iter(recordings.tries().values()))
KINDS: dict[str, type[Opened]] = {
    "trace": TraceFile,
    "packed": TraceFile,
    "member": TraceFile,
    "unknown": TraceFile,
    "missing": TraceFile,
    "folder": TraceFolder,
    "zip": TraceFolder,
    "snapshot": SnapshotFile,
    "packed snapshot": SnapshotFile,
    "log": CompilerLog,
    "packed log": CompilerLog,
    "bundle": CompilerLog,
    "stem": CompilerLog,
    "logs": CompilerLog,
    "try": TryResult,
    "packed try": TryResult,
}


def put(folder: Path) -> dict[str, str]:
    """A path of each kind."""
    trace, logs = gn(3).bytes(), folder / "logs"
    (folder / "t.json").write_bytes(trace)
    (folder / "two").mkdir()
    logs.mkdir()
    with zipfile.ZipFile(folder / "two.zip", "w") as archive:
        for name in ("a.json", "b.json"):
            (folder / "two" / name).write_bytes(trace)
            archive.writestr(name, trace)
    (folder / "notes.txt").write_text("no trace")
    (folder / "memory.bin").write_bytes(b"\x80\x04}.")
    (folder / "tried.json").write_bytes(TRY.read_bytes())
    with zipfile.ZipFile(folder / "tried.zip", "w") as archive:
        archive.write(TRY, "tried.json")
    line = b"V1119 12:00:00.000000 77 torch/_logging/structured.py:22] {}\n"
    for place in (folder / "out.txt", logs / "torch_trace_abc.log"):
        place.write_bytes(line)
    return {
        "trace": str(folder / "t.json"),
        "packed": str(recordings.traces()["mlp_eager"]),
        "member": str(folder / "two.zip::a.json"),
        "unknown": str(folder / "notes.txt"),
        "missing": str(folder / "none.json"),
        "folder": str(folder / "two"),
        "zip": str(folder / "two.zip"),
        "snapshot": str(folder / "memory.bin"),
        "packed snapshot": str(SNAPSHOT),
        "log": str(folder / "out.txt"),
        "packed log": str(LOGS / "torch_trace.log.gz"),
        "bundle": str(LOGS),
        "stem": str(LOGS).removesuffix(".why"),
        "logs": str(logs),
        "try": str(folder / "tried.json"),
        "packed try": str(folder / "tried.zip"),
    }


def test_every_kind_is_recognised(tmp_path: Path) -> None:
    paths = put(tmp_path)
    assert {kind: type(open_any(path)) for kind, path in paths.items()} == KINDS
    found = open_any(paths["folder"])
    assert isinstance(found, TraceFolder)
    assert [os.path.basename(each) for each in found.traces] == ["a.json", "b.json"]
    assert open_any(found) is found
    assert open_any("-") == TraceFile("-")
    assert open_any("mlp_eager") == TraceFile(paths["packed"])
    tried = open_any(paths["try"])
    assert isinstance(tried, TryResult)
    assert tried == TryResult(paths["try"], tried.document)


def test_what_nobody_recognises_is_a_trace_with_a_doubt(tmp_path: Path) -> None:
    paths = put(tmp_path)
    (tmp_path / "empty").mkdir()
    for kind, code in (("unknown", "E_NOT_A_TRACE"), ("missing", "E_UNREADABLE")):
        found = open_any(paths[kind])
        assert isinstance(found, TraceFile)
        assert found.doubt is not None
        assert found.doubt.code == code
    with pytest.raises(TraceError, match="contains no trace"):
        one_trace(open_any(tmp_path / "empty"))


def test_a_zip_of_many_ranks_is_taken_by_its_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for rank in range(100):
            archive.writestr(f"rank{rank}.json", b"{}")
        archive.writestr("notes.txt", b"")
    with pytest.raises(TraceError, match="101 members"):
        open_any(tmp_path / "job.zip")
    found = open_any(tmp_path / "job.zip", Limits(), by_name=True)
    assert isinstance(found, NamedFiles)
    assert len(found.files) == 100
    assert set(found.files.values()) == {2}


COUNTED = """
import sys
from foretrace.read.door import open_any
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
for path in sys.argv[1:]:
    opened.clear()
    open_any(path)
    print(opened.count(path.partition("::")[0]))
"""


def test_a_path_is_opened_once(tmp_path: Path) -> None:
    """A zip once for its directory, and once for each member, which is a path of its own."""
    paths = {kind: path for kind, path in put(tmp_path).items() if not os.path.isdir(path)}
    ran = subprocess.run(
        [sys.executable, "-c", COUNTED, *paths.values()], capture_output=True, text=True, check=True
    )
    opened = dict(zip(paths, map(int, ran.stdout.split()), strict=True))
    assert opened == dict.fromkeys(paths, 1) | {"zip": 3, "packed try": 2, "stem": 0, "missing": 0}
