"""The critical path: it tiles the step, and goes where the plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.jobs.plan import Clock, Delay, Gaps, Plan
from analyze.jobs.planned import Read, reading
from foretrace.analyze.jobs.critical_path import CriticalPath, graph, walked

PLANS = {
    "data": Plan(data=4, ranks_per_host=2, clocks={1: Clock(250_000)}),
    "exposed": Plan(data=3, overlap=False, delays=(Delay("compute", 900_000, ranks=(2,)),)),
    "tensor": Plan(data=2, tensor=2, layers=3, delays=(Delay("host", 700_000, ranks=(1,)),)),
    "pipeline": Plan(data=2, pipeline=3, microbatches=3, delays=(Delay("data", 400_000, (0,)),)),
    "sharded": Plan(data=4, sharded=True, layers=4, delays=(Delay("copies", 500_000, (3,)),)),
    "ahead": Plan(data=2, layers=4, sync=False, gradient_bytes=64 << 20),
}
# as the plan's own path names them
KINDS = {
    "compute": "compute",
    "comms": "transfer",
    "copy": "copies",
    "data": "data",
    "host": "host",
}


def _lengths(path: CriticalPath) -> dict[tuple[int, str], int]:
    return {(rank, kind): ns for rank, kind, ns in path.by("rank", "kind").iter_rows()}


def _tiles(path: CriticalPath) -> bool:
    start, end = path.segments["start_ns"].to_list(), path.segments["end_ns"].to_list()
    return [path.start_ns, *end] == [*start, path.end_ns]


@pytest.mark.parametrize("name", PLANS)
def test_the_path_is_the_planned_one(name: str, tmp_path: Path) -> None:
    """By kind, from the start of the job's step; which of several equal ranks does not matter."""
    with reading(PLANS[name], tmp_path) as read:
        path = walked(read.graph(3))
        off = read.truth.offsets_ns[0]
    assert _tiles(path)
    true = dict.fromkeys(KINDS.values(), 0)
    for segment in read.truth.paths[3]:
        inside = segment.end_ns - max(segment.start_ns, path.start_ns - off)
        true[KINDS[segment.kind]] += max(inside, 0)
    found = dict.fromkeys(true, 0) | dict(path.by("kind").iter_rows())
    slack = 0 if not PLANS[name].clocks else 10_000
    assert sum(found.values()) == path.length_ns
    # the end of a step's host work before its first launch counts for the step before
    assert found == pytest.approx(true, abs=slack + 6_000)


def test_the_path_leads_to_the_slow_rank(tmp_path: Path) -> None:
    with reading(PLANS["exposed"], tmp_path) as read:
        path = walked(read.graph(3))
    lengths = _lengths(path)
    assert lengths[2, "compute"] >= 2 * (200_000 + 450_000 + 400_000)
    assert max(lengths, key=lambda key: lengths[key]) == (2, "compute")


@pytest.mark.parametrize(("cause", "kind"), [("data", "data"), ("host", "host"), ("copies", "copies")])  # fmt: skip
def test_a_delay_is_on_the_path_with_its_kind(cause: str, kind: str, tmp_path: Path) -> None:
    plan = Plan(data=2, delays=(Delay(cause, 800_000, ranks=(1,)),))  # type: ignore[arg-type]
    with reading(plan, tmp_path) as read:
        assert _lengths(walked(read.graph(3)))[1, kind] >= 800_000


def test_every_step_has_a_path_that_tiles_it(tmp_path: Path) -> None:
    with reading(PLANS["pipeline"], tmp_path) as read:
        for step in read.truth.paths:
            assert _tiles(walked(read.graph(step)))
        assert graph(read.job, read.met, read.clocks, 99) is None


def test_a_collective_of_which_a_rank_is_missing_may_hold_a_wait(tmp_path: Path) -> None:
    plan = Plan(data=3, delays=(Delay("compute", 900_000, (2,)),), gaps=Gaps(missing=(2,)))
    with reading(plan, tmp_path) as read:
        path = walked(read.graph(3))
    assert _tiles(path)
    kinds = set(path.segments["kind"].to_list())
    assert "comms" in kinds
    assert "transfer" not in kinds


def test_a_job_of_one_rank_has_a_path(tmp_path: Path) -> None:
    with reading(Plan(data=2, gaps=Gaps(missing=(1,))), tmp_path) as read:
        _check_alone(read)


def _check_alone(read: Read) -> None:
    path = walked(read.graph(2))
    assert _tiles(path)
    assert path.segments["rank"].unique().to_list() == [0]
