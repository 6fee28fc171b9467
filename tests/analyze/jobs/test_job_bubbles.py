"""Pipeline bubbles beside the truth of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from analyze.jobs.fake import FakeJob, collectives, facts
from analyze.jobs.plan import Answer, Clock, Plan
from analyze.jobs.plan.answer import length, minus, union
from analyze.jobs.plan.program import Copy, Kernel
from analyze.jobs.plan.simulate import simulate
from analyze.jobs.planned import reading
from foretrace.analyze.jobs.exposure import bubbles, stages
from foretrace.analyze.jobs.matched_collectives import match

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


def test_bubbles_hold_with_clocks_that_differ(tmp_path: Path) -> None:
    with reading(replace(PLAN, clocks={1: Clock(400_000), 2: Clock(-90_000)}), tmp_path) as read:
        rows = bubbles(read.job, read.met, read.waits()).iter_rows(named=True)
        found = {(row["rank"], row["step"]): row["bubble_ns"] for row in rows}
    true = _true_bubbles(read.truth)
    assert {key: found[key] for key in true} == pytest.approx(true, abs=60_000)


def test_a_job_without_sends_has_no_stages(tmp_path: Path) -> None:
    with reading(Plan(data=2), tmp_path) as read:
        assert stages(read.met) == {}
        assert bubbles(read.job, read.met, read.waits()).is_empty()


def _sends(*pairs: tuple[int, int]) -> dict[int, int]:
    rows = []
    for sender, receiver in pairs:
        rows.append({"rank": sender, "collective": "send", "peer": receiver})
        rows.append({"rank": receiver, "collective": "receive", "peer": sender})
    ranks = sorted({rank for pair in pairs for rank in pair})
    job = FakeJob([facts(rank) for rank in ranks], collectives=collectives(rows))
    return stages(match(job))  # type: ignore[arg-type]


def test_stages_follow_the_order_of_ranks_in_each_pipeline() -> None:
    there_and_back = [(0, 2), (2, 0), (2, 4), (4, 2), (1, 3), (3, 1), (3, 5), (5, 3)]
    assert _sends(*there_and_back) == {0: 0, 2: 1, 4: 2, 1: 0, 3: 1, 5: 2}


def test_a_pipeline_without_a_backward_pass_has_stages() -> None:
    assert _sends((0, 1), (1, 2)) == {0: 0, 1: 1, 2: 2}


def test_an_interleaved_pipeline_has_stages() -> None:
    assert _sends((0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)) == {0: 0, 1: 1, 2: 2}


def test_a_ring_is_no_pipeline() -> None:
    assert _sends((0, 1), (1, 2), (2, 3), (3, 0)) == {}
