"""Bandwidths of the transfer alone, and who is slower than its equals."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from analyze.jobs.fake import BASE_NS, FakeJob, collectives, facts
from analyze.jobs.plan import Delay, Gaps, Plan
from analyze.jobs.planned import reading
from foretrace.analyze.jobs.matched_collectives import match
from foretrace.analyze.jobs.network import bandwidths, outliers, transfers


def test_waiting_is_not_in_the_bandwidth(tmp_path: Path) -> None:
    plan = Plan(data=4, delays=(Delay("compute", 2_000_000, ranks=(1,)),), bus_gbps=80.0)
    with reading(plan, tmp_path) as read:
        [row] = bandwidths(transfers(read.job, read.met)).to_dicts()
    assert (row["collective"], row["count"], row["group_size"]) == ("all-reduce", 6, 4)
    assert row["bus_gbps"] == pytest.approx(80, rel=1e-4)
    assert row["algorithm_gbps"] == pytest.approx(80 / 1.5, rel=1e-4)
    assert not row["at_least"]


def test_sends_are_pairs(tmp_path: Path) -> None:
    with reading(Plan(data=1, pipeline=2, bus_gbps=50.0), tmp_path) as read:
        found = bandwidths(transfers(read.job, read.met)).filter(collective="send")
    assert found["group_size"].to_list() == [2]
    assert found["bus_gbps"].to_list() == [pytest.approx(50, rel=1e-4)]
    assert found["algorithm_gbps"].to_list() == found["bus_gbps"].to_list()


def test_a_slow_host_is_named_once(tmp_path: Path) -> None:
    """Its tensor-parallel groups are slow; the data-parallel ones reach every host."""
    plan = Plan(data=4, tensor=2, ranks_per_host=2, slow_hosts={2: 40.0})
    with reading(plan, tmp_path) as read:
        found = outliers(read.job, read.met, transfers(read.job, read.met)).to_dicts()
    assert [(row["kind"], row["what"]) for row in found] == [("host", "node002")]
    assert found[0]["bus_gbps"] == pytest.approx(40, rel=1e-3)
    assert found[0]["usual_gbps"] == pytest.approx(100, rel=1e-3)


def test_rates_that_vary_are_no_outliers(tmp_path: Path) -> None:
    plan = Plan(data=6, tensor=2, ranks_per_host=2, rate_noise=0.3, seed=5)
    with reading(plan, tmp_path) as read:
        assert outliers(read.job, read.met, transfers(read.job, read.met)).is_empty()


def test_without_the_slow_rank_the_bandwidth_is_a_lower_bound(tmp_path: Path) -> None:
    plan = Plan(data=3, delays=(Delay("compute", 900_000, (2,)),), gaps=Gaps(missing=(2,)))
    with reading(plan, tmp_path) as read:
        found = transfers(read.job, read.met)
        [row] = bandwidths(found).to_dicts()
        assert outliers(read.job, read.met, found).is_empty()
    assert row["at_least"]
    assert row["bus_gbps"] < plan.bus_gbps


def _links(*nanoseconds: int) -> FakeJob:
    """A chain of ranks on hosts of their own; each sends to the next in so many nanoseconds."""
    rows = []
    for at, ns in enumerate(nanoseconds):
        both = {"message_bytes": 10**6, "start_ns": BASE_NS, "end_ns": BASE_NS + ns}
        rows.append({"rank": at, "collective": "send", "peer": at + 1, "group_size": 9, **both})
        rows.append({"rank": at + 1, "collective": "receive", "peer": at, "group_size": 9, **both})
    members = [facts(rank, host=f"host{rank}") for rank in range(len(nanoseconds) + 1)]
    return FakeJob(members, collectives=collectives(rows))


def test_a_slow_link_is_named_by_its_ranks() -> None:
    job = _links(10_000, 10_000, 40_000, 10_000, 10_000)
    met = match(job)  # type: ignore[arg-type]
    found = transfers(job, met)  # type: ignore[arg-type]
    assert found["bus_gbps"].to_list() == found["algorithm_gbps"].to_list()
    [row] = outliers(job, met, found).to_dicts()  # type: ignore[arg-type]
    assert (row["kind"], row["what"]) == ("link", "rank 2 to rank 3")
    assert (row["bus_gbps"], row["usual_gbps"]) == (25, 100)


def test_two_equals_have_no_outlier() -> None:
    job = _links(10_000, 40_000)
    met = match(job)  # type: ignore[arg-type]
    assert outliers(job, met, transfers(job, met)).is_empty()  # type: ignore[arg-type]


def test_collectives_without_sizes_or_time_have_no_bandwidth() -> None:
    rows = [
        {"rank": rank, "seq": seq, "message_bytes": size, "group_size": ranks,
         "end_ns": BASE_NS + took}
        for rank in range(2)
        for seq, (size, ranks, took) in enumerate(
            [(None, 2, 1000), (0, 2, 1000), (4096, None, 1000), (4096, 2, 0), (4096, 1, 1000)]
        )
    ]  # fmt: skip
    job = FakeJob([facts(0), facts(1)], collectives=collectives(rows))
    found = transfers(job, match(job))  # type: ignore[arg-type]
    assert found.is_empty()
    assert bandwidths(found).is_empty()
    assert outliers(job, match(job), found).is_empty()  # type: ignore[arg-type]


def test_sizes_fall_into_classes() -> None:
    sizes = [1, 3, 4, 1 << 20, (1 << 22) - 1, 1 << 22]
    rows = [
        {"rank": rank, "seq": seq, "message_bytes": size, "group_size": 2}
        for rank in range(2)
        for seq, size in enumerate(sizes)
    ]
    job = FakeJob([facts(0), facts(1)], collectives=collectives(rows))
    found = transfers(job, match(job)).sort("message_bytes")  # type: ignore[arg-type]
    assert found["size_class"].to_list() == [1, 1, 4, 1 << 20, 1 << 20, 1 << 22]
    assert found["size_class"].dtype == pl.Int64
