"""How kernels walk a working set; no GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from foretrace.experiments.roofs.bandwidth import (
    MOVED,
    SHAPES,
    WIDE,
    WIDE_FROM,
    WalkPlan,
    WalkShape,
    plan,
    shapes_of,
    working_sets,
)

SIZES = list(working_sets())
SMS = 132


def _walked(walk: WalkPlan, program: int, steps: int) -> list[int]:
    start = program * walk.apart % walk.blocks
    return [(start + step * walk.stride) % walk.blocks for step in range(steps)]


def test_working_sets_reach_from_l1_to_gigabytes() -> None:
    assert SIZES[0] == 64 << 10
    assert SIZES[-1] == 8 << 30
    assert sorted(set(SIZES)) == SIZES


@pytest.mark.parametrize("size", SIZES)
def test_every_block_is_walked_and_the_count_is_right(size: int) -> None:
    for shape in shapes_of(size):
        walk = plan(size, shape, SMS)
        assert walk.blocks * shape.block * 4 == size
        assert 0 < walk.stride < walk.blocks
        assert walk.programs * walk.steps >= walk.blocks
        assert walk.programs * walk.steps * shape.block * 4 >= MOVED


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [64 << 10, 1 << 20, 48 << 20])
def test_programs_together_walk_the_whole_set(size: int, shape: WalkShape) -> None:
    walk = plan(size, shape, SMS)
    seen = {at for one in range(walk.programs) for at in _walked(walk, one, walk.steps)}
    assert len(seen) == walk.blocks


@pytest.mark.parametrize("size", [512 << 10, 1 << 20, 16 << 20, 64 << 20])
def test_programs_of_one_multiprocessor_start_apart(size: int) -> None:
    """On an H200 three of four reads of a 1 MiB set were merged before L2 where they did not."""
    walk = plan(size, SHAPES[0], SMS)
    for sm in range(SMS):
        starts = [program * walk.apart % walk.blocks for program in range(sm, walk.programs, SMS)]
        assert len(set(starts)) == len(starts)


def test_no_program_of_a_wide_launch_walks_its_blocks_again() -> None:
    """It would find them in L2: 1 GiB was read at twice the rate of the memory."""
    assert all(WIDE not in shapes_of(size) for size in SIZES if size < WIDE_FROM)
    walk = plan(WIDE_FROM, WIDE, SMS)
    assert len(set(_walked(walk, 5, walk.steps))) == walk.steps
