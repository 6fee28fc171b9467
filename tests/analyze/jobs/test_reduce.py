"""What one file of a job is reduced to, and which files become the job."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pytest

from analyze.jobs.plan import Answer, Delay, Gaps, Plan, write
from analyze.jobs.slow_method import COLUMNS, Moments
from corpus.builder import TraceBuilder
from corpus.odd_content import merged
from foretrace.analyze import jobs
from foretrace.analyze.jobs import reduce
from foretrace.analyze.jobs.whole_job import COLUMNS as TYPES
from foretrace.analyze.jobs.whole_job import unpacked
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.read import cache
from foretrace.schema.jobs import RankPart

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


def test_what_is_written_beside_a_collective(pipeline: list[Reduced]) -> None:
    for slow, _, tables in pipeline:
        stated = {
            (start, each["tid"]): each["args"]
            for start, _, each in slow.events
            if each["cat"] == "kernel" and "nccl" in each["name"]
        }
        for row in tables["collectives"].to_dicts():
            args = stated[row["start_ns"], row["stream"]]
            assert (row["group"], row["seq"]) == (args["Process Group Name"], args["Seq"])
            assert row["group_size"] == args["Group size"]
            assert row["peer"] == args.get(
                "Dst Rank" if row["collective"] == "send" else "Src Rank"
            )
            most = max(args["In msg nelems"], args["Out msg nelems"])
            assert row["message_bytes"] in (2 * most, 4 * most)


def test_order_and_since(pipeline: list[Reduced]) -> None:
    told = pipeline[0].tables["collectives"]
    begins = dict(pipeline[0].tables["steps"].select("step", "window_start_ns").iter_rows())
    for _, group in told.group_by("group"):
        rows = group.sort("launch_ns").to_dicts()
        assert [row["order"] for row in rows] == list(range(len(rows)))
        ends = [begins[rows[0]["step"]], *(row["end_ns"] for row in rows[:-1])]
        assert [row["since_ns"] for row in rows] == [
            min(end, row["start_ns"]) for end, row in zip(ends, rows, strict=True)
        ]


def test_types_are_those_of_the_contract(pipeline: list[Reduced], tmp_path: Path) -> None:
    for tables in (pipeline[0].tables, made(TraceBuilder().op("aten::add", 0, 10), tmp_path)):
        assert {name: dict(table.schema) for name, table in tables.items()} == TYPES


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER).step(1, 0, 9_000).launch(0, 10)
    trace.kernel(REDUCED, 100, 900, args=talk() | {"stream": None})
    trace.events[-1]["tid"] = "a queue"
    tables = made(trace, tmp_path)
    assert tables["spans"]["stream"].to_list() == [None]
    told = tables["collectives"].select("stream", "ready_ns", "seq", "peer")
    assert told.rows() == [(None, None, None, None)]


def test_a_pause_a_stream_and_a_kind_end_a_span(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER).step(1, 0, 100_000)
    for start, kind in ((0, "a"), (2_500, "b"), (5_000, "copy"), (7_000, "c"), (10_000, "far")):
        trace.launch(start, 100)
        done = trace.memcpy(start + 1_000, 1_000) if kind == "copy" else trace
        if kind != "copy":
            done.kernel(kind, start + 1_000, 2_000 if kind == "a" else 1_000)
    trace.launch(11_000, 100).kernel(REDUCED, 12_000, 5_000, args=talk(), stream=20)
    spans = made(trace, tmp_path)["spans"].select("kind", "stream", "count", "name")
    assert spans.rows() == [
        ("compute", 7, 2, "a"), ("copy", 7, 1, "Memcpy HtoD (Pageable -> Device)"),
        ("compute", 7, 1, "c"), ("compute", 7, 1, "far"), ("comms", 20, 1, "nccl AllReduce f32"),
    ]  # fmt: skip


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


def test_steps_that_do_not_follow_each_other_leave_a_gap(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER)
    for number, start in ((3, 0), (4, 100_000), (9, 500_000)):
        trace.step(number, start, 90_000).launch(start, 500).kernel("a", start + 50_000, 30_000)
    steps = made(trace, tmp_path)["steps"]
    origin = steps["start_ns"][0]
    windows = (steps.select(pl.col("window_start_ns", "window_end_ns") - origin)).rows()
    assert windows == [(0, 80_000), (80_000, 180_000), (500_000, 580_000)]


def test_a_recording_without_steps_is_one(tmp_path: Path) -> None:
    trace = TraceBuilder(header=HEADER).launch(0, 10).kernel(REDUCED, 100, 900, args=talk())
    tables = made(trace.launch(1_000, 10).kernel("a", 1_500, 500), tmp_path)
    assert tables["steps"].select("step", "compute_ns", "comms_ns", "idle_ns").rows() == [
        (-1, 500, 900, 600)
    ]
    assert tables["collectives"]["step"].to_list() == [-1]


def test_a_kernel_of_unknown_message_keeps_its_name(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 9_000)
    trace.launch(0, 10).kernel("ncclKernel_SendRecv_RING_LL_Sum_int8_t(ncclDevComm*)", 100, 900)
    trace.launch(1_100, 10).kernel(REDUCED, 1_200, 900)
    told = made(trace, tmp_path)["collectives"]
    assert told["collective"].to_list() == ["send-receive", "all-reduce"]
    assert told["group"].null_count() == told["message_bytes"].null_count() == 2
    assert told["order"].to_list() == [0, 1]


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


def test_a_peer_is_a_place_in_a_group(tmp_path: Path) -> None:
    """Of two groups with other ranks in that place, none is believed."""
    for groups, peer in (
        ([[0, 1], [0, 1]], 1),
        ([[4, 6]], 6),
        ([[0, 1], [0, 2]], None),
        ([[0], [0, 3]], 3),
        ([], None),
    ):
        listed = [{"pg_name": str(at), "ranks": ranks} for at, ranks in enumerate(groups)]
        trace = TraceBuilder(header={"distributedInfo": {"rank": 0, "pg_config": listed}})
        given = {"Concrete Inputs": ["", "", "1", "0"]}
        trace.op("c10d::send", 0, 100, dims=[[], [], [], []], args=given)
        trace.host("user_annotation", "gloo:send", 10, 400)
        assert made(trace, tmp_path)["collectives"]["peer"].to_list() == [peer]


def test_the_host_and_process_in_a_name(tmp_path: Path) -> None:
    for name, host, pid in (
        ("gpu-7.example_4242.1794000.pt.trace.json", "gpu-7.example", 4242),
        ("node12_rank3.json", "node12", 100),
        ("rank3.json", "", 100),
    ):
        trace = TraceBuilder(header={"host_name": ""}).op("aten::add", 0, 10)
        (tmp_path / name).write_bytes(trace.bytes())
        facts = part_of(tmp_path / name)[0].facts
        assert (facts.host, facts.pid) == (host, pid)


def test_sizes_tell_kernels_apart(tmp_path: Path) -> None:
    def signature(name: str, *dims: int, grid: tuple[int, int, int] = (1, 1, 1)) -> str:
        trace = TraceBuilder(header=HEADER).step(1, 0, 9_000)
        for at, size in enumerate(dims):
            trace.op("aten::mm", at * 100, 50, dims=[[size, 8], [8, 8]] if size else None)
            trace.launch(at * 100, 10).kernel("a", at * 100 + 50, 10, grid=grid)
        (tmp_path / name).write_bytes(trace.bytes())
        return part_of(tmp_path / name)[0].facts.kernel_signature

    assert signature("a.json", 8, 16) == signature("b.json", 16, 8) != signature("c.json", 8, 8)
    assert signature("d.json", 0, grid=(2, 1, 1)) != signature("e.json", 0)
    assert part_of(tmp_path / "a.json")[1]["kernels"]["signature"].to_list() == [
        "[[16,8],[8,8]]", "[[8,8],[8,8]]",
    ]  # fmt: skip
    assert part_of(tmp_path / "e.json")[1]["kernels"]["signature"].to_list() == ["grid [1,1,1]"]


def test_tables_have_the_rank_and_closing_deletes_them(small_job: tuple[Path, Answer]) -> None:
    with jobs.read(small_job[0], cache=False) as job:
        folder = Path(job._folder.name)
        assert list(folder.iterdir())
        assert [each.rank for each in job.facts] == [0, 1, 2, 3]
        for name in TYPES:
            table = job.table(name).collect()
            assert dict(table.schema) == {"rank": pl.Int64, **TYPES[name]}
            assert table["rank"].is_sorted()
            assert table["rank"].n_unique() == 4
    assert not folder.exists()


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
