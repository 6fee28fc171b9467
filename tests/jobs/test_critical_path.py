"""The critical path and what-ifs beside the plan, and beside a second job planned with the change.

In any job a path tiles its step, and a replay without a change repeats it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from foretrace.jobs.clocks import CLOCKS, fit
from foretrace.jobs.critical_path import CriticalPath, Replay, StepChange, graph, walked, what_ifs
from foretrace.jobs.exposure import stages
from foretrace.jobs.matched_collectives import match
from foretrace.jobs.network import outliers, transfers
from foretrace.jobs.whole_job import COLUMNS
from jobs.fake import BASE_NS, FakeJob, collectives, facts
from jobs.plan import Clock, Delay, Gaps, Plan
from jobs.plan.plan import Cause
from jobs.plan.simulate import simulate
from jobs.planned import reading

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


def _tiles(path: CriticalPath) -> bool:
    start, end = path.segments["start_ns"].to_list(), path.segments["end_ns"].to_list()
    return [path.start_ns, *end] == [*start, path.end_ns]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", PLANS)
def test_the_path_is_the_planned_one(name: str, tmp_path: Path) -> None:
    """By kind, from the start of the job's step; which of several equal ranks does not matter."""
    with reading(PLANS[name], tmp_path) as read:
        assert all(_tiles(walked(read.graph(step))) for step in read.truth.paths)
        assert graph(read.job, read.met, read.clocks, 99) is None
        path = walked(read.graph(3))
        off = read.truth.offsets_ns[0]
    true = dict.fromkeys(KINDS.values(), 0)
    for segment in read.truth.paths[3]:
        inside = segment.end_ns - max(segment.start_ns, path.start_ns - off)
        true[KINDS[segment.kind]] += max(inside, 0)
    found = dict.fromkeys(true, 0) | dict(path.by("kind").iter_rows())
    slack = 0 if not PLANS[name].clocks else 10_000
    assert sum(found.values()) == path.length_ns
    # the end of a step's host work before its first launch counts for the step before
    assert found == pytest.approx(true, abs=slack + 6_000)


def test_a_collective_of_which_a_rank_is_missing_may_hold_a_wait(tmp_path: Path) -> None:
    plan = Plan(data=3, delays=(Delay("compute", 900_000, (2,)),), gaps=Gaps(missing=(2,)))
    with reading(plan, tmp_path) as read:
        path = walked(read.graph(3))
    assert _tiles(path)
    kinds = set(path.segments["kind"].to_list())
    assert "comms" in kinds
    assert "transfer" not in kinds


DATA = Plan(data=3, layers=3)
TENSOR = Plan(data=2, tensor=2, layers=2)
PIPELINE = Plan(data=2, pipeline=2, microbatches=2)
SHARDED = Plan(data=3, sharded=True, layers=3, sync=False)
STEP = 3


def _length(plan: Plan) -> int:
    """How long the step takes in a simulation: from the end of the job's step before."""
    done = [each for rank in simulate(plan).done.values() for each in rank]
    ends = {
        step: max(each.end_ns for each in done if each.step == step - plan.first_step)
        for step in (STEP - 1, STEP)
    }
    return ends[STEP] - ends[STEP - 1]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("plan", "cause"),
    [
        (DATA, "compute"), (DATA, "copies"), (TENSOR, "compute"), (TENSOR, "host"),
        (PIPELINE, "code"), (PIPELINE, "data"), (SHARDED, "compute"),
    ],
)  # fmt: skip
def test_a_slow_rank_at_the_median(plan: Plan, cause: Cause, tmp_path: Path) -> None:
    late = replace(plan, delays=(Delay(cause, 1_200_000, ranks=(1,)),))
    with reading(late, tmp_path) as read:
        replay = Replay(read.graph(STEP))
        length = walked(replay.steps).length_ns
        stage = stages(read.met)
        peers = [rank for rank in range(plan.world) if stage.get(rank) == stage.get(1)]
        change = StepChange(curves={1: replay.progress.at_median(1, peers)})
        before, after = replay.lengths([StepChange(), change])
    assert before == length
    assert after == pytest.approx(_length(plan), abs=2_000)
    assert after < before


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "plan", [DATA, TENSOR, PIPELINE, SHARDED], ids=lambda plan: str(plan.world)
)
def test_free_collectives(plan: Plan, tmp_path: Path) -> None:
    with reading(plan, tmp_path) as read:
        every = frozenset(read.met.collectives["collective_id"].to_list())
        [found] = Replay(read.graph(STEP)).lengths([StepChange(every)])
    quick = replace(plan, bus_gbps=1e9)
    assert found == pytest.approx(_length(quick), abs=2_000)


