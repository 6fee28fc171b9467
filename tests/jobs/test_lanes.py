"""Chosen ranks on one clock, against the plan; exposed waits, against a second way to count."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from foretrace import jobs
from foretrace.jobs.lanes import JobLanes, lanes
from foretrace.jobs.waits import timed_collectives
from jobs.plan import Answer, Clock, Delay, Plan, write

PLAN = Plan(
    data=4,
    tensor=2,
    ranks_per_host=2,
    layers=3,
    delays=(Delay("compute", 700_000, ranks=(3,)),),
    clocks={1: Clock(5_000_000, 10.0), 2: Clock(-3_000_000)},
)
CHOSEN = frozenset({0, 3, 5})


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, JobLanes, pl.DataFrame]:
    folder = tmp_path_factory.mktemp("lanes")
    answer = write(PLAN, folder)
    with jobs.read(folder, cache=False) as job:
        _, _, waited = timed_collectives(job)
        return answer, lanes(job, CHOSEN), waited.filter(pl.col("rank").is_in(CHOSEN))


def test_a_transfer_begins_when_the_last_rank_came(
    planned: tuple[Answer, JobLanes, pl.DataFrame],
) -> None:
    answer, laid, _ = planned
    assert laid.error_ns is not None
    assert laid.error_ns < 5_000
    for rank in CHOSEN:
        met = [each for each in answer.collectives if rank in each.starts_ns]
        came = sorted(max(each.starts_ns.values()) for each in met)
        found = laid.spans.filter(rank=rank, kind="transfer")["start_ns"].sort().to_list()
        assert len(found) == len(came)
        assert max(abs(a - b) for a, b in zip(came, found, strict=True)) <= laid.error_ns
        last = laid.spans.filter(pl.col("last"), rank=rank, kind="transfer").height
        assert last >= sum(each.last == (rank,) for each in met)


def test_waits_are_as_long_as_planned(planned: tuple[Answer, JobLanes, pl.DataFrame]) -> None:
    answer, laid, _ = planned
    for rank in CHOSEN:
        true = sum(each.waits_ns.get(rank, 0) for each in answer.collectives)
        mine = laid.spans.filter(rank=rank, kind="wait")
        found = int((mine["end_ns"] - mine["start_ns"]).sum())
        assert abs(found - true) <= mine.height * (laid.error_ns or 0)


def test_no_time_of_a_rank_is_lost(planned: tuple[Answer, JobLanes, pl.DataFrame]) -> None:
    answer, laid, _ = planned
    assert set(laid.spans["kind"]) == {"compute", "wait", "transfer", "copy", "data", "sync"}
    for rank in CHOSEN:
        mine = laid.spans.filter(rank=rank, kind="compute")
        true = sum(times.compute_ns for (each, _), times in answer.steps.items() if each == rank)
        drift = 20  # the clock of a host runs 10 ppm fast
        assert abs(int((mine["end_ns"] - mine["start_ns"]).sum()) - true) <= drift * mine.height
    assert laid.steps["step"].to_list() == [2, 3, 4]
    assert laid.steps["start_ns"].is_sorted()


def test_exposed_waits_are_those_without_compute(
    planned: tuple[Answer, JobLanes, pl.DataFrame],
) -> None:
    _, laid, waited = planned
    for rank in CHOSEN:
        mine = laid.spans.filter(rank=rank)
        busy = mine.filter(kind="compute").select("start_ns", "end_ns").rows()
        bare = sum(
            end - start - sum(max(min(end, b) - max(start, a), 0) for a, b in busy)
            for start, end in mine.filter(kind="wait").select("start_ns", "end_ns").iter_rows()
        )
        found = waited.filter(rank=rank)
        assert abs(int(found["exposed_wait_ns"].sum()) - bare) <= 50 * found.height
        assert (found["exposed_wait_ns"] <= found["wait_ns"]).all()
    late = waited.filter(rank=0)
    assert (
        0 < int(late["exposed_wait_ns"].sum()) < int(late["wait_ns"].sum())
    )  # some wait is hidden


def test_without_clocks_a_collective_has_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Plan(data=2, steps=1), tmp_path)
    with jobs.read(tmp_path, cache=False) as job:
        met, clocks, waited = timed_collectives(job)
        clocks = clocks.with_columns(fitted=pl.lit(False))
        waited = waited.with_columns(wait_ns=pl.lit(None, pl.Int64))
        unknown = (met, clocks, waited)
        monkeypatch.setattr("foretrace.jobs.lanes.timed_collectives", lambda _: unknown)
        laid = lanes(job, frozenset({0, 1}))
        talks = laid.spans.filter(kind="comms")
        assert talks.height == met.arrivals.height
        assert not set(laid.spans["kind"]) & {"wait", "transfer"}
        assert laid.error_ns is None
