"""Processes, zips, buckets and Ray clusters give the same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foretrace import jobs
from foretrace.base.errors import TraceError, UsageError, show_with
from foretrace.jobs import reading
from foretrace.jobs.whole_job import COLUMNS, Job
from foretrace.read import remote
from jobs.plan import Gaps, Plan, write

SMALL = Plan(data=4, gaps=Gaps(empty=(3,)), by_rank=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ranks, and an empty file."""
    place = tmp_path_factory.mktemp("engines")
    write(SMALL, place)
    return place


@pytest.fixture(scope="module")
def here(folder: Path) -> Iterator[Job]:
    """The job as this process reads it."""
    with jobs.read(folder, cache=False) as job:
        yield job


def same(one: Job, other: Job, *, paths: bool = True) -> None:
    """Equal to the byte."""
    if paths:
        assert one.facts == other.facts
        assert one.left_out == other.left_out
    for name in COLUMNS:
        files = [sorted(Path(job._folder.name).glob(f"{name}-*.parquet")) for job in (one, other)]
        contents = [[file.read_bytes() for file in each] for each in files]
        assert contents[0] == contents[1], name
        assert contents[0]


def test_processes_of_their_own(folder: Path, here: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORTHWHILE", 0)
    monkeypatch.setattr(reading, "cores", lambda: 2)
    told: list[str] = []
    show_with(told.append)
    try:
        with jobs.read(folder, cache=False) as job:
            same(here, job)
    finally:
        show_with(None)
    counts = [text for text in told if text.startswith("read ")]
    assert [text.split(" files")[0] for text in counts] == [
        "read 1 of 3",
        "read 2 of 3",
        "read 3 of 3",
    ]
    assert counts[-1].count("kB") == 2


@pytest.mark.sweep
def test_a_process_that_dies_costs_its_file(folder: Path) -> None:
    """Whoever reads rank 1 is killed; the others are whole."""
    code = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from foretrace import jobs
from foretrace.jobs import reading
from jobs.test_reading import deadly
reading.WORTHWHILE, reading.cores, reading.encoded = 0, lambda: 2, deadly
with jobs.read({str(folder)!r}, ranks="0-1", cache=False) as job:
    print([each.rank for each in job.facts], [each.code for each in job.left_out])
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert found.stdout == "[0] ['E_UNREADABLE', 'E_EMPTY']\n", found.stderr


def deadly(path: str, **more: Any) -> bytes:
    """What a worker runs in the test above."""
    if "rank1" in path:
        os.kill(os.getpid(), signal.SIGKILL)
    return local_encoded(path, **more)


local_encoded = reading.encoded


def test_ctrl_c_ends_all(folder: Path) -> None:
    code = f"""
import os, signal, sys
from foretrace import jobs
from foretrace.base.errors import show_with
from foretrace.jobs import reading
reading.WORTHWHILE, reading.cores = 0, lambda: 2
def tell(text):
    if text.startswith("read "):
        os.killpg(0, signal.SIGINT)
show_with(tell)
try:
    jobs.read({str(folder)!r}, cache=False)
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run(  # ends when nobody holds its output any more
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_a_zip(folder: Path, here: Job, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
        for number in range(100):  # more than a zip of a few traces may have
            archive.writestr(f"notes/{number}.txt", "x")
    with jobs.read(tmp_path / "job.zip") as job:
        same(here, job, paths=False)
        assert [each.code for each in job.left_out] == ["E_EMPTY"]
        sizes = [os.path.getsize(folder / each.path.partition("::")[2]) for each in job.facts]
        assert [each.file_bytes for each in job.facts] == sizes


@pytest.fixture
def bucket(folder: Path) -> Iterator[str]:
    """The folder in memory, behind fsspec."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for path in folder.iterdir():
        files.pipe(f"/bucket/run/{path.name}", path.read_bytes())
    files.pipe("/bucket/run/README.md", b"not a trace")
    yield "memory://bucket/run"
    files.rm("/bucket", recursive=True)


def test_a_bucket_is_read_as_a_stream(
    folder: Path, here: Job, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []
    plain = remote.RemoteFile.read

    def read(self: remote.RemoteFile, size: int = -1) -> bytes:
        found = plain(self, size)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(remote.RemoteFile, "read", read)
    with jobs.read(bucket, cache=False) as job:
        same(here, job, paths=False)
        assert [each.code for each in job.left_out] == ["E_EMPTY"]
    assert sum(fetched) == sum(path.stat().st_size for path in folder.iterdir())


def test_places_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="not a place to read from"):
        jobs.read("ftp://bucket/run")
    with pytest.raises(TraceError, match="contains no trace"):
        jobs.read("memory://nothing/here")


class _LostCluster:
    def shutdown(self) -> None:
        print("(raylet) a worker died")


def test_files_of_lost_nodes_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what Ray prints does not stand before the answer."""

    def lost(_: object, files: Mapping[str, int], *__: object) -> Iterator[tuple[str, None]]:
        print("(raylet) a node died")
        yield from ((path, None) for path in files)

    write(Plan(data=2), tmp_path)
    monkeypatch.setattr(reading, "_connected", lambda _: (_LostCluster(), True))
    monkeypatch.setattr(reading, "_contents", lost)
    with jobs.read(tmp_path, ray="auto", cache=False) as job:
        assert [each.rank for each in job.facts] == [0, 1]
        assert job.left_out == []
    out, errors = capsys.readouterr()
    assert out == ""
    assert "a node died" in errors
    assert "a worker died" in errors


class _EmptyCluster:
    """Ray as it answers once its only nodes are gone: nothing is ever done, or every task failed."""

    exceptions = SimpleNamespace(RayError=OSError, RayTaskError=KeyError)

    def __init__(self, waits: bool) -> None:
        self.waits, self.cores = waits, iter([2, 0])

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": next(self.cores)}

    def remote(self, **_: object) -> Any:
        return lambda _: SimpleNamespace(remote=lambda path, *_: path)

    def wait(self, running: list[str], num_returns: int, timeout: float) -> tuple[list[str], Any]:
        return [] if self.waits else running[:num_returns], None

    def get(self, _: str) -> bytes:
        raise OSError("the node died")

    def cancel(self, *_: object, force: bool) -> None:
        assert force


@pytest.mark.parametrize("waits", [True, False])
def test_a_cluster_that_loses_all_its_nodes_is_named(
    bucket: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in "contains no trace", or never."""
    monkeypatch.setattr(reading, "_connected", lambda _: (_EmptyCluster(waits), False))
    with pytest.raises(TraceError, match="4 of 4 files lost with their Ray workers") as found:
        jobs.read(bucket, ray="auto", cache=False)
    assert (found.value.code, found.value.exit_code) == ("E_UNREADABLE", 3)