def test_a_slow_host_with_the_bandwidth_of_its_equals(tmp_path: Path) -> None:
    """And a late rank that is not on the path: it saves nothing."""
    even = Plan(data=4, tensor=2, ranks_per_host=2, delays=(Delay("compute", 20_000, ranks=(1,)),))
    with reading(replace(even, slow_hosts={2: 40.0}), tmp_path) as read:
        steps = read.graph(STEP)
        slow = outliers(read.job, read.met, transfers(read.job, read.met))
        path = walked(steps)
        found = what_ifs(read.job, steps, path, read.met, [[1]], slow)
    [host] = [each for each in found if each.kind == "host"]
    assert host.what == "the network of node002"
    # that the sum of gradients waits for the tensor-parallel sum before it is not in the trace
    assert path.length_ns - host.saves_ns == pytest.approx(_length(even), rel=0.03)
    [rank] = [each for each in found if each.rank == 1]
    assert rank.saves_ns == 0


ONLY_STEP = 1


def _table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"rank": pl.Int64, **COLUMNS[name]})


def _stretch(chance: random.Random) -> dict[str, int]:
    """A start and an end: often the same moments, sometimes no time in between."""
    start = chance.randrange(-20, 100)
    length = chance.choice([0, 1, 5, 20, 60])
    return {"start_ns": BASE_NS + start * 1000, "end_ns": BASE_NS + (start + length) * 1000}


def _random_job(chance: random.Random) -> FakeJob:
    ranks = range(chance.choice([1, 2, 3, 6]))
    steps, spans, host, talks = [], [], [], []
    for rank in ranks:
        begin, end = (
            BASE_NS + chance.randrange(5) * 1000,
            BASE_NS + chance.randrange(90, 130) * 1000,
        )
        if rank == 0 or chance.random() < 0.9:
            edges = {"window_start_ns": begin, "window_end_ns": end}
            steps.append({"rank": rank, "step": ONLY_STEP, "whole": True, **edges})
        for _ in range(chance.randrange(12)):
            kind = {"kind": chance.choice(["compute", "copy", "comms"]), "name": "k"}
            place = {"stream": chance.choice([7, 7, 20, None]), "count": chance.choice([1, 3])}
            spans.append({"rank": rank, "step": ONLY_STEP, **kind, **place, **_stretch(chance)})
        for _ in range(chance.randrange(3)):
            host.append({"rank": rank, "kind": chance.choice(["data", "sync"]), **_stretch(chance)})
        for seq in range(chance.randrange(6)):
            told = {
                "seq": chance.choice([seq, seq, None]),
                "group_size": chance.choice([None, 2, 6]),
            }
            place = {"stream": chance.choice([20, 24, None]), "on_host": chance.random() < 0.1}
            talks.append({"rank": rank, "group": chance.choice("01"), **told, **place, **_stretch(chance)})  # fmt: skip
    return FakeJob(
        [facts(rank) for rank in ranks],
        steps=_table("steps", steps),
        spans=_table("spans", spans),
        host=_table("host", host),
        collectives=collectives(talks),
    )


def _one_clock(job: FakeJob) -> pl.DataFrame:
    """Clocks that agree, so that all ranks compare."""
    rows = [{"rank": each.rank, "fitted": True, "reference": 0} for each in job.facts]
    return pl.DataFrame(rows, CLOCKS)


@pytest.mark.parametrize("seed", range(12))
def test_any_job(seed: int) -> None:
    job: Any = _random_job(random.Random(seed))
    met = match(job)
    steps = graph(job, met, _one_clock(job) if seed % 4 else fit(job, met), ONLY_STEP)
    assert steps is not None
    path = walked(steps)
    assert _tiles(path)
    assert Replay(steps).lengths([StepChange()]) == [path.length_ns]
    assert all(0 < each.saves_ns <= path.length_ns for each in what_ifs(job, steps, path, met))
