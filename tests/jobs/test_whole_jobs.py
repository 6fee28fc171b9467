"""Whole jobs, from files to the verdict: planned ones, and one that torch recorded itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import fmean

import msgspec
import pytest
from msgspec.structs import replace

from corpus.places import PUBLIC
from foretrace import jobs
from foretrace.cli import main
from foretrace.jobs.documents import JobDocument
from foretrace.jobs.summary import summarize
from foretrace.jobs.verdict import fixes
from jobs.plan import Clock, Delay, Gaps, Plan, write
from jobs.plan.answer import slowdown, walls
from jobs.plan.damage import SPOILED
from jobs.plan.distance import distance
from jobs.plan.faults import misses, random_job
from jobs.plan.simulate import simulate
from sweep import FULL

DATA = Plan(data=8, ranks_per_host=4, layers=3, kernel_noise_ns=2_000, clocks={1: Clock(400_000)})
MIXED = replace(DATA, data=2, tensor=2, pipeline=2, layers=2, microbatches=4)
PIPELINE = replace(DATA, data=1, pipeline=4, layers=2, microbatches=4)
LATE, SLOW = 600_000, 2
SLOW_PART = {"compute": "gpu", "code": "code", "host": "host"}
# a root that came last nowhere, a delay in the replayed step alone, a slow link beside a cut file
WERE_WRONG = (244, 268, 297)
BLAMED = [(DATA, cause) for cause in ("compute", "code", "host", "data", "copies")]
BLAMED += [(MIXED, "data"), (replace(DATA, sharded=True), "compute")]


def overview(folder: Path) -> JobDocument:
    with jobs.read(folder, cache=False) as job:
        return summarize(job)


def planned(plan: Plan, folder: Path) -> JobDocument:
    write(plan, folder)
    return overview(folder)


@pytest.mark.sweep
def test_64_ranks_with_tensor_data_and_pipeline_parallelism(tmp_path: Path) -> None:
    """Every answer is the planned one."""
    slow, late_host, slow_link = 19, 6, 3
    late = (Delay("compute", 1_600_000, ranks=(slow,)), Delay("data", 30_000, hosts=(late_host,)))
    clocks = {host: Clock((-1) ** host * host * 310_007, 0.3 * (host % 3 - 1))
              for host in range(1, 8)}  # fmt: skip
    plan = Plan(
        data=8, tensor=4, pipeline=2, slow_hosts={slow_link: 25.0}, delays=late, clocks=clocks
    )
    truth = write(plan, tmp_path)
    document = overview(tmp_path)
    assert (document.job.ranks, document.job.world_size, document.job.hosts) == (64, 64, 8)
    assert document.matched == len(truth.collectives)
    assert document.left_out == []
    off = distance(document, truth)
    assert off.straggler == off.true_straggler == slow
    [row] = [each for each in document.ranks if each.rank == slow]
    assert (row.cause, row.slow) == ("compute", "gpu")
    assert off.offset_ns <= 5_000
    assert off.beyond_error == 0
    # to the nanoseconds that drifting clocks lose in the sum over the collectives of a step
    assert max(off.wait_ns, off.exposed_ns, off.wall_ns) <= 100
    assert off.bandwidth <= 0.01
    assert any(f"{slow_link:03d}" in each.what for each in document.outliers)
    assert off.path_ns <= 10_000


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("plan", "cause"), BLAMED)
def test_a_late_rank_is_found_with_cause_and_cost(plan: Plan, cause: str, tmp_path: Path) -> None:
    plan = replace(plan, delays=(Delay(cause, LATE, ranks=(SLOW,)),))  # type: ignore[arg-type]
    document = planned(plan, tmp_path)
    assert document.verdict.bound == "straggler"
    [row] = [each for each in document.ranks if each.rank == SLOW]
    assert row.delays_ns == max(each.delays_ns or 0 for each in document.ranks)
    assert row.cause == ("compute" if cause == "code" else cause)
    assert row.slow == SLOW_PART.get(cause, "")
    cost = sum(slowdown(plan).values()) / plan.steps
    assert 0.95 * cost < (row.exposed_delays_ns or 0) < 1.3 * cost


@pytest.mark.parametrize("plan", [DATA, MIXED, PIPELINE])
def test_no_rank_is_blamed_where_no_delay_was_planned(plan: Plan, tmp_path: Path) -> None:
    document = planned(plan, tmp_path)
    assert document.verdict.bound in ("balanced", "inconclusive")
    assert not [each for each in document.ranks if each.slow]


def test_a_rank_whose_file_is_cut_does_not_hide(tmp_path: Path) -> None:
    gaps, late = Gaps(cut=(SLOW,), kept=0.55), Delay("compute", LATE, ranks=(SLOW,))
    document = planned(replace(DATA, gaps=gaps, delays=(late,)), tmp_path)
    assert document.verdict.bound == "straggler"
    assert document.verdict.text.startswith(f"rank {SLOW} ")
    assert f"the file of rank {SLOW} is cut" in document.verdict.text


def _saves(document: JobDocument) -> dict[str, int]:
    assert document.path is not None
    return {each.what: each.saves_ns for each in document.path.what_ifs}


def test_a_slow_link_is_no_slow_rank(tmp_path: Path) -> None:
    """One of two data-parallel groups has a third of the bandwidth."""
    plan = replace(DATA, data=4, tensor=2, gradient_bytes=40 << 20, kernel_noise_ns=10_000)
    slow = replace(plan, slow_groups={"6": 30.0})
    document = planned(slow, tmp_path)
    assert document.verdict.bound == "slow_link"
    assert document.verdict.text.startswith("group 6 is slow: 30 GB/s")
    late = [each for each in document.ranks if (each.delays_ns or 0) > 90_000]
    assert {each.cause for each in late} == {"other_comms"}
    lengths = [fmean(walls(simulate(each))) for each in (slow, plan)]
    assert _saves(document)["group 6"] == pytest.approx(lengths[0] - lengths[1], rel=0.1)


@pytest.mark.parametrize("seed", [*WERE_WRONG, *(range(1, 13) if FULL else ())])
def test_culprit_and_cause_in_random_jobs(seed: int, tmp_path: Path) -> None:
    """`benchmarks/job_plans.py` counts them over more seeds."""
    plan, faults = random_job(seed)
    truth = write(plan, tmp_path)
    assert misses(overview(tmp_path), truth, faults) == []


@pytest.mark.sweep(2)
@pytest.mark.parametrize("base", [DATA, MIXED])
def test_noise_makes_all_ranks_late_and_blames_none(base: Plan, tmp_path: Path) -> None:
    plan = replace(base, steps=5, kernel_noise_ns=30_000, rate_noise=0.3, end_noise_ns=3_000)
    assert planned(plan, tmp_path).verdict.bound == "balanced"


@pytest.mark.sweep
@pytest.mark.torch
def test_a_real_job_of_four_processes(gloo_job: Path) -> None:
    """Rank 2 of `gloo_script.py` sleeps 0.3 s in each step before the gradients are summed."""
    found = overview(gloo_job)
    assert (found.job.ranks, found.job.world_size, found.job.steps) == (4, 4, [2, 3, 4])
    worst = max(found.ranks, key=lambda each: each.made_others_wait_ns or 0)
    assert (worst.rank, worst.cause) == (2, "host")
    assert "rank 2" in found.verdict.text
    error = max(each.clock.error_ns or 0 for each in found.ranks)
    assert all(each.saves_ns >= error for each in fixes(found) if "rank" in each.text)
    assert found.matched == found.by_order == 6
    for each in found.ranks:
        # the sleep outweighs what a busy machine adds
        assert ((each.wait_ns or 0) > 150_000_000) == (each.rank != 2)
        assert each.host == found.ranks[0].host
        # one machine has one clock; a busy one that delays some ranks at every collective shifts the
        # fit by more than its error, but never by the sleep
        if each.clock.fitted:
            assert abs(each.clock.offset_ns or 0) < 150_000_000


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_the_public_two_ranks_of_128(tmp_path: Path) -> None:
    """They are thinned, and have no groups or sequence numbers: nothing is matched by number."""
    for name in ("ranks_0.json.gz", "ranks_1.json.gz"):
        shutil.copy(Path(PUBLIC, name), tmp_path)
    found = overview(tmp_path)
    assert (found.job.ranks, found.job.world_size) == (2, 128)
    assert found.matched == found.by_order
    assert found.verdict.text
    assert any("126" in each.text or each.count == 126 for each in found.same)


# what jobs suffer most, and a sample of the rest
ALWAYS = ("one rank", "a rank is double", "a file is cut", "another world size", "two jobs")
OFTEN = ("a collective that some recorded", "no step in common", "times that are no numbers")
REST = [name for name in SPOILED if name not in ALWAYS + OFTEN]
TRIED = [*ALWAYS, *OFTEN, *(REST if FULL else REST[::6])]
LEFT_OUT = {"a file is damaged", "a file is empty", "a pipe", "other files", "links"}


def answered(folder: Path, capsys: pytest.CaptureFixture[str]) -> JobDocument:
    assert main(["job", str(folder), "--json", "--no-cache"]) == 0
    out, errors = capsys.readouterr()
    assert "Traceback" not in errors
    return msgspec.json.decode(out, type=JobDocument)


@pytest.mark.sweep(3)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", TRIED)
def test_the_rest_is_answered(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SPOILED[name](tmp_path)
    document = answered(tmp_path, capsys)
    assert document.job.ranks >= 1
    assert document.verdict.text
    assert bool(document.left_out) or name not in LEFT_OUT
    for each in document.ranks:
        times = (each.wall_ns, each.compute_ns, each.exposed_ns, each.idle_ns, each.wait_ns)
        assert all(time is None or 0 <= time < 2**62 for time in times)


@pytest.mark.parametrize("place", ["/no/such/folder", "s3://", "nosuch://bucket/run"])
def test_a_place_that_does_not_exist(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", place]) in (2, 3, 4)
    assert capsys.readouterr().err.count("\n") <= 2
