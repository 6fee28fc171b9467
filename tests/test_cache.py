"""The second open: equal to the first, safe when two processes write it, never in anybody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import foretrace
from foretrace import recordings
from foretrace.overview.reading import overview_of
from foretrace.sources import cache
from foretrace.sources.limits import Limits

LARGE = recordings.traces()["llama_train_eager"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_second_open_equals_the_first(place: Path) -> None:
    first = foretrace.open(LARGE)
    assert len(list((place / "tables").iterdir())) == 1
    second = foretrace.open(LARGE)
    assert second.ledger == first.ledger
    for name in first.table_names():
        assert second.table(name).equals(first.table(name)), name


def test_a_kept_document_equals_a_fresh_one(place: Path) -> None:
    fresh = overview_of(str(LARGE), cache=False)
    overview_of(str(LARGE))
    assert list((place / "documents").iterdir())
    assert overview_of(str(LARGE)) == fresh


def test_without_cache_nothing_is_written(place: Path) -> None:
    foretrace.open(LARGE, cache=False)
    overview_of(str(LARGE), cache=False)
    assert not place.exists()


def test_small_traces_are_not_kept(place: Path) -> None:
    foretrace.open(recordings.traces()["mlp_eager"])
    assert not place.exists()


def test_changed_content_is_read_again(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(LARGE.read_bytes())
    kept = cache.key_of(str(path))
    path.write_bytes(LARGE.read_bytes() + b"\0")
    assert cache.key_of(str(path)) != kept


def test_a_run_record_that_came_later_counts(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(LARGE.read_bytes())
    assert overview_of(str(path)).look.host_times_profiled
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 30_000_000}}
    (tmp_path / "t.run.json").write_text(json.dumps(record))
    for _ in range(2):  # made, then kept
        assert not overview_of(str(path)).look.host_times_profiled


def test_a_damaged_entry_is_read_anew(place: Path) -> None:
    foretrace.open(LARGE)
    for file in (place / "tables").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    assert foretrace.open(LARGE).event_count == 52_856


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("FORETRACE_CACHE", str(blocked / "cache"))
    assert foretrace.open(LARGE).event_count == 52_856


def test_two_processes_at_once(place: Path) -> None:
    code = f"import foretrace; print(foretrace.open({str(LARGE)!r}).event_count)"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in running] == [b"52856"] * 3
    entries = list((place / "tables").iterdir())
    assert len(entries) == 1
    assert not entries[0].name.startswith(".")
    assert foretrace.open(LARGE).event_count == 52_856


def test_a_size_that_was_never_kept_is_not_hashed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    kept = cache._hash
    monkeypatch.setattr(cache, "_hash", lambda path: hashed.append(path) or kept(path))
    assert cache.load(str(LARGE)) is None
    assert not hashed
    overview_of(str(LARGE))
    copied = tmp_path / "copy.json.gz"
    copied.write_bytes(LARGE.read_bytes())
    assert cache.load_document(str(copied), "nothing") is None
    assert hashed == [str(LARGE), str(copied)]  # of one size: the content decides


def test_a_file_that_changed_meanwhile_is_not_kept(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(LARGE.read_bytes())
    stamp = cache.stamp_of(str(path))
    path.write_bytes(LARGE.read_bytes() + b"\0")
    cache.save_document(str(path), stamp, "look", lambda: b"{}")
    assert not (place / "documents").exists()


def test_other_limits_are_another_reading(place: Path) -> None:
    few = Limits(events=1000)
    assert overview_of(str(LARGE), limits=few).look.ledger.seen == 1000
    assert foretrace.open(LARGE, limits=few).event_count == 1000
    assert not place.exists()
    assert overview_of(str(LARGE)).look.ledger.seen == 52_856
    assert foretrace.open(LARGE).event_count == 52_856
    assert foretrace.open(LARGE, limits=few).event_count == 1000


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"look": 3}', b"\xff"])
def test_a_damaged_document_is_made_anew(content: bytes, place: Path) -> None:
    fresh = overview_of(str(LARGE))
    (kept,) = (place / "documents").iterdir()
    kept.write_bytes(content)
    assert overview_of(str(LARGE)) == fresh
    assert kept.read_bytes() != content


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"notes": [3], "ledger": []}'])
def test_damaged_facts_about_the_tables_are_read_anew(content: bytes, place: Path) -> None:
    foretrace.open(LARGE)
    (facts,) = (place / "tables").rglob("meta.json")
    facts.write_bytes(content)
    assert foretrace.open(LARGE).event_count == 52_856
    assert facts.read_bytes() != content


def test_documents_are_trimmed_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overview_of(str(LARGE))
    monkeypatch.setattr(cache, "KEEP_DOCUMENT_BYTES", 0)
    stamp = cache.stamp_of(str(LARGE))
    cache.save_document(str(LARGE), stamp, "other", lambda: b"{}")
    assert list((place / "documents").iterdir()) == []
