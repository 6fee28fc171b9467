"""The second open: equal to the first, safe when two processes write it, never in anybody's way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace
from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.look.reading import overview_of
from foretrace.read import cache, recordings
from foretrace.read.bytestream import UNPACKED

TRACE = recordings.traces()["mlp_eager"]
EVENTS = 243


def kept(place: Path, kind: str = "*") -> list[Path]:
    """The entries of a kind."""
    return sorted((place / cache.FOLDER).glob(f"*.{kind}"))


def damage(place: Path, content: bytes) -> Path:
    """Replace the content of an entry and keep its checksum sound."""
    place.unlink()
    cache.write(place.name, [content])
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


def test_changed_content_is_read_again(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(TRACE.read_bytes())
    for _ in range(2):
        assert foretrace.open(path).event_count == EVENTS
    assert cache.load(str(path)) is not None
    path.write_bytes(TRACE.read_bytes())  # of one size: the time decides
    assert cache.load(str(path)) is None


def test_a_run_record_that_came_later_counts(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(TRACE.read_bytes())
    assert overview_of(str(path)).look.host_times_profiled
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 30_000_000}}
    (tmp_path / "t.run.json").write_text(json.dumps(record))
    for _ in range(2):  # made, then kept
        assert not overview_of(str(path)).look.host_times_profiled


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("FORETRACE_CACHE", str(blocked / "cache"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    assert foretrace.open(TRACE).event_count == EVENTS


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


def test_two_formats_share_a_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of the program on one cache: each finds its own."""
    foretrace.open(TRACE)
    own = kept(place)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.load(str(TRACE)) is None
    foretrace.open(TRACE)
    assert len(kept(place)) == 2 * len(own)
    for number in (cache.FORMAT, cache.FORMAT - 1):
        monkeypatch.setattr(cache, "FORMAT", number)
        assert cache.load(str(TRACE)) is not None


def test_a_large_trace_is_counted_before_its_tables_are_loaded(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foretrace.open(TRACE)
    unpacked, counted = cache._unpacked, []
    with budget.ceiling(str(TRACE), Limits()) as work:

        def watched(content: memoryview) -> object:
            counted.append(work.read)
            return unpacked(content)

        monkeypatch.setattr(cache, "_unpacked", watched)
        foretrace.open(TRACE)
    size = UNPACKED * TRACE.stat().st_size
    [read] = counted
    assert size <= read < size + 2000  # what the door unpacks to recognise it
