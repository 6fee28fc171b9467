"""The second open: equal to the first, safe when two processes write it, never in anybody's way;
and the files it is made of: private, checked, and never a way to another place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import foretrace
from foretrace import files, notices, recordings
from foretrace.overview.reading import overview_of
from foretrace.sources import cache, entries
from foretrace.sources.limits import Limits

TRACE = recordings.traces()["mlp_eager"]
EVENTS = 243
LARGE = recordings.traces()["llama_train_eager"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(notices, "_said", set())
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    return tmp_path / "cache"


def kept(place: Path, kind: str = "*") -> list[Path]:
    """The entries of a kind."""
    return sorted((place / entries.FOLDER).glob(f"*.{kind}"))


def damage(place: Path, content: bytes) -> Path:
    """Replace the content of an entry and keep its checksum sound."""
    place.unlink()
    entries.write(place.name, [content])
    return place


def test_the_second_open_equals_the_first(place: Path) -> None:
    first = foretrace.open(TRACE)
    assert len(kept(place, "tables")) == 1
    second = foretrace.open(TRACE)
    assert second.ledger == first.ledger
    for name in first.table_names():
        assert second.table(name).equals(first.table(name)), name


def test_a_kept_document_equals_a_fresh_one(place: Path) -> None:
    fresh = overview_of(str(TRACE), cache=False)
    overview_of(str(TRACE))
    assert kept(place, "document")
    assert overview_of(str(TRACE)) == fresh


def test_without_cache_nothing_is_written(place: Path) -> None:
    foretrace.open(TRACE, cache=False)
    overview_of(str(TRACE), cache=False)
    assert not place.exists()


def test_small_traces_are_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 1 << 20)
    foretrace.open(TRACE)
    assert not place.exists()


def test_changed_content_is_read_again(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(TRACE.read_bytes())
    before = cache.key_of(str(path))
    path.write_bytes(TRACE.read_bytes() + b"\0")
    assert cache.key_of(str(path)) != before


def test_a_run_record_that_came_later_counts(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(TRACE.read_bytes())
    assert overview_of(str(path)).look.host_times_profiled
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 30_000_000}}
    (tmp_path / "t.run.json").write_text(json.dumps(record))
    for _ in range(2):  # made, then kept
        assert not overview_of(str(path)).look.host_times_profiled


def test_a_damaged_entry_is_read_anew(place: Path) -> None:
    """Bits flipped anywhere in the tables: never a number from them."""
    foretrace.open(TRACE)
    (tables,) = kept(place, "tables")
    sound = tables.read_bytes()
    for at in range(0, len(sound), len(sound) // 7):
        tables.write_bytes(sound[:at] + bytes([sound[at] ^ 16]) + sound[at + 1 :])
        assert cache.load(str(TRACE)) is None
        assert not tables.exists()
    assert foretrace.open(TRACE).event_count == EVENTS
    assert tables.read_bytes() == sound


def test_no_damage_to_an_entry_is_believed(place: Path) -> None:
    """400 damaged entries: each bit flipped, cut, longer, of zeros, or under another name."""
    name, other = (entries.named("key", number) for number in range(2))
    entries.write(name, [b"content"])
    file = place / entries.FOLDER / name
    sound = file.read_bytes()
    assert len(sound) == len(b"content") + entries.DIGEST
    flipped = [
        sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :]
        for at in range(len(sound))
        for bit in range(8)
    ]
    cut = [sound[:length] for length in range(len(sound))]
    for content in [*flipped, *cut, sound + b"\0", bytes(len(sound)), bytes(64), b""]:
        file.write_bytes(content)
        assert entries.read(name) is None
        assert not file.exists()
    file.with_name(other).write_bytes(sound)
    assert entries.read(other) is None
    file.write_bytes(sound)
    assert entries.read(name) == b"content"


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("FORETRACE_CACHE", str(blocked / "cache"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    assert foretrace.open(TRACE).event_count == EVENTS


def test_two_processes_at_once(place: Path) -> None:
    code = f"import foretrace; print(foretrace.open({str(LARGE)!r}).event_count)"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in running] == [b"52856"] * 3
    assert len(kept(place, "tables")) == 1
    assert not list((place / entries.FOLDER).glob(".*"))
    assert foretrace.open(LARGE).event_count == 52_856


def test_a_size_that_was_never_kept_is_not_hashed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    hash_of = cache._hash
    monkeypatch.setattr(cache, "_hash", lambda path: hashed.append(path) or hash_of(path))
    assert cache.load(str(TRACE)) is None
    assert not hashed
    overview_of(str(TRACE))
    copied = tmp_path / "copy.json.gz"
    copied.write_bytes(TRACE.read_bytes())
    assert cache.load_document(str(copied), "nothing") is None
    assert hashed == [str(TRACE), str(copied)]  # of one size: the content decides


def test_a_file_that_changed_meanwhile_is_not_kept(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(TRACE.read_bytes())
    stamp = cache.stamp_of(str(path))
    path.write_bytes(TRACE.read_bytes() + b"\0")
    cache.save_document(str(path), stamp, "look", lambda: b"{}")
    assert not kept(place, "document")


def test_other_limits_are_another_reading(place: Path) -> None:
    few = Limits(events=100)
    assert overview_of(str(TRACE), limits=few).look.ledger.seen == 100
    assert foretrace.open(TRACE, limits=few).event_count == 100
    assert not place.exists()
    assert overview_of(str(TRACE)).look.ledger.seen == EVENTS
    assert foretrace.open(TRACE).event_count == EVENTS
    assert foretrace.open(TRACE, limits=few).event_count == 100


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"look": 3}', b"\xff"])
def test_another_programs_document_is_made_anew(content: bytes, place: Path) -> None:
    fresh = overview_of(str(TRACE))
    (document,) = kept(place, "document")
    sound = document.read_bytes()
    damage(document, content)
    assert overview_of(str(TRACE)) == fresh
    assert document.read_bytes() == sound


def _facts(text: bytes) -> bytes:
    return text + len(text).to_bytes(8, "little")


@pytest.mark.parametrize(
    "content", [b"", b"{}", *map(_facts, (b"{}", b"[]", b'{"sizes": {"a": 9}}', b'{"sizes": {}}'))]
)
def test_another_programs_tables_are_read_anew(content: bytes, place: Path) -> None:
    foretrace.open(TRACE)
    (tables,) = kept(place, "tables")
    sound = tables.read_bytes()
    damage(tables, content)
    assert foretrace.open(TRACE).event_count == EVENTS
    assert tables.read_bytes() == sound


@pytest.mark.parametrize(
    "content", [bytes(64), b"/etc", b"../../x", b"A" * 64, b"0" * 63 + b"\n", b"0" * 64 + b"\n"]
)
def test_a_memo_is_64_hex_digits_or_nothing(content: bytes, place: Path) -> None:
    """A NUL-filled memo, or one with another path, was believed."""
    key = cache.key_of(str(TRACE))
    (memo,) = kept(place, "key")
    damage(memo, content)
    assert cache.key_of(str(TRACE)) == key
    assert entries.read(memo.name) == key.encode()


def test_a_memo_without_checksum_is_nothing(place: Path) -> None:
    key = cache.key_of(str(TRACE))
    (memo,) = kept(place, "key")
    memo.write_bytes(bytes(64))
    assert cache.key_of(str(TRACE)) == key


def test_the_cache_is_private(place: Path) -> None:
    """Nobody else can read what a trace says."""
    before = os.umask(0)
    try:
        foretrace.open(TRACE)
    finally:
        os.umask(before)
    folder = place / entries.FOLDER
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
    folder = place / entries.FOLDER
    if which == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        theirs = (place if which == "root" else folder).stat()
        monkeypatch.setattr(entries, "_foreign", lambda known: known.st_ino == theirs.st_ino)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert cache.load(str(TRACE)) is None
    assert foretrace.open(TRACE).event_count == EVENTS
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    said = capsys.readouterr().err
    assert said.startswith("foretrace: warning: the cache is not used: ")
    assert said.count("\n") == 1


def test_an_entry_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foretrace.open(TRACE)
    (tables,) = kept(place, "tables")
    theirs = tables.stat().st_ino
    monkeypatch.setattr(entries, "_foreign", lambda known: known.st_ino == theirs)
    assert cache.load(str(TRACE)) is None


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


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME and a user that the system does not know."""

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("FORETRACE_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    assert entries.folder() is None
    assert foretrace.open(TRACE).event_count == EVENTS


def test_two_formats_share_a_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of the program on one cache: each finds its own, and a memo is not shared."""
    foretrace.open(TRACE)
    own = kept(place)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.load(str(TRACE)) is None
    foretrace.open(TRACE)
    assert len(kept(place)) == 2 * len(own)
    for number in (cache.FORMAT, cache.FORMAT - 1):
        monkeypatch.setattr(cache, "FORMAT", number)
        assert cache.load(str(TRACE)) is not None


def test_the_least_recently_used_go_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the clock went back: an entry of the future is not the most recent one."""
    names = [entries.named("key", number) for number in range(4)]
    for age, name in enumerate(names):
        entries.write(name, [b"x"])
        used = time.time() + (86_400 if age == 3 else -100 * age)
        os.utime(place / entries.FOLDER / name, (used, used))
    monkeypatch.setattr(entries, "KEEP_BYTES", 3 * entries.BLOCK)
    new = entries.named("key", "new")
    entries.write(new, [b"x"])
    assert {path.name for path in kept(place)} == {new, *names[:2]}


def test_only_entries_are_deleted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that the user chose may hold other files, links and folders."""
    foretrace.open(TRACE)
    folder = place / entries.FOLDER
    others = [place / "tables", folder / "notes.txt", folder / "link.txt", folder / "folder"]
    others[0].write_text("mine")
    others[1].write_text("mine")
    others[2].symlink_to(TRACE)
    others[3].mkdir()
    link = folder / entries.named("tables", "planted")
    link.symlink_to(TRACE)
    monkeypatch.setattr(entries, "KEEP_BYTES", 0)
    entries.write(entries.named("key", "new"), [b"x"])
    assert kept(place, "tables") == kept(place, "key") == []
    assert all(path.exists() for path in (*others, TRACE))


def _draft(folder: Path, process: int, age_s: float) -> Path:
    draft = folder / f"{files.DRAFT}{process}-0123"
    draft.mkdir()
    (draft / "content").write_text("half")
    then = time.time() - age_s
    os.utime(draft, (then, then))
    return draft


def test_drafts_of_processes_that_were_killed_are_cleared(place: Path) -> None:
    """A draft that an interrupted run left behind stayed for ever."""
    entries.write(entries.named("key", "first"), [b"x"])
    folder = place / entries.FOLDER
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = _draft(folder, gone.pid, 2 * files.ABANDONED_S)
    young, alive = _draft(folder, gone.pid + 1, 0), _draft(folder, os.getpid(), 86_400)
    link = folder / f"{files.DRAFT}{gone.pid}-link"
    link.symlink_to(TRACE.parent)
    entries.write(entries.named("key", "second"), [b"x"])
    assert not left.exists()
    assert young.exists()
    assert alive.exists()
    assert TRACE.exists()
