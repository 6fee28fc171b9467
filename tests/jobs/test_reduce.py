"""What one file of a job is reduced to, and which files become the job."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pytest

from corpus.builder import TraceBuilder
from corpus.odd_content import merged
from foretrace import jobs
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.jobs import reduce
from foretrace.jobs.whole_job import COLUMNS as TYPES
from foretrace.jobs.whole_job import RankPart, unpacked
from foretrace.read import cache
from jobs.plan import Answer, Delay, Gaps, Plan, write
from jobs.slow_method import COLUMNS, Moments

REDUCED = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
HEADER = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}}


def part_of(path: Path) -> tuple[RankPart, dict[str, pl.DataFrame]]:
    part = reduce.reduce_file(str(path), Limits(), cache=False)
    return part, {name: unpacked(each) for name, each in part.tables.items()}


def made(trace: TraceBuilder, folder: Path, name: str = "rank0.json") -> dict[str, pl.DataFrame]:
    (folder / name).write_bytes(trace.bytes())
    return part_of(folder / name)[1]


def talk(**more: Any) -> dict[str, Any]:
    return {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 256,
        "Out msg nelems": 256, "Group size": 2, "Process Group Name": "0",
    } | more  # fmt: skip


class Reduced(NamedTuple):
    """A file of a job: its events one by one, and what it is reduced to."""

    slow: Moments
    part: RankPart
    tables: dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> list[Reduced]:
    """Two stages of a pipeline with two ranks each: sends and receives, and all-reduces."""
    folder = tmp_path_factory.mktemp("pipeline")
    late = Delay("data", 300_000, ranks=(1,))
    plan = Plan(data=2, pipeline=2, ranks_per_host=2, microbatches=2, steps=2, delays=(late,))
    write(plan, folder)
    return [Reduced(Moments(path), *part_of(path)) for path in sorted(folder.iterdir())]


def test_steps_and_collectives_by_a_second_method(pipeline: list[Reduced]) -> None:
    for slow, _, tables in pipeline:
        for row in tables["steps"].to_dicts():
            expected = slow.between(row["window_start_ns"], row["window_end_ns"])
            assert {name: row[name] for name in COLUMNS} == expected
        for row in tables["collectives"].to_dicts():
            before = slow.between(row["since_ns"], row["start_ns"])
            before["comms_ns"] -= before["both_ns"]
            told = ("compute_ns", "comms_ns", "copy_ns", "idle_ns", "data_ns")
            assert {name: row[name] for name in told} == {name: before[name] for name in told}
            under = slow.between(row["start_ns"], row["end_ns"])
            assert row["alone_ns"] == row["end_ns"] - row["start_ns"] - under["compute_ns"]


def test_windows_tile_and_spans_hold_all_work(pipeline: list[Reduced]) -> None:
    for slow, part, tables in pipeline:
        steps, spans = tables["steps"], tables["spans"]
        assert steps["window_start_ns"].to_list()[1:] == steps["window_end_ns"].to_list()[:-1]
        assert steps["window_start_ns"][0] == steps["start_ns"][0]
        work = [
            each for each in slow.events if "gpu" in each[2]["cat"] or each[2]["cat"] == "kernel"
        ]
        assert spans["count"].sum() == len(
            [each for each in work if "annotation" not in each[2]["cat"]]
        )
        talks = (
            spans.filter(kind="comms").select("collective", "start_ns", "end_ns").sort("collective")
        )
        told = tables["collectives"].select(pl.col("id").alias("collective"), "start_ns", "end_ns")
        assert talks.equals(told.sort("collective"))
        assert part.facts.steps == tuple(steps["step"])
        assert steps["collectives"].sum() == told.height


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER).step(1, 0, 9_000).launch(0, 10)
    trace.kernel(REDUCED, 100, 900, args=talk() | {"stream": None})
    trace.events[-1]["tid"] = "a queue"
    tables = made(trace, tmp_path)
    assert tables["spans"]["stream"].to_list() == [None]
    told = tables["collectives"].select("stream", "ready_ns", "seq", "peer")
    assert told.rows() == [(None, None, None, None)]


def test_a_step_that_the_recording_cut(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER)
    for number, kernels in enumerate((4, 4, 4, 1)):
        start = number * 100_000
        trace.step(number, start, 99_000 if kernels > 1 else 9_000)
        for at in range(kernels):
            trace.launch(start + at * 1_000, 500).kernel("a", start + at * 1_000 + 700, 200)
    tables = made(trace, tmp_path)
    assert tables["steps"]["whole"].to_list() == [True, True, True, False]
    assert tables["kernels"].select("count", "per_step").rows() == [(12, 4.0)]


def test_a_step_whose_gpu_events_are_lost(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER)
    for number in range(3):
        start = number * 100_000
        trace.step(number, start, 99_000)
        for at in range(4):
            trace.launch(start + at * 1_000, 500)
            if (number, at) != (1, 3):
                trace.kernel("a", start + at * 1_000 + 700, 200)
    assert made(trace, tmp_path)["steps"]["whole"].to_list() == [True, False, True]


def test_a_recording_without_steps_is_one(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER).launch(0, 10).kernel(REDUCED, 100, 900, args=talk())
    tables = made(trace.launch(1_000, 10).kernel("a", 1_500, 500), tmp_path)
    assert tables["steps"].select("step", "compute_ns", "comms_ns", "idle_ns").rows() == [
        (-1, 500, 900, 600)
    ]
    assert tables["collectives"]["step"].to_list() == [-1]


def test_on_the_host_ops_compute_and_gloo_talks(tmp_path: Path) -> None:
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    info = {"backend": "gloo", "rank": 0, "world_size": 2, "pg_config": groups}
    trace = TraceBuilder(header={"distributedInfo": info, "host_name": "alpha"})
    trace.step(1, 0, 10_000)
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace.region(loader, 100, 1_000).op("aten::stack", 200, 300)
    trace.op("aten::mm", 2_000, 3_000)
    trace.op("c10d::allreduce_", 5_500, 100)
    sizes = {"Input Dims": [[8, 4]], "Input type": ["float"]}
    trace.host("user_annotation", "gloo:all_reduce", 6_000, 2_000, tid=7, args=sizes)
    given = {"Concrete Inputs": ["", "", "1", "0"]}
    trace.op("c10d::send", 8_500, 100, dims=[[], [], [], []], args=given)
    trace.host("user_annotation", "gloo:send", 8_600, 400, args=sizes)
    tables = made(trace, tmp_path)
    step = tables["steps"].row(0, named=True)
    assert [step[name] for name in COLUMNS] == [3_000, 2_400, 0, 0, 4_600, 1_000, 3_600]
    told = tables["collectives"].select(
        "collective", "group", "dtype", "message_bytes", "peer", "on_host", "compute_ns", "data_ns"
    )
    assert told.rows() == [
        ("all-reduce", "0", "Float", 128, None, True, 3_000, 1_000),
        ("send", "0", "Float", 128, 1, True, 0, 0),
    ]
    asked = tables["collectives"].select(pl.col("start_ns") - pl.col("launch_ns"))
    assert asked.to_series().to_list() == [500, 100]
    assert tables["host"]["kind"].to_list() == ["data", "comms", "comms"]
    facts = part_of(tmp_path / "rank0.json")[0].facts
    assert (facts.host, facts.groups[0].ranks) == ("alpha", (0, 1))


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
