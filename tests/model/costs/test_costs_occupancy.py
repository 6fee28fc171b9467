"""Occupancy recomputed from footprints whose answer is known."""

import pytest

from foretrace.model.costs.limits import occupancy
from sweep import looped


@looped(
    ("registers", "shared", "threads", "arch", "expected"),
    [
        (255, 49_152, 128, "sm_80", 8 / 64),  # flash attention: 2 blocks of 4 warps
        (240, 73_728, 256, "sm_80", 8 / 64),  # cuDNN attention: 1 block of 8 warps
        (32, 0, 128, "sm_90", 1.0),
        (32, 0, 64, "sm_90", 1.0),  # 32 blocks of 2 warps
        (16, 0, 32, "sm_90", 32 / 64),  # at most 32 blocks
        (16, 0, 32, "sm_89", 24 / 48),
        (16, 0, 32, "sm_86", 16 / 48),
        (16, 0, 1024, "sm_75", 1.0),
        (40, 0, 128, "sm_90", 48 / 64),  # 51 warps fit, 48 in fours and blocks of four
        (168, 232_448 - 1024, 384, "sm_90", 12 / 64),  # one block that fills shared memory
        (32, 50_000, 128, "sm_70", 4 / 64),  # 96 KiB holds one
        (32, 32_768, 128, "sm_70", 12 / 64),
        (32, 32_768, 128, "sm_80", 16 / 64),  # 33 KiB with the reserved one: 4 in 164
        (33, 0, 96, "sm_100", 48 / 64),  # 40 registers each after rounding
    ],
)
def test_known_footprints(
    registers: int, shared: int, threads: int, arch: str, expected: float
) -> None:
    assert occupancy(registers, shared, threads, arch) == expected


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "arch"),
    [
        (32, 0, 128, "gfx942"),
        (32, 0, 0, "sm_90"),
        (255, 0, 1024, "sm_90"),
        (32, 300_000, 128, "sm_90"),
        (-1, 0, 128, "sm_90"),
    ],
)
def test_what_cannot_be_known_or_cannot_run(
    registers: int, shared: int, threads: int, arch: str
) -> None:
    assert occupancy(registers, shared, threads, arch) is None
