"""How kernels walk a working set; no GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from foretrace.record.experiments.roofs.gpu import (
    MOVED,
    OWN,
    OWN_BLOCKS,
    SPREAD,
    WAYS,
    WIDE,
    WIDE_FROM,
    WalkPlan,
    WalkShape,
    plan,
    shapes_of,
    working_sets,
)
from sweep import looped

SIZES = list(working_sets())
SMS = 132


def _walked(walk: WalkPlan, program: int, steps: int) -> list[int]:
    start, first = program * walk.apart % walk.blocks, program * walk.own
    return [first + (start + step * walk.stride) % walk.blocks for step in range(steps)]


def test_working_sets_reach_from_l1_to_gigabytes() -> None:
    assert SIZES[0] == 64 << 10
    assert SIZES[-1] == 8 << 30
    assert sorted(set(SIZES)) == SIZES


@looped("size", SIZES)
def test_every_block_is_walked_and_the_count_is_right(size: int) -> None:
    for shape in shapes_of(size, SMS):
        walk = plan(size, shape, SMS)
        assert size <= walk.all_blocks * shape.block * 4 <= 1.04 * size
        assert 0 < walk.stride < walk.blocks
        assert walk.programs * walk.steps >= walk.all_blocks
        assert walk.programs * walk.steps * shape.block * 4 >= MOVED


@pytest.mark.parametrize("shape", [*SPREAD, *OWN])
@pytest.mark.parametrize("size", [64 << 10, 1 << 20, 48 << 20])
def test_programs_together_walk_the_whole_set(size: int, shape: WalkShape) -> None:
    walk = plan(size, shape, SMS)
    seen = {at for one in range(walk.programs) for at in _walked(walk, one, walk.steps)}
    assert len(seen) == walk.all_blocks


@pytest.mark.parametrize("way", ["read", "copy"])
@pytest.mark.parametrize("size", [32 << 20, 64 << 20, 512 << 20])
def test_no_two_programs_read_the_same_block(size: int, way: str) -> None:
    """On an H200 a third of the reads of 16 MiB were merged before L2 where they did."""
    for shape in shapes_of(size, SMS, way):
        walk = plan(size // 2 if way == "copy" else size, shape, SMS)
        parts = [set(_walked(walk, program, walk.steps)) for program in range(walk.programs)]
        assert min(map(len, parts)) >= OWN_BLOCKS
        assert sum(map(len, parts)) == len(set().union(*parts))


def test_small_sets_are_written_and_copied_but_not_read() -> None:
    assert not shapes_of(8 << 20, SMS, "read")
    assert all(shapes_of(size, SMS, way) for size in SIZES for way in WAYS[1:])
    assert all(shapes_of(size, SMS, "read") for size in SIZES if size >= 12 << 20)


def test_no_program_of_a_wide_launch_walks_its_blocks_again() -> None:
    """It would find them in L2: 1 GiB was read at twice the rate of the memory."""
    assert all(WIDE not in shapes_of(size, SMS) for size in SIZES if size < WIDE_FROM)
    walk = plan(WIDE_FROM, WIDE, SMS)
    assert len(set(_walked(walk, 5, walk.steps))) == walk.steps
