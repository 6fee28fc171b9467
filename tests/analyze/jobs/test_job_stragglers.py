"""Who makes the others wait, and whether the GPU, the code or the host is slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analyze.jobs.fake import FakeJob, facts
from analyze.jobs.plan import Delay, Plan, write
from foretrace.analyze import jobs
from foretrace.analyze.jobs.clocks import fit
from foretrace.analyze.jobs.matched_collectives import match
from foretrace.analyze.jobs.stragglers import hosts, slowness, stragglers
from foretrace.analyze.jobs.waits import waits


def _answered(plan: Plan, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ranks and hosts of a simulated job."""
    write(plan, folder)
    with jobs.read(folder, cache=False) as job:
        met = match(job)
        found = waits(job, met, fit(job, met))
        ranks = stragglers(found, job)
        return ranks, hosts(found, job, ranks)


@pytest.mark.parametrize(
    ("delay", "slow"), [("compute", "gpu"), ("code", "code"), ("host", "host"), ("data", "")]
)
def test_what_is_slow(delay: Any, slow: str, tmp_path: Path) -> None:
    plan = Plan(data=4, ranks_per_host=2, delays=(Delay(delay, 1_200_000, ranks=(1,)),))
    ranks, found = _answered(plan, tmp_path)
    first = ranks.row(0, named=True)
    cause = "compute" if delay == "code" else delay
    assert (first["rank"], first["cause"], first["slow"]) == (1, cause, slow)
    assert first["causes"][cause] == pytest.approx(1)
    assert ranks["made_others_wait_ns"][1:].to_list() == [0, 0, 0]
    assert first["times_last"] == first["collectives"]
    assert first["delays_ns"] == pytest.approx(3 * 1_200_000, abs=30_000)
    assert first["made_others_wait_ns"] >= 3 * first["delays_ns"]
    assert not found["slow"].any()  # one rank of two


def test_evidence_for_a_slow_gpu_and_for_other_code(tmp_path: Path) -> None:
    delays = Delay("compute", 1_000_000, ranks=(1,)), Delay("code", 700_000, ranks=(2,))
    ranks, _ = _answered(Plan(data=8, layers=2, delays=delays), tmp_path)
    told = {row["rank"]: row for row in ranks.iter_rows(named=True)}
    # two layers of 600 us and an optimizer of 100 us become 1 ms longer
    assert told[1]["gpu_factor"] == pytest.approx(2.3 / 1.3)
    assert told[1]["gpu_ns"] == 1_000_000
    assert told[1]["code_ns"] == 0
    assert told[2]["gpu_factor"] == pytest.approx(1)
    assert told[2]["code_ns"] == 700_000


def test_a_slow_host_is_more_than_one_slow_rank(tmp_path: Path) -> None:
    plan = Plan(data=8, ranks_per_host=4, delays=(Delay("host", 1_500_000, hosts=(1,)),))
    ranks, found = _answered(plan, tmp_path)
    assert found["slow"].to_list() == [True, False]
    row = found.row(0, named=True)
    assert (row["host"], row["ranks"], row["cause"]) == ("node001", 4, "host")
    late = ranks.filter(host="node001")
    assert late["made_others_wait_ns"].sum() == row["made_others_wait_ns"]
    assert late["slow"].unique().to_list() == ["host"]
    # the four share each delay, so that the host's is their sum
    assert row["delays_ns"] == late["delays_ns"].sum()


def test_a_delay_counts_once_however_many_groups_it_passes(tmp_path: Path) -> None:
    late = Delay("compute", 1_000_000, ranks=(3,))
    plan = Plan(data=3, tensor=2, pipeline=2, microbatches=2, ranks_per_host=2, delays=(late,))
    ranks, _ = _answered(plan, tmp_path)
    first = ranks.row(0, named=True)
    assert first["rank"] == 3
    assert ranks["made_others_wait_ns"][1:].sum() == 0
    assert 0.8 * 3e6 < first["delays_ns"] < 1.2 * 3e6


def test_few_slow_kernels_are_no_slow_gpu() -> None:
    """One of ten kernels takes three times as long on rank 0, and it runs an eleventh."""
    rows = [
        {"rank": rank, "name": f"kernel {at}", "signature": "", "role": "gemm", "count": 2,
         "total_ns": 2000 * (3 if rank == at == 0 else 1), "per_step": 1.0}
        for rank in range(4) for at in range(11) if at < 10 or rank == 0
    ]  # fmt: skip
    job: Any = FakeJob(map(facts, range(4)), kernels=pl.DataFrame(rows))
    found = slowness(job, pl.DataFrame({"rank": [0, 0, 0], "equal": [1, 2, 3]}))
    row = found.row(0, named=True)
    assert row["gpu_factor"] == pytest.approx(1.2)
    assert row["slower"] == pytest.approx(0.1)
    assert (row["gpu_ns"], row["code_ns"]) == (2000, 1000)


def test_a_job_in_which_nobody_is_late(tmp_path: Path) -> None:
    ranks, found = _answered(Plan(data=2, ranks_per_host=1), tmp_path)
    assert ranks["made_others_wait_ns"].to_list() == [0, 0]
    assert ranks["cause"].to_list() == ["", ""]
    assert ranks["slow"].to_list() == ["", ""]
    assert found["slow"].to_list() == [False, False]
