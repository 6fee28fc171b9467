"""The job that the parts of its files become: which are chosen, which are left out, what is kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import polars as pl
import pytest

from analyze.jobs.plan import Answer, Gaps, Plan, write
from corpus.builder import TraceBuilder
from corpus.cases_places import merged
from foretrace.analyze import jobs
from foretrace.analyze.jobs import reduce
from foretrace.analyze.jobs.job import COLUMNS as TYPES
from foretrace.base.errors import TraceError, UsageError
from foretrace.read import cache


def test_tables_have_the_rank(small_job: tuple[Path, Answer]) -> None:
    with jobs.read(small_job[0], cache=False) as job:
        assert [each.rank for each in job.facts] == [0, 1, 2, 3]
        for name in TYPES:
            table = job.table(name).collect()
            assert dict(table.schema) == {"rank": pl.Int64, **TYPES[name]}
            assert table["rank"].is_sorted()
            assert table["rank"].n_unique() == 4


def test_ranks_and_steps_are_chosen(small_job: tuple[Path, Answer]) -> None:
    with jobs.read(small_job[0], ranks="1-2", steps="3", cache=False) as job:
        assert [each.rank for each in job.facts] == [1, 2]
        assert set(job.table("steps").collect().select("rank", "step").iter_rows()) == {
            (1, 3), (2, 3),
        }  # fmt: skip
        assert set(job.table("collectives").collect()["step"]) == {3}


@pytest.mark.parametrize("ranks", ["x", "3-1", "1-", "-1", "", "1,,2", "0-99999999999"])
def test_ranks_that_are_none(small_job: tuple[Path, Answer], ranks: str) -> None:
    with pytest.raises(UsageError, match="write numbers and ranges"):
        jobs.read(small_job[0], ranks=ranks)


def test_names_of_all_ranks_spare_the_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Plan(data=4, by_rank=True), tmp_path)
    read: list[str] = []
    plain = reduce.reduce_file
    monkeypatch.setattr(
        reduce, "reduce_file", lambda path, *rest: read.append(path) or plain(path, *rest)
    )
    with jobs.read(tmp_path, ranks="2", cache=False) as job:
        assert [each.rank for each in job.facts] == [2]
    assert len(read) == 1


def test_one_file_of_a_rank_and_one_run_are_in_the_tables(tmp_path: Path) -> None:
    write(Plan(data=4, gaps=Gaps(double=(1,), worlds={3: 8})), tmp_path)
    with jobs.read(tmp_path, cache=False) as job:
        assert [each.rank for each in job.facts] == [0, 1, 1, 2, 3]
        assert [each.rank for each in job.members] == [0, 1, 2]
        assert job.table("steps").collect().height == 9


def test_files_without_a_rank_are_numbered_by_path(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.json").write_bytes(TraceBuilder().op("aten::add", 0, 10).bytes())
    with jobs.read(tmp_path) as job:
        assert [(each.rank, Path(each.path).name) for each in job.facts] == [
            (0, "a.json"), (1, "b.json"), (2, "c.json"),
        ]  # fmt: skip
        assert [note.code for note in job.notes] == ["rank_unknown"]


def test_a_file_that_cannot_be_read_costs_that_file(tmp_path: Path) -> None:
    write(Plan(data=4, gaps=Gaps(empty=(1,), damaged=(3,))), tmp_path)
    with jobs.read(tmp_path, cache=False) as job:
        assert [each.rank for each in job.facts] == [0, 2]
        assert len(job.left_out) == 2
        assert all(each.code and each.text for each in job.left_out)


def test_ranks_in_one_merged_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "merged.json").write_bytes(merged([0, 1, 2, 3]).bytes())
    with pytest.raises(TraceError, match="ranks were merged into this file"):
        jobs.read(tmp_path)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="contains no trace"):
        jobs.read(tmp_path)
    with pytest.raises(TraceError, match="No such file"):
        jobs.read(tmp_path / "none")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(TraceError, match="contains no trace"):
        jobs.read(tmp_path)


def test_closing_deletes_the_parts(small_job: tuple[Path, Answer]) -> None:
    job = jobs.read(small_job[0], cache=False)
    folder = Path(job._folder.name)
    assert list(folder.iterdir())
    job.close()
    assert not folder.exists()


def test_an_unchanged_file_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    write(Plan(data=2), tmp_path / "job")
    read = list[str]()
    reduced = reduce.reduced
    monkeypatch.setattr(reduce, "reduced", lambda *given: read.append("") or reduced(*given))
    with jobs.read(tmp_path / "job") as first, jobs.read(tmp_path / "job") as second:
        assert len(read) == 2
        assert first.facts == second.facts
        for name in TYPES:
            assert first.table(name).collect().equals(second.table(name).collect())
    changed = min((tmp_path / "job").iterdir())
    document = json.loads(gzip.decompress(changed.read_bytes()))
    document["distributedInfo"]["rank"] = 7
    changed.write_bytes(gzip.compress(msgspec.json.encode(document)))
    with jobs.read(tmp_path / "job") as third:
        assert [each.rank for each in third.facts] == [1, 7]
    assert len(read) == 3


def test_of_two_recordings_of_a_run_one_is_read(tmp_path: Path) -> None:
    write(Plan(data=3, by_rank=True), tmp_path / "early")
    write(Plan(data=3, by_rank=True, first_step=90, gaps=Gaps(missing=(1,))), tmp_path / "a_late")
    with jobs.read(tmp_path, cache=False) as job:
        assert len(job.facts) == 5
        assert [each.steps for each in job.members] == [(2, 3, 4)] * 3
