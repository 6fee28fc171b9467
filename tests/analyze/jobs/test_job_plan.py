"""The generator obeys its own rules: what it says is true of the files that it writes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import foretrace as ft
from analyze.jobs.plan import Answer, Delay, Gaps, Plan, sized, write
from analyze.jobs.plan.answer import answer
from analyze.jobs.plan.kineto import document
from analyze.jobs.plan.simulate import simulate


def test_all_ranks_end_a_collective_together(small_job: tuple[Path, Answer]) -> None:
    _, truth = small_job
    for met in truth.collectives:
        assert met.last == (2,)
        assert met.waits_ns[2] == 0
        assert met.end_ns == met.starts_ns[2] + met.transfer_ns


def test_the_files_say_what_the_answer_says(small_job: tuple[Path, Answer]) -> None:
    _, truth = small_job
    for rank, path in truth.files.items():
        trace = ft.open(path, cache=False)
        assert (trace.about.rank, trace.about.world_size) == (rank, 4)
        talking = trace.kernels.filter(role="comms")
        recorded = sorted(zip(talking["ts_ns"], talking["dur_ns"], strict=True))
        shift = truth.offsets_ns[rank]
        assert recorded == sorted(
            (met.starts_ns[rank] + shift, met.end_ns - met.starts_ns[rank])
            for met in truth.collectives
        )


PLANS = (
    Plan(data=2, tensor=2, pipeline=2, microbatches=3, delays=(Delay("host", 70_000, (3,)),)),
    Plan(data=4, sharded=True, overlap=False, kernels=3, kernel_noise_ns=900, rate_noise=0.2),
    Plan(pipeline=3, data=1, microbatches=2, slow_hosts={0: 20.0}, end_noise_ns=300),
    Plan(data=3, sync=False, delays=(Delay("data", 4_000_000, (1,), steps=(1,)),)),
)


@pytest.mark.parametrize("plan", PLANS)
def test_the_times_of_a_step_fill_its_window(plan: Plan) -> None:
    truth = answer(simulate(plan), {})
    for times in truth.steps.values():
        busy = times.compute_ns + times.comms_ns - times.both_ns + times.copy_ns
        assert busy + times.idle_ns == times.wall_ns
        assert 0 <= times.data_ns <= times.idle_ns


@pytest.mark.parametrize("plan", PLANS)
def test_a_critical_path_has_no_gap(plan: Plan) -> None:
    truth = answer(simulate(plan), {})
    for path in truth.paths.values():
        noise = max(plan.end_noise_ns, 0)
        for before, after in pairwise(path):
            assert before.start_ns <= before.end_ns
            assert 0 <= before.end_ns - after.start_ns <= noise


@pytest.mark.parametrize("plan", PLANS)
def test_the_bandwidth_is_that_of_the_plan(plan: Plan) -> None:
    truth = answer(simulate(plan), {})
    for met in truth.collectives:
        size = len(met.waits_ns)
        factor = {"allreduce": 2 * (size - 1) / size, "send": 1}.get(
            met.collective, (size - 1) / size
        )
        fastest = met.message_bytes * factor / met.bus_gbps
        assert -1 <= met.transfer_ns - fastest <= plan.rate_noise * fastest + 1


def test_files_have_the_gaps_of_the_plan(tmp_path: Path) -> None:
    gaps = Gaps(missing=(0,), double=(1,), cut=(2,), empty=(3,), unrecorded=((4, "data", 2),))
    truth = write(Plan(data=5, gaps=gaps, by_rank=True), tmp_path)
    assert sorted(truth.files) == [1, 2, 3, 4]
    assert (tmp_path / "again_rank1.json.gz").read_bytes() == truth.files[1].read_bytes()
    assert truth.files[3].read_bytes() == b""
    assert truth.files[2].stat().st_size < truth.files[1].stat().st_size
    seqs = ft.open(truth.files[4], cache=False).tables["comms"]["seq"].unique().sort()
    assert seqs.to_list() == [1, 3, 4, 5, 6]


def test_a_plan_can_be_given_a_size() -> None:
    plan = sized(Plan(data=2), 1_000_000)
    text = msgspec.json.encode(document(simulate(plan), 0))
    assert 900_000 < len(text) < 1_100_000
