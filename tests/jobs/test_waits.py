"""Waits, transfers and causes of late ranks, and the ranks and hosts that make the others wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from foretrace import jobs
from foretrace.jobs.clocks import fit
from foretrace.jobs.matched_collectives import match
from foretrace.jobs.waits import WAITS, hosts, stragglers, waits
from foretrace.jobs.whole_job import JobGroup
from jobs.fake import BASE_NS, FakeJob, collectives, facts
from jobs.plan import Answer, Clock, Delay, Plan, write

CLOCKS = {1: Clock(3_000_000, 20.0), 2: Clock(-2_000_000, -30.0)}


def _answered(plan: Plan, folder: Path) -> tuple[Answer, pl.DataFrame]:
    truth = write(plan, folder)
    with jobs.read(folder, cache=False) as job:
        met = match(job)
        assert met.incomplete().is_empty()
        return truth, waits(job, met, fit(job, met))


@pytest.fixture(scope="module")
def three_ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, pl.DataFrame]:
    """Three pipelines of two stages, each of two tensor-parallel ranks; rank 2 computes longer."""
    late = Delay("compute", 2_000_000, ranks=(2,))
    plan = Plan(data=3, tensor=2, pipeline=2, microbatches=2, ranks_per_host=2, delays=(late,),
                clocks=CLOCKS)  # fmt: skip
    return _answered(plan, tmp_path_factory.mktemp("three_ways"))


def test_every_wait_and_transfer_is_exact_within_the_error(
    three_ways: tuple[Answer, pl.DataFrame],
) -> None:
    truth, found = three_ways
    expected = sorted(
        (met.step, rank, wait, met.transfer_ns)
        for met in truth.collectives
        for rank, wait in met.waits_ns.items()
    )
    told = found.sort("step", "rank", "wait_ns").select("step", "rank", "wait_ns", "transfer_ns")
    error = found["error_ns"].max()
    assert isinstance(error, int)
    assert error < 10_000
    for mine, true in zip(told.rows(), expected, strict=True):
        assert mine[:2] == true[:2]
        assert mine[2] == pytest.approx(true[2], abs=min(error, 2_000))
    assert found.schema == pl.Schema(WAITS)


def test_the_blame_passes_groups_and_pipelines(three_ways: tuple[Answer, pl.DataFrame]) -> None:
    """All late ranks are late through rank 2: in its group, in its stage, and in the next stage."""
    _, found = three_ways
    late = found.filter(pl.col("caused_ns").is_not_null())
    assert set(late["rank"]) == {2, 3, 8, 9}
    assert set(late["root"]) == {2}
    assert set(late["root_cause"]) == {"compute"}
    assert set(late.filter(pl.col("rank") != 2)["cause"]) == {"other_comms", "earlier"}


def test_a_delay_from_a_pipeline_of_unknown_ranks_is_nobodys(tmp_path: Path) -> None:
    """Half of each pipeline was read: the stage before is late, and its equals are not known."""
    late = Delay("compute", 1_000_000, ranks=(0,))
    write(Plan(data=2, pipeline=3, ranks_per_host=2, delays=(late,)), tmp_path)
    with jobs.read(tmp_path, ranks="1-4", cache=False) as job:
        met = match(job)
        found = waits(job, met, fit(job, met))
    assert set(found["root_cause"].drop_nulls()) == {"pipeline"}


def _by_hand(starts: list[int], **more: Any) -> pl.DataFrame:
    """Ranks that come at these times to the second of two all-reduces, and end together."""
    rows = [
        {"rank": rank, "seq": seq, "start_ns": BASE_NS + at, "end_ns": BASE_NS + end,
         "since_ns": BASE_NS, "compute_ns": at, "copy_ns": 0, "comms_ns": 0, "idle_ns": 0,
         "data_ns": 0, "alone_ns": end - at} | more
        for seq, (times, end) in enumerate((([0] * len(starts), 100_000), (starts, 5_000_000)))
        for rank, at in enumerate(times)
    ]  # fmt: skip
    ranks = tuple(range(len(starts)))
    members = [JobGroup("0", "default_pg", len(ranks), ranks)]
    job: Any = FakeJob((facts(rank, members) for rank in ranks), collectives=collectives(rows))
    met = match(job)
    return waits(job, met, fit(job, met)).filter(collective_id=1)


def test_ranks_that_come_late_together_share_the_blame() -> None:
    found = _by_hand([100_000, 100_000, 100_000, 400_000, 1_000_000])
    assert found["wait_ns"].to_list() == [900_000, 900_000, 900_000, 600_000, 0]
    assert found["late_ns"].to_list() == [0, 0, 0, 300_000, 900_000]
    assert found["last"].to_list() == [False] * 4 + [True]
    # three wait 300 us for two ranks, then four wait 600 us for one
    assert found["caused_ns"].to_list() == [None] * 3 + [450_000, 450_000 + 2_400_000]
    assert found["delays_ns"].to_list() == [None] * 3 + [150_000, 150_000 + 600_000]
    assert found["cause"].to_list() == [None] * 3 + ["compute", "compute"]


def test_within_the_error_nobody_is_last() -> None:
    found = _by_hand([100_000, 100_200, 100_400])
    assert found.filter("last")["cause"].to_list() == ["none"]
    assert found["root"].is_null().all()


def _late_ranks(plan: Plan, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ranks and hosts of a simulated job."""
    write(plan, folder)
    with jobs.read(folder, cache=False) as job:
        met = match(job)
        found = waits(job, met, fit(job, met))
        ranks = stragglers(found, job)
        return ranks, hosts(found, job, ranks)


