"""Offsets of milliseconds and drifts of tens of ppm come back within microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from foretrace.jobs.clocks import CLOCKS, aligned, fit
from foretrace.jobs.matched_collectives import match
from foretrace.jobs.whole_job import JobGroup
from jobs.fake import BASE_NS, FakeJob, collectives, facts

SECONDS = 5.0
Rows = list[dict[str, Any]]


class World:
    """Ranks whose clocks are known, and the collectives that they meet in."""

    def __init__(self, ranks: int, noise_ns: float = 0.0, seed: int = 0) -> None:
        self.draw, self.noise_ns = np.random.default_rng(seed), noise_ns
        self.offset_ns = self.draw.integers(-5_000_000, 5_000_000, ranks)
        self.drift = self.draw.uniform(-40e-6, 40e-6, ranks)
        self.rows: Rows = []
        self.groups: list[Sequence[int]] = []

    def shown(self, rank: int, at: int) -> int:
        """True time as the clock of a rank shows it."""
        return BASE_NS + at + int(self.offset_ns[rank]) + round(at * float(self.drift[rank]))

    def meet(self, ranks: Sequence[int], count: int, **more: Any) -> None:
        """All-reduces at any time; each rank comes when it likes, and they end together."""
        self.groups.append(ranks)
        for seq, end in enumerate(np.sort(self.draw.uniform(0, SECONDS * 1e9, count))):
            moved = int(self.draw.choice([20_000, 2_000_000]))
            for rank in ranks:
                came = int(end) - moved - int(self.draw.exponential(500_000))
                left = int(end) + abs(int(self.draw.normal(0, self.noise_ns)))
                self.rows.append(
                    {"rank": rank, "group": str(len(self.groups)), "seq": seq,
                     "start_ns": self.shown(rank, came), "end_ns": self.shown(rank, left)} | more
                )  # fmt: skip

    def fitted(self) -> pl.DataFrame:
        named = [
            JobGroup(str(number), "", len(ranks), tuple(ranks))
            for number, ranks in enumerate(self.groups, start=1)
        ]
        found = [
            facts(rank, [group for group in named if rank in group.ranks])
            for rank in range(len(self.offset_ns))
        ]
        job: Any = FakeJob(found, collectives=collectives(self.rows))
        return fit(job, match(job))

    def wrong_us(self, clocks: pl.DataFrame, ranks: Sequence[int] | None = None) -> float:
        """The largest error of a clock, at both ends and in the middle of the recording."""
        chosen = range(len(self.offset_ns)) if ranks is None else ranks
        worst = 0.0
        for at in (0, int(SECONDS * 5e8), int(SECONDS * 1e9)):
            shown = pl.DataFrame({"rank": chosen, "t": [self.shown(rank, at) for rank in chosen]})
            put = aligned(shown, clocks, "t")["t"].to_numpy()
            worst = max(worst, float(np.abs(put - put[0]).max()) / 1e3)
        return worst


def _mesh(world: World, tensor: int, data: int, pipeline: int, count: int) -> None:
    """Groups of which none spans the job."""
    ranks = np.arange(tensor * data * pipeline).reshape(pipeline, data, tensor)
    for axis in range(3):
        for group in np.moveaxis(ranks, axis, -1).reshape(-1, ranks.shape[axis]):
            world.meet(group.tolist(), count)


@pytest.mark.parametrize("noise_ns", [0.0, 3_000.0])
def test_no_group_spans_the_job(noise_ns: float) -> None:
    world = World(32, noise_ns)
    _mesh(world, 4, 4, 2, 60)
    clocks = world.fitted()
    assert clocks["fitted"].all()
    assert clocks.schema == pl.Schema(CLOCKS)
    assert world.wrong_us(clocks) < (0.1 if noise_ns == 0 else 3)
    assert clocks["error_ns"].max() < 6_000  # type: ignore[operator]
    assert world.wrong_us(clocks) * 1e3 <= 2 * clocks["error_ns"].max()  # type: ignore[operator]


def test_wrong_ends_do_not_move_the_fit() -> None:
    world = World(8, 1_000.0)
    world.meet(range(8), 200)
    for row in world.rows[::7]:
        row["end_ns"] += 3_000_000
    assert world.wrong_us(world.fitted()) < 2


def test_a_file_without_a_time_base_is_decades_off() -> None:
    world = World(3)
    world.meet(range(3), 50)
    for row in world.rows:
        if row["rank"] == 2:
            row |= {key: row[key] - BASE_NS for key in ("start_ns", "end_ns")}
    clocks = world.fitted()
    assert world.wrong_us(clocks, [0, 1]) < 0.1
    expected = int(world.offset_ns[2] - world.offset_ns[0]) - BASE_NS
    assert clocks["offset_ns"][2] == pytest.approx(expected, abs=1_000_000)
    assert clocks["error_ns"][2] < 3_000


def test_ranks_that_share_no_collective_are_not_fitted() -> None:
    world = World(6)
    world.meet((0, 1, 2), 20)
    world.meet((3, 4), 20)
    clocks = world.fitted()
    assert clocks["fitted"].to_list() == [True, True, True, False, False, False]
    assert clocks["reference"].to_list() == [0, 0, 0, 3, 3, 5]
    assert clocks.row(5)[2:5] == (None, None, None)
    assert world.wrong_us(clocks, [3, 4]) < 0.5  # those two compare with each other


def test_a_clock_that_was_set_during_the_recording_has_a_larger_error() -> None:
    """Nobody ends before the last has started: no line can hold before and after the jump."""
    world = World(3)
    world.meet(range(3), 100)
    jumped = [row for row in world.rows if row["rank"] == 2 and row["seq"] > 75]
    for row in jumped:
        row |= {"start_ns": row["start_ns"] - 900_000, "end_ns": row["end_ns"] - 900_000}
    clocks = world.fitted()
    assert clocks["error_ns"][2] > 300_000
    assert world.wrong_us(clocks, [0, 1]) < 1
