"""A planted delay is found with its cause and with what it costs, and nothing else is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from analyze.jobs.plan import Clock, Delay, Plan, write
from analyze.jobs.plan.answer import slowdown
from foretrace.analyze import jobs
from foretrace.schema.documents.job import JobDocument
from foretrace.show.overview.job_verdict import lines, overview_of_job

DATA = Plan(data=8, ranks_per_host=4, layers=3, kernel_noise_ns=2_000, clocks={1: Clock(400_000)})
MIXED = replace(DATA, data=2, tensor=2, pipeline=2, layers=2, microbatches=4)
PIPELINE = replace(DATA, data=1, pipeline=4, layers=2, microbatches=4)
LATE, SLOW = 600_000, 2
SLOW_PART = {"compute": "gpu", "code": "code", "host": "host"}
SHARDED = replace(DATA, sharded=True)
BLAMED = [(DATA, cause) for cause in ("compute", "code", "host", "data", "copies")]
BLAMED += [(MIXED, "data"), (SHARDED, "compute")]


def told(plan: Plan, folder: Path) -> JobDocument:
    write(plan, folder)
    with jobs.read(folder, cache=False) as job:
        return overview_of_job(job)


@pytest.mark.parametrize(("plan", "cause"), BLAMED)
def test_a_late_rank_is_found_with_cause_and_cost(plan: Plan, cause: str, tmp_path: Path) -> None:
    plan = replace(plan, delays=(Delay(cause, LATE, ranks=(SLOW,)),))  # type: ignore[arg-type]
    document = told(plan, tmp_path)
    assert document.verdict.bound == "straggler"
    [row] = [each for each in document.ranks if each.rank == SLOW]
    assert row.delays_ns == max(each.delays_ns or 0 for each in document.ranks)
    assert row.cause == ("compute" if cause == "code" else cause)
    assert row.slow == SLOW_PART.get(cause, "")
    cost = sum(slowdown(plan).values()) / plan.steps
    assert 0.95 * cost < (row.exposed_delays_ns or 0) < 1.3 * cost


def test_a_slow_host_is_no_slow_rank(tmp_path: Path) -> None:
    document = told(replace(DATA, delays=(Delay("compute", LATE, hosts=(1,)),)), tmp_path)
    assert document.verdict.bound == "slow_host"
    assert [each.host for each in document.hosts if each.slow] == ["node001"]


@pytest.mark.parametrize("plan", [DATA, MIXED, PIPELINE])
def test_nobody_is_blamed_where_nothing_was_planted(plan: Plan, tmp_path: Path) -> None:
    document = told(plan, tmp_path)
    assert document.verdict.bound in ("balanced", "inconclusive")
    assert not [each for each in document.ranks if each.slow]


def test_a_delay_in_one_step_is_told_as_such(tmp_path: Path) -> None:
    plan = replace(DATA, delays=(Delay("host", 3_000_000, ranks=(SLOW,), steps=(1,)),))
    document = told(plan, tmp_path)
    assert document.verdict.bound == "straggler"
    assert f"step {plan.first_step + 1}" in document.verdict.text


def test_a_stage_that_computes_longer_is_named(tmp_path: Path) -> None:
    """The stages of a pipeline have no equals: who is slow and who has more layers is not known."""
    document = told(replace(PIPELINE, delays=(Delay("compute", 1_500_000, ranks=(2,)),)), tmp_path)
    [line] = [each.text for each in lines(document) if each.label == "PIPELINE"]
    assert "stage 2 computes longest" in line
    assert "its stage" in document.verdict.text


@pytest.mark.parametrize("base", [DATA, MIXED])
def test_noise_makes_everybody_late_and_nobody_guilty(base: Plan, tmp_path: Path) -> None:
    plan = replace(base, steps=5, kernel_noise_ns=30_000, rate_noise=0.3, end_noise_ns=3_000)
    assert told(plan, tmp_path).verdict.bound == "balanced"
