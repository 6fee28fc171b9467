"""Atomic writes: whole or not at all, never through a link, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foretrace.base import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "t.txt"
    files.write_text(target, "one")
    files.write_bytes(target, b"two")
    assert target.read_bytes() == b"two"
    assert names(tmp_path) == ["t.txt"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "t.txt"
    files.write_text(target, "old")

    def fail() -> None:
        with files.replacing(target) as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["t.txt"]


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    """A copy overwrote a file through a link that somebody had planted."""
    for name, leads_to in {"file": "secret", "dangling": "nowhere", "loop": "loop"}.items():
        secret, link = tmp_path / "secret", tmp_path / name
        secret.write_text("secret")
        link.symlink_to(tmp_path / leads_to)
        files.write_text(link, "new")
        assert not link.is_symlink()
        assert link.read_text() == "new"
        assert secret.read_text() == "secret"
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    """Renaming would put a file in the place of a device, as whoever may."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to(os.devnull)
    for name in ("pipe", "folder", "null"):
        with pytest.raises(OSError, match=r"plain file|directory") as refused:
            files.write_text(tmp_path / name, "new")
        assert refused.value.filename == str(tmp_path / name)
    assert names(tmp_path) == ["folder", "null", "pipe"]


def test_permissions_are_those_of_the_file_before(tmp_path: Path) -> None:
    """A private file stays private; a new one has those that the user set."""
    target = tmp_path / "t.txt"
    before = os.umask(0o027)
    try:
        files.write_text(target, "new")
        assert target.stat().st_mode & 0o777 == 0o640
        for mode in (0o600, 0o444):
            target.chmod(mode)
            files.write_text(target, "newer")
            assert target.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_draft_is_private(tmp_path: Path) -> None:
    with files.replacing(tmp_path / "t.txt") as draft:
        assert draft.parent.stat().st_mode & 0o777 == 0o700
        assert draft.parent.parent == tmp_path
        draft.write_text("new")


def test_a_refusal_names_the_target(tmp_path: Path) -> None:
    target = tmp_path / "no" / "t.txt"
    with pytest.raises(FileNotFoundError) as refused:
        files.write_text(target, "new")
    assert refused.value.filename == str(target)
    target = tmp_path / "t.txt"

    def fill() -> None:
        with files.replacing(target), open("/dev/full", "w") as full:
            full.write("x")

    with pytest.raises(OSError, match="No space left") as refused:
        fill()
    assert refused.value.filename == str(target)
    assert names(tmp_path) == []


def test_scratch_is_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with files.scratch() as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("x")
        (folder / "link").symlink_to(tmp_path)
        assert folder.parent == tmp_path
    assert names(tmp_path) == []


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    target = tmp_path / "t.txt"
    code = (
        "import sys; from pathlib import Path; from foretrace.base import files\n"
        f"for _ in range(50): files.write_text(Path({str(target)!r}), sys.argv[1] * 10_000)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, each]) for each in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    assert target.read_text() in ("a" * 10_000, "b" * 10_000)
    assert names(tmp_path) == ["t.txt"]


def test_the_draft_of_a_killed_process_is_cleared(tmp_path: Path) -> None:
    """SIGKILL runs no cleanup: a later run does it, once the process is gone and time has passed."""
    code = (
        "import time; from pathlib import Path; from foretrace.base import files\n"
        f"with files.replacing(Path({str(tmp_path)!r}) / 't.txt') as draft:\n"
        "    draft.write_text('half'); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (draft,) = tmp_path.iterdir()
        os.utime(draft, (0, 0))
        files.clear_abandoned(tmp_path)
        assert draft.exists()
        process.send_signal(signal.SIGKILL)
    files.clear_abandoned(tmp_path)
    assert names(tmp_path) == []
