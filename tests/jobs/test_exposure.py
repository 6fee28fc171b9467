"""Compute, exposed communication and pipeline bubbles, beside the truth of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace import jobs
from foretrace.jobs.exposure import bubbles, exposure, overlap
from foretrace.jobs.matched_collectives import match
from foretrace.jobs.network import bandwidths, outliers, transfers
from jobs.fake import BASE_NS, FakeJob, collectives, facts
from jobs.plan import Answer, Delay, Gaps, Plan
from jobs.plan.answer import length, minus, union
from jobs.plan.program import Copy, Kernel
from jobs.plan.simulate import simulate
from jobs.planned import reading


def test_every_step_of_every_rank_is_as_planned(small_job: tuple[Path, Answer]) -> None:
    folder, truth = small_job
    with jobs.read(folder, cache=False) as job:
        found = exposure(job)
    assert found.height == len(truth.steps) == 12
    for row in found.iter_rows(named=True):
        true = truth.steps[row["rank"], row["step"]]
        times = ("wall_ns", "compute_ns", "exposed_ns", "both_ns", "copy_ns", "idle_ns", "data_ns")
        assert {name: row[name] for name in times} == {name: getattr(true, name) for name in times}
        parts = ("compute_ns", "exposed_ns", "copy_ns", "idle_ns")
        assert sum(row[name] for name in parts) == row["wall_ns"]
        assert row["data_ns"] + row["host_ns"] == row["idle_ns"]


def test_overlap_by_role_and_kind(tmp_path: Path) -> None:
    """The tensor-parallel sums overlap with nothing, the gradients of all but one layer do."""
    with reading(Plan(data=2, tensor=2, layers=3), tmp_path) as read:
        rows = overlap(read.job, read.waits()).iter_rows(named=True)
        found = {row["group"]: row for row in rows}
    assert set(found) == {"mesh_tensor", "mesh_data"}
    assert all((row["ranks"], row["wait_ns"]) == (4, 0) for row in found.values())
    tensor, data = found["mesh_tensor"], found["mesh_data"]
    assert (tensor["count"], tensor["exposed_ns"]) == (4 * 3 * 6, tensor["total_ns"])
    assert data["count"] == 4 * 3 * 3
    assert 0 < data["exposed_ns"] < data["total_ns"]


PLAN = Plan(data=2, pipeline=3, microbatches=4, ranks_per_host=2)
STEPS = (3, 4)  # the first has no end of a step before it


def _true_bubbles(truth: Answer) -> dict[tuple[int, int], int]:
    """Waits for another stage under which nothing runs, from the simulation alone."""
    plan, done = truth.plan, simulate(truth.plan).done
    found = {}
    for rank in done:
        work = [each for each in done[rank] if isinstance(each.what, Kernel | Copy)]
        runs = union([(each.start_ns, each.end_ns) for each in work])
        waited = union(
            [
                (met.starts_ns[rank], met.starts_ns[rank] + met.waits_ns[rank])
                for met in truth.collectives
                if rank in met.starts_ns
                and all(last // plan.data != rank // plan.data for last in met.last)
            ]
        )
        ends = [
            max(each.end_ns for each in done[rank] if each.step + plan.first_step == step)
            for step in range(2, 5)
        ]
        for step, since, until in zip(STEPS, ends, ends[1:], strict=False):
            inside = [(max(a, since), min(b, until)) for a, b in waited if a < until and b > since]
            found[rank, step] = length(minus(inside, runs))
    return found


def test_bubbles_are_as_planned(tmp_path: Path) -> None:
    with reading(PLAN, tmp_path) as read:
        found = bubbles(read.job, read.met, read.waits())
    rows = {(row["rank"], row["step"]): row for row in found.iter_rows(named=True)}
    assert {row["stage"] for row in rows.values()} == {0, 1, 2}
    true = _true_bubbles(read.truth)
    assert {key: rows[key]["bubble_ns"] for key in true} == true
    # (p - 1) of m + p - 1 turns of a pipeline are bubbles, and the messages make it a little more
    for key in true:
        assert rows[key]["bubble_ns"] >= 2 * PLAN.layers * (PLAN.forward_ns + PLAN.backward_ns)


def test_waiting_is_not_in_the_bandwidth(tmp_path: Path) -> None:
    plan = Plan(data=4, delays=(Delay("compute", 2_000_000, ranks=(1,)),), bus_gbps=80.0)
    with reading(plan, tmp_path) as read:
        [row] = bandwidths(transfers(read.job, read.met)).to_dicts()
    assert (row["collective"], row["count"], row["group_size"]) == ("all-reduce", 6, 4)
    assert row["bus_gbps"] == pytest.approx(80, rel=1e-4)
    assert row["algorithm_gbps"] == pytest.approx(80 / 1.5, rel=1e-4)
    assert not row["at_least"]


def test_a_slow_host_is_named_once(tmp_path: Path) -> None:
    """Its tensor-parallel groups are slow; the data-parallel ones reach every host."""
    plan = Plan(data=4, tensor=2, ranks_per_host=2, slow_hosts={2: 40.0})
    with reading(plan, tmp_path) as read:
        found = outliers(read.job, read.met, transfers(read.job, read.met)).to_dicts()
    assert [(row["kind"], row["what"]) for row in found] == [("host", "node002")]
    assert found[0]["bus_gbps"] == pytest.approx(40, rel=1e-3)
    assert found[0]["usual_gbps"] == pytest.approx(100, rel=1e-3)


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


def test_a_slow_link_is_named_by_its_ranks_and_of_two_links_none() -> None:
    job = _links(10_000, 10_000, 40_000, 10_000, 10_000)
    met = match(job)  # type: ignore[arg-type]
    found = transfers(job, met)  # type: ignore[arg-type]
    assert found["bus_gbps"].to_list() == found["algorithm_gbps"].to_list()
    [row] = outliers(job, met, found).to_dicts()  # type: ignore[arg-type]
    assert (row["kind"], row["what"]) == ("link", "rank 2 to rank 3")
    assert (row["bus_gbps"], row["usual_gbps"]) == (25, 100)
    two = _links(10_000, 40_000)
    met = match(two)  # type: ignore[arg-type]
    assert outliers(two, met, transfers(two, met)).is_empty()  # type: ignore[arg-type]
