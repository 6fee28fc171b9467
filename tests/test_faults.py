"""Faults at every write: the disk is full, read-only, over quota or broken, or Ctrl+C comes.

An audit hook fails the n-th call that changes the file system, for n = 1, 2, … until a command
completes; a limit on file sizes fails the writes themselves. Each time the answer is right, or one
line says why there is none; nothing is left behind; and the next run is clean.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import foretrace
from foretrace.base.files import DRAFT
from foretrace.cli import main
from foretrace.read import cache, recordings
from foretrace.record.profiling import export
from foretrace.record.snapshots import SnapshotFile
from sweep import FULL

LINEAR = recordings.traces()["linear_compiled"]
REFUSALS = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EACCES)
# where the path is among the arguments of the event, and where the folder that it is relative to
CHANGES = {
    "open": (0, None),
    "os.mkdir": (0, 2),
    "os.rename": (1, 3),
    "os.remove": (0, 1),
    "os.rmdir": (0, 1),
    "os.link": (1, 3),
    "os.symlink": (1, 2),
    "os.chmod": (0, 2),
    "os.utime": (0, 3),
    "os.truncate": (0, None),
}


class Faults:
    """Fails one call below `root`: the one that `left` counts down to."""

    root, left, error, fired = "", 0, 0, ""

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.left or event not in CHANGES:
            return
        if event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        path = self._path(*(None if at is None else given[at] for at in CHANGES[event]))
        if path.startswith(self.root):
            self.left -= 1
            if not self.left:
                self.fired = f"{event} {path}"
                # signals interrupt the main thread alone
                if not self.error and threading.current_thread() is threading.main_thread():
                    raise KeyboardInterrupt
                raise OSError(self.error or errno.EIO, os.strerror(self.error or errno.EIO), path)

    @staticmethod
    def _path(path: Any, folder: int | None) -> str:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")
        inside = folder if isinstance(folder, int) and folder >= 0 else None
        within = os.readlink(f"/proc/self/fd/{inside}") if inside is not None else os.getcwd()
        return os.path.join(within, os.fsdecode(path))

    @contextmanager
    def at(self, root: Path, number: int, error: int) -> Iterator[None]:
        self.root, self.left, self.error, self.fired = str(root), number, error, ""
        try:
            yield
        finally:
            self.left = 0


FAULTS = Faults()
sys.addaudithook(FAULTS)


class Place:
    """One command with a folder of its own; `run` starts from an empty one."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        self.empty()

    def empty(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for name in ("cache", "out", "tmp"):
            (self.root / name).mkdir(parents=True)

    def files(self) -> list[str]:
        found = (path for path in self.root.rglob("*") if not path.is_dir())
        return sorted(str(path.relative_to(self.root)) for path in found)

    def drafts(self) -> list[str]:
        left = [path for path in self.root.rglob("*") if path.name.startswith(DRAFT)]
        return [str(path) for path in (*left, *(self.root / "tmp").iterdir())]

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        code = main([each.format(out=self.root / "out") for each in arguments])
        return code, *self.capsys.readouterr()


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Place:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "here" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "here" / "tmp"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    return Place(tmp_path / "here", capsys)


COMMANDS = {
    "look": ["look", str(LINEAR), "--json"],
    "check": ["check", str(LINEAR), "total.kernels > 0"],
    "report": ["report", str(LINEAR), "-o", "{out}/r.html", "--overwrite", "--no-cache"],
    "perfetto": [
        *("export", str(LINEAR), "--to", "perfetto", "--annotated", "-o", "{out}/t.json.gz"),
        *("--overwrite", "--no-browser", "--no-cache"),
    ],
    "share": ["export", str(LINEAR), "--to", "shared", "-o", "{out}/shared", "--no-cache"],
}
CACHED = ("look", "check")  # no fault may cost these their answer


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_at_every_change_of_the_file_system(name: str, place: Place) -> None:
    """Disk full, read-only, quota, broken, refused or interrupted at the n-th call; in the full
    sweep both.
    """
    sound = place.run(COMMANDS[name])
    assert sound[0] == 0
    written = place.files()
    for number in count(1):
        refusal = REFUSALS[number % len(REFUSALS)]
        for error in (refusal, 0) if FULL else ((refusal, 0)[number % 2],):
            place.empty()
            with FAULTS.at(place.root, number, error):
                code, out, said = place.run(COMMANDS[name])
            where = f"{number}: {errno.errorcode.get(error, 'Ctrl+C')} at {FAULTS.fired}"
            assert place.drafts() == [], where
            assert code in (0, 2 if error else 130), where
            assert "bug" not in said, where
            if code == 0 or (name in CACHED and error):
                assert (code, out) == sound[:2], where
            elif error:
                assert said.count("\n") == 1, (where, said)
            assert set(place.files()) <= set(written), where
            again = place.run(COMMANDS[name])
            assert (again[0], again[1].replace(" (was there)", "")) == sound[:2], where
            assert place.files() == written, where
        if not FAULTS.fired:
            break
    assert number > 4


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Writes beyond that many bytes of a file are refused, in Python and below it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_write_that_is_refused_half_way(name: str, place: Place) -> None:
    """No room for the first byte, or for the rest; Polars has errors of its own for that."""
    sound, written = place.run(COMMANDS[name]), place.files()
    largest = max((place.root / each).stat().st_size for each in written)
    for size in (0, 40, largest // 2):  # the hashes of a shared copy differ from run to run
        place.empty()
        with _largest_file(size):
            code, out, said = place.run(COMMANDS[name])
        assert place.drafts() == []
        if name in CACHED:
            assert (code, out, said) == sound
        else:
            assert (code, out) == (2, "")
            assert said.count("\n") == 1
            assert "File too large" in said
        assert place.run(COMMANDS[name])[0] == 0
        assert place.files() == written


def _snapshot(out: Path, trace: foretrace.Trace) -> object:
    return SnapshotFile(out, "test", trace, "2.13").write(Counter(a=1))


def _parquet(out: Path, trace: foretrace.Trace) -> object:
    return trace.write_parquet(out)


def _export(out: Path, trace: foretrace.Trace) -> object:
    return export.place(__file__, out / "t.json.gz", overwrite=True)


@pytest.mark.parametrize("write", [_snapshot, _parquet, _export])
def test_a_fault_in_what_python_code_writes(
    write: Callable[[Path, foretrace.Trace], object],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foretrace.Trace, "table_names", lambda self: ["kernels", "ops"])
    trace, out = foretrace.open(LINEAR, cache=False), place.root / "out"
    write(out, trace)
    written = place.files()
    for number in count(1):
        for error in (REFUSALS[number % len(REFUSALS)], 0):
            place.empty()
            with FAULTS.at(place.root, number, error), suppress(OSError, KeyboardInterrupt):
                write(out, trace)
            assert place.drafts() == []
            assert set(place.files()) <= set(written)
            write(out, trace)
            assert place.files() == written
        if not FAULTS.fired:
            break
    assert number > 4
