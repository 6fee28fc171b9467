"""The files of the cache: private, checked, and never a way to another place."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import foretrace
from foretrace.read import cache, recordings

TRACE = recordings.traces()["mlp_eager"]
EVENTS = 243


def kept(place: Path, kind: str = "*") -> list[Path]:
    """The entries of a kind."""
    return sorted((place / cache.FOLDER).glob(f"*.{kind}"))


def test_no_damage_to_an_entry_is_believed(place: Path) -> None:
    """400 damaged entries: each bit flipped, cut, longer, of zeros, or under another name."""
    name, other = (cache.named("key", number) for number in range(2))
    cache.write(name, [b"content"])
    file = place / cache.FOLDER / name
    sound = file.read_bytes()
    assert len(sound) == len(b"content") + cache.DIGEST
    flipped = [
        sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :]
        for at in range(len(sound))
        for bit in range(8)
    ]
    cut = [sound[:length] for length in range(len(sound))]
    for content in [*flipped, *cut, sound + b"\0", bytes(len(sound)), bytes(64), b""]:
        file.write_bytes(content)
        assert cache.read(name) is None
        assert not file.exists()
    file.with_name(other).write_bytes(sound)
    assert cache.read(other) is None
    file.write_bytes(sound)
    assert cache.read(name) == b"content"


def test_the_cache_is_private(place: Path) -> None:
    """Nobody else can read what a trace says."""
    before = os.umask(0)
    try:
        foretrace.open(TRACE)
    finally:
        os.umask(before)
    folder = place / cache.FOLDER
    assert {path.stat().st_mode & 0o777 for path in (place, folder)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    folder.chmod(0o777)
    assert cache.load(str(TRACE)) is not None
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("which", ["root", "folder", "link"])
def test_what_belongs_to_others_is_not_used(
    which: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another user's entries were believed, and their folder decided what was deleted."""
    foretrace.open(TRACE)
    folder = place / cache.FOLDER
    if which == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        theirs = (place if which == "root" else folder).stat()
        monkeypatch.setattr(cache, "_foreign", lambda known: known.st_ino == theirs.st_ino)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert cache.load(str(TRACE)) is None
    assert foretrace.open(TRACE).event_count == EVENTS
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    said = capsys.readouterr().err
    assert said.startswith("foretrace: warning: the cache is not used: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("of", [TRACE, Path("/dev/zero"), Path("/nowhere")])
def test_an_entry_that_is_a_link_is_replaced(of: Path, place: Path) -> None:
    foretrace.open(TRACE)
    (tables,) = kept(place, "tables")
    tables.unlink()
    tables.symlink_to(of)
    assert foretrace.open(TRACE).event_count == EVENTS
    if of != Path("/dev/zero"):  # a device is left alone
        assert not tables.is_symlink()
    assert TRACE.stat().st_size > 1000


def test_the_least_recently_used_go_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the clock went back: an entry of the future is not the most recent one."""
    names = [cache.named("key", number) for number in range(4)]
    for age, name in enumerate(names):
        cache.write(name, [b"x"])
        used = time.time() + (86_400 if age == 3 else -100 * age)
        os.utime(place / cache.FOLDER / name, (used, used))
    monkeypatch.setattr(cache, "KEEP_BYTES", 3 * cache.BLOCK)
    new = cache.named("key", "new")
    cache.write(new, [b"x"])
    assert {path.name for path in kept(place)} == {new, *names[:2]}


def test_only_entries_are_deleted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that the user chose may hold other files, links and folders."""
    foretrace.open(TRACE)
    folder = place / cache.FOLDER
    others = [place / "tables", folder / "notes.txt", folder / "link.txt", folder / "folder"]
    others[0].write_text("mine")
    others[1].write_text("mine")
    others[2].symlink_to(TRACE)
    others[3].mkdir()
    link = folder / cache.named("tables", "planted")
    link.symlink_to(TRACE)
    monkeypatch.setattr(cache, "KEEP_BYTES", 0)
    cache.write(cache.named("key", "new"), [b"x"])
    assert kept(place, "tables") == kept(place, "key") == []
    assert all(path.exists() for path in (*others, TRACE))
