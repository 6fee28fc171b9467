"""Sixty-four ranks with tensor, data and pipeline parallelism: every answer is the planned one."""

from __future__ import annotations

import pytest

from analyze.jobs.plan import Answer, Clock, Delay, Plan, write
from analyze.jobs.plan.distance import distance
from foretrace.analyze import jobs
from foretrace.schema.documents.job import JobDocument
from foretrace.show.overview.job_verdict import overview_of_job

SLOW, LATE_HOST, SLOW_LINK = 19, 6, 3

PLAN = Plan(
    data=8,
    tensor=4,
    pipeline=2,
    slow_hosts={SLOW_LINK: 25.0},
    delays=(Delay("compute", 1_600_000, ranks=(SLOW,)), Delay("data", 30_000, hosts=(LATE_HOST,))),
    clocks={
        host: Clock((-1) ** host * host * 310_007, 0.3 * (host % 3 - 1)) for host in range(1, 8)
    },
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[JobDocument, Answer]:
    """What foretrace says of the job, and the truth."""
    folder = tmp_path_factory.mktemp("sixty_four")
    truth = write(PLAN, folder)
    job = jobs.read(folder, cache=False)
    try:
        return overview_of_job(job), truth
    finally:
        job.close()


def test_the_job_is_found_whole(told: tuple[JobDocument, Answer]) -> None:
    document, truth = told
    assert (document.job.ranks, document.job.world_size, document.job.hosts) == (64, 64, 8)
    assert document.matched == len(truth.collectives)
    assert document.left_out == []


def test_the_slow_rank_is_found_with_its_cause(told: tuple[JobDocument, Answer]) -> None:
    document, truth = told
    off = distance(document, truth)
    assert off.straggler == off.true_straggler == SLOW
    [slow] = [each for each in document.ranks if each.rank == SLOW]
    assert (slow.cause, slow.slow) == ("compute", "gpu")


def test_clocks_are_within_5_us_and_within_their_error(told: tuple[JobDocument, Answer]) -> None:
    off = distance(*told)
    assert off.offset_ns <= 5_000
    assert off.beyond_error == 0


def test_waits_are_exact(told: tuple[JobDocument, Answer]) -> None:
    """To what clocks that drift lose in the sum over the collectives of a step."""
    assert distance(*told).wait_ns <= 100


def test_exposed_time_is_exact(told: tuple[JobDocument, Answer]) -> None:
    """To the nanoseconds that a drifting clock loses."""
    off = distance(*told)
    assert off.exposed_ns <= 100
    assert off.wall_ns <= 100


def test_bandwidths_are_found_and_so_is_the_slow_link(told: tuple[JobDocument, Answer]) -> None:
    document, truth = told
    assert distance(document, truth).bandwidth <= 0.01
    assert any(f"{SLOW_LINK:03d}" in each.what for each in document.outliers)


def test_the_critical_path_has_its_length(told: tuple[JobDocument, Answer]) -> None:
    assert distance(*told).path_ns <= 10_000