@pytest.mark.parametrize(
    ("delay", "slow"),
    [("compute", "gpu"), ("code", "code"), ("host", "host"), ("data", ""), ("copies", "")],
)
def test_what_is_slow(delay: Any, slow: str, tmp_path: Path) -> None:
    late = Delay(delay, 1_200_000, ranks=(1,))
    plan = Plan(data=4, ranks_per_host=2, delays=(late,), clocks=CLOCKS)
    ranks, found = _late_ranks(plan, tmp_path)
    first = ranks.row(0, named=True)
    cause = "compute" if delay == "code" else delay
    assert (first["rank"], first["cause"], first["slow"]) == (1, cause, slow)
    assert first["causes"][cause] == pytest.approx(1)
    assert ranks["made_others_wait_ns"][1:].to_list() == [0, 0, 0]
    assert first["times_last"] == 3 * 2  # steps and layers: in every collective
    assert first["delays_ns"] == pytest.approx(3 * 1_200_000, abs=30_000)
    assert first["made_others_wait_ns"] >= 3 * first["delays_ns"]
    assert not found["slow"].any()  # one rank of two


def test_evidence_for_a_slow_gpu_and_for_other_code(tmp_path: Path) -> None:
    delays = Delay("compute", 1_000_000, ranks=(1,)), Delay("code", 700_000, ranks=(2,))
    ranks, _ = _late_ranks(Plan(data=8, layers=2, delays=delays), tmp_path)
    told = {row["rank"]: row for row in ranks.iter_rows(named=True)}
    # two layers of 600 us and an optimizer of 100 us become 1 ms longer
    assert told[1]["gpu_factor"] == pytest.approx(2.3 / 1.3)
    assert told[1]["gpu_ns"] == 1_000_000
    assert told[1]["code_ns"] == 0
    assert told[2]["gpu_factor"] == pytest.approx(1)
    assert told[2]["code_ns"] == 700_000


def test_a_slow_host_is_more_than_one_slow_rank(tmp_path: Path) -> None:
    plan = Plan(data=8, ranks_per_host=4, delays=(Delay("host", 1_500_000, hosts=(1,)),))
    ranks, found = _late_ranks(plan, tmp_path)
    assert found["slow"].to_list() == [True, False]
    row = found.row(0, named=True)
    assert (row["host"], row["ranks"], row["cause"]) == ("node001", 4, "host")
    late = ranks.filter(host="node001")
    assert late["made_others_wait_ns"].sum() == row["made_others_wait_ns"]
    assert late["slow"].unique().to_list() == ["host"]
    # the four share each delay, so that the host's is their sum
    assert row["delays_ns"] == late["delays_ns"].sum()
