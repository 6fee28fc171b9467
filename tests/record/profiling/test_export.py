"""A trace that exists is a whole one, in the place it was meant for."""

from __future__ import annotations

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foretrace.base.errors import ForetraceError, UsageError
from foretrace.record.profiling import export


class Writes:
    """Stands for a stopped profiler."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def export_chrome_trace(self, path: str) -> None:
        if self.text is not None:
            Path(path).write_text(self.text, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "trace", "record"),
    [
        ("new/run", "new/run.json.gz", "new/run.run.json"),
        ("run.json", "run.json", "run.run.json"),
        ("run_2.json.gz", "run_2.json.gz", "run_2.run.json"),
    ],
)
def test_a_trace_has_a_suffix_a_folder_and_its_record_beside_it(
    name: str, trace: str, record: str, tmp_path: Path
) -> None:
    target = export.trace_path(tmp_path / name)
    assert (target, export.record_path(target)) == (tmp_path / trace, tmp_path / record)
    assert target.parent.is_dir()


def test_what_is_no_place_for_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        export.trace_path(f"{tmp_path}/")
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="cannot create the folder"):
        export.trace_path(tmp_path / "taken" / "run")


def test_ranks_do_not_write_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    made = export.trace_path(tmp_path / "run")
    assert made.name == "run_rank1.json.gz"
    # a recorder gives the name that it made to its window: that was run_rank1_rank1.json.gz
    assert export.trace_path(made) == made
    assert export.trace_path(tmp_path / "run_rank12").name == "run_rank12_rank1.json.gz"
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert export.trace_path(tmp_path / "run").name == "run.json.gz"


def test_traces_are_numbered_and_replaced_only_on_request(tmp_path: Path) -> None:
    target = tmp_path / "run.json.gz"
    written = [export.export(Writes(text), target) for text in "abc"]
    assert [path.name for path in written] == ["run.json.gz", "run_2.json.gz", "run_3.json.gz"]
    assert export.export(Writes("d"), target, overwrite=True) == target
    assert [gzip.decompress(path.read_bytes()) for path in written] == [b"d", b"b", b"c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in written]


@pytest.mark.parametrize("links", [True, False])
def test_exports_at_once_keep_every_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Four exports at once kept one file."""

    def refuse(source: object, target: Path) -> None:
        if target.exists():
            raise FileExistsError
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    texts = [f"{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        written = list(
            threads.map(lambda text: export.export(Writes(text), tmp_path / "run.json"), texts)
        )
    assert [path.read_text() for path in written] == texts
    assert sorted(tmp_path.iterdir()) == sorted(written)


def test_what_torch_does_not_write_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ForetraceError, match="wrote no trace"):
        export.export(Writes(None), tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []
