"""What-if: the estimate beside a second job that is planned with the change."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from analyze.jobs.plan import Delay, Plan
from analyze.jobs.plan.plan import Cause
from analyze.jobs.plan.simulate import simulate
from analyze.jobs.planned import reading
from foretrace.analyze.jobs.critical_path import walked
from foretrace.analyze.jobs.exposure import stages
from foretrace.analyze.jobs.network import outliers, transfers
from foretrace.analyze.jobs.what_if import Replay, StepChange, what_ifs

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
        change = StepChange(rank=1, curves=replay.progress.at_median(1, peers))
        before, after = replay.lengths([StepChange(), change])
    assert before == length
    assert after == pytest.approx(_length(plan), abs=2_000)
    assert after < before


@pytest.mark.parametrize(
    "plan", [DATA, TENSOR, PIPELINE, SHARDED], ids=lambda plan: str(plan.world)
)
def test_free_collectives(plan: Plan, tmp_path: Path) -> None:
    with reading(plan, tmp_path) as read:
        every = frozenset(read.met.collectives["collective_id"].to_list())
        [found] = Replay(read.graph(STEP)).lengths([StepChange(every)])
    quick = replace(plan, bus_gbps=1e9)
    assert found == pytest.approx(_length(quick), abs=2_000)


def test_the_changes_that_save_most_come_first(tmp_path: Path) -> None:
    plan = replace(TENSOR, delays=(Delay("compute", 1_200_000, ranks=(1,)),))
    with reading(plan, tmp_path) as read:
        steps = read.graph(STEP)
        path = walked(steps)
        found = what_ifs(read.job, steps, path, read.met)
    assert found[0].rank == 1
    assert found[0].saves_ns == pytest.approx(1_200_000, abs=2_000)
    assert [each.saves_ns for each in found] == sorted(
        (each.saves_ns for each in found), reverse=True
    )
    assert all(each.step_ns + each.saves_ns == path.length_ns for each in found)
    free = {(each.group, each.collective) for each in found if each.rank is None}
    assert free == {("mesh_tensor", "all-reduce"), ("mesh_data", "all-reduce")}


def test_a_slow_host_with_the_bandwidth_of_its_equals(tmp_path: Path) -> None:
    """And a late rank that is not on the path: it saves nothing."""
    even = Plan(data=4, tensor=2, ranks_per_host=2, delays=(Delay("compute", 20_000, ranks=(1,)),))
    with reading(replace(even, slow_hosts={2: 40.0}), tmp_path) as read:
        steps = read.graph(STEP)
        slow = outliers(read.job, read.met, transfers(read.job, read.met))
        found = what_ifs(read.job, steps, walked(steps), read.met, [1], slow)
    [host] = [each for each in found if each.host]
    assert host.host == "node002"
    # that the sum of gradients waits for the tensor-parallel sum before it is not in the trace
    assert host.step_ns == pytest.approx(_length(even), rel=0.03)
    [rank] = [each for each in found if each.rank == 1]
    assert rank.saves_ns == 0
