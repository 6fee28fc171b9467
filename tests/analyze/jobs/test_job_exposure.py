"""Compute, communication, both and neither, beside the truth of a plan."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from analyze.jobs.plan import Answer, Plan
from analyze.jobs.planned import reading
from foretrace.analyze import jobs
from foretrace.analyze.jobs.exposure import exposure, overlap, perfect, typical


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
    assert all((row["groups"], row["ranks"], row["wait_ns"]) == (2, 4, 0) for row in found.values())
    tensor, data = found["mesh_tensor"], found["mesh_data"]
    assert (tensor["count"], tensor["share"]) == (4 * 3 * 6, 0.0)
    assert data["count"] == 4 * 3 * 3
    assert 0 < data["exposed_ns"] < data["total_ns"]


def test_waiting_is_a_part_of_what_is_exposed(small_job: tuple[Path, Answer]) -> None:
    with reading(small_job[1].plan, small_job[0]) as read:
        [row] = overlap(read.job, read.waits()).to_dicts()
    waits = sum(sum(met.waits_ns.values()) for met in read.truth.collectives)
    assert 0 < row["wait_ns"] <= min(row["exposed_ns"], waits + 60_000)


def _times(*rows: tuple[int, int, int, int, int, bool]) -> pl.DataFrame:
    names = ["rank", "step", "wall_ns", "compute_ns", "exposed_ns", "whole"]
    return pl.DataFrame(rows, names, orient="row").with_columns(both_ns=pl.lit(0))


@pytest.mark.parametrize(("compute", "exposed", "saves"), [(80, 20, 20), (30, 70, 30), (100, 0, 0)])
def test_perfect_overlap_hides_no_more_than_there_is_compute(
    compute: int, exposed: int, saves: int
) -> None:
    found = perfect(_times((0, 1, 100, compute, exposed, True)))
    assert found["saves_ns"].to_list() == [saves]


def test_a_step_with_perfect_overlap_takes_as_long_as_its_longest_rank() -> None:
    """Rank 1 made rank 0 wait: all of rank 0's exposed time saves nothing."""
    [row] = perfect(_times((0, 1, 100, 60, 40, True), (1, 1, 100, 95, 5, True))).to_dicts()
    assert (row["rank"], row["at_best_ns"], row["saves_ns"]) == (1, 95, 5)


def test_the_typical_step_is_the_median_of_the_whole_ones() -> None:
    rows = [(0, step, wall, 0, 0, whole) for step, wall, whole in
            [(3, 90, True), (4, 70, True), (5, 80, True), (6, 10, False)]]  # fmt: skip
    assert typical(_times(*rows)) == 5
    assert typical(_times((0, 7, 50, 0, 0, False))) == 7
    assert typical(_times().cast({"wall_ns": pl.Int64, "whole": pl.Boolean})) is None
