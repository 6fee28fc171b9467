"""The tiles of a matmul, how many waves they take on a card, and what the waves should take.

A tile is what one thread block computes. Tiles that fill the card run at once: a wave. The last
wave leaves multiprocessors idle unless the tiles divide evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.schema.gemm_point import NARROW, GemmPoint
from foretrace.schema.kernel import KernelId

Array = np.ndarray[Any, np.dtype[Any]]

# xmma counts rows first: on an H200 the grids of 125 of 128 matmuls of unequal tiles say so, and
# the other three fit both ways. The families of cuBLAS count output features first.
ROWS_FIRST = frozenset({"xmma"})
# Of one multiprocessor of sm_80 to sm_90; shared memory by what the card's driver states.
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32
REGISTER_UNIT = 256  # of one warp
SHARED_BYTES = 233472
RESERVED_BYTES = 1024  # of shared memory, by the system for each block

# The model of `modelled_us`. FLOP per us by the bytes of a load: medians of large matmuls of an
# H200. The nearest matmuls correct what the rates miss, so they need not be exact.
SMS = 132
RATES = {
    "bf16": {16: 750e6, 8: 220e6, 4: 210e6, 2: 125e6},
    "fp16": {16: 750e6, 8: 220e6, 4: 210e6, 2: 125e6},
    "fp8": {16: 1400e6},
    "tf32": {16: 360e6, 8: 105e6, 4: 105e6},
    "fp32": {16: 48e6, 8: 48e6, 4: 48e6},
}
OTHER_RATE = 100e6
# bytes per us by the bytes of a load, of matmuls with few rows
MEMORY = {16: 3.9e6, 8: 2.2e6, 4: 2.2e6, 2: 1.1e6, 1: 1.1e6}
LAUNCH_US, WAVE_US, REDUCE_US = 2.0, 0.6, 2.0
REDUCE_BYTES_PER_US = 8e6  # partial sums are still in L2
SHORTEST_K = 192  # of one part
PARTS = np.array((1, 2, 3, 4, 5, 6, 8, 10, 12, 16))
# nvjet has every multiple of 8 on one side; the older kernels have few tiles
_SIDES = [(a, b) for a in (64, 128, 192, 256) for b in range(8, 257, 8) if a * b <= 256 * 192]
NEW_TILES = np.array([*_SIDES, *((b, a) for a, b in _SIDES if b >= 16)])
OLD_TILES = np.array(
    ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 32), (256, 64))
)
FULL_TILE = 2 * 256 * 128 / (256 + 128)  # elements of reuse at which a tile runs at full rate
HALF_REUSE = 96.0


class Launched(Struct, frozen=True):
    """How a kernel was launched."""

    grid: tuple[int, int, int]
    threads: int
    registers: int
    shared_bytes: int

    @property
    def blocks(self) -> int:
        """Thread blocks of the grid."""
        return prod(self.grid)

    def per_multiprocessor(self) -> int:
        """Blocks that one multiprocessor holds at once."""
        warps = ceil(self.threads / 32)
        unit = ceil(max(self.registers, 1) * 32 / REGISTER_UNIT) * REGISTER_UNIT
        fits = REGISTERS // (unit * warps), THREADS // (32 * warps), BLOCKS
        return max(1, min(*fits, SHARED_BYTES // (self.shared_bytes + RESERVED_BYTES)))


class Tiling(Struct, frozen=True):
    """Tiles of `tile_n` output features x `tile_m` rows; `split` is None where it is not known."""

    tile_n: int
    tile_m: int
    tiles_n: int
    tiles_m: int
    split: int | None
    at_once: int

    @property
    def tiles(self) -> int:
        """Tiles of the result."""
        return self.tiles_n * self.tiles_m

    @property
    def waves(self) -> float:
        """Tiles, times the parts of K, over what runs at once."""
        return self.tiles * (self.split or 1) / self.at_once

    @property
    def waste(self) -> float:
        """The share of all waves that has no tile: the empty part of the last one."""
        return 1 - self.waves / ceil(self.waves)

    @property
    def reuse(self) -> float:
        """FLOP for each element that a tile loads: larger tiles load less for the same work."""
        return 2 * self.tile_n * self.tile_m / (self.tile_n + self.tile_m)


def tile_of(kernel: KernelId) -> tuple[int, int] | None:
    """Output features and rows of a tile, whichever the name counts first."""
    named = kernel.get("tile") or kernel.get("tile_mn")
    if not named:
        return None
    first, second = named[:2]
    return (second, first) if kernel.family in ROWS_FIRST else (first, second)


def tiled(point: GemmPoint, tile: tuple[int, int], at_once: int) -> Tiling:
    """A matmul cut into tiles."""
    tile_n, tile_m = tile
    return Tiling(tile_n, tile_m, ceil(point.n / tile_n), ceil(point.m / tile_m), 1, at_once)


def used(point: GemmPoint, cut: Tiling) -> float:
    """The share of what all waves compute that is part of the result."""
    parts = cut.split or 1
    whole = ceil(cut.waves) * cut.at_once * cut.tile_n * cut.tile_m
    return point.m * point.n * parts / whole


def tiling(point: GemmPoint, kernel: KernelId, launch: Launched, sms: int) -> Tiling | None:
    """The tiles of a matmul that ran; None where the kernel's name states no tile."""
    tile = tile_of(kernel)
    if tile is None:
        return None
    plain = tiled(point, tile, sms * launch.per_multiprocessor())
    return replace(plain, split=_split(plain, kernel, launch, sms))


def _split(plain: Tiling, kernel: KernelId, launch: Launched, sms: int) -> int | None:
    """Parts of K. nvjet does not state them: the grid does, unless it fills the card."""
    if kernel.family != "nvjet":
        return launch.grid[2]
    if not kernel.get("splitk"):
        return 1
    along_n, along_m = kernel.get("cluster") or (1, 1)
    rows, columns = ceil(plain.tiles_m / along_m), ceil(plain.tiles_n / along_n)
    padded = rows * along_m * columns * along_n
    filled = launch.blocks > sms - along_n * along_m
    return None if filled or launch.blocks % padded else launch.blocks // padded


def split_stated(kernels: Sequence[KernelId], found: Tiling | None) -> bool:
    """Whether K was split: the names say so, or the grid does."""
    named = any(each.get("splitk") or each.get("op") == "splitk_reduce" for each in kernels)
    return named or bool(found and (found.split or 1) > 1)


def modelled_us(point: GemmPoint) -> float:
    """Microseconds by whole waves of tiles, the bytes that must move, and a launch.

    The library may choose the tile, and cut K where tiles are few: the fastest choice counts.
    """
    modern = point.aligned and point.dtype in NARROW  # runs on nvjet
    compute = float(_choices_us(point, NEW_TILES if modern else OLD_TILES).min())
    memory = point.bytes / MEMORY[point.load_bytes]
    # whichever is longer, smooth where they are near
    return float(LAUNCH_US + (compute**3 + memory**3) ** (1 / 3))


def _choices_us(point: GemmPoint, tiles: Array) -> Array:
    """Microseconds of the arithmetic by tile, and by the parts that K is cut into (`PARTS`)."""
    m, n, k = point[:3]
    wide, high = tiles[:, :1], tiles[:, 1:]
    blocks = np.ceil(n / wide) * np.ceil(m / high) * PARTS / SMS
    waves = np.maximum(1.0, np.maximum(blocks, np.ceil(blocks) - 0.5))
    reuse = 2 * wide * high / (wide + high)
    share = np.minimum(reuse / (reuse + HALF_REUSE) * (1 + HALF_REUSE / FULL_TILE), 1.0)
    rate = RATES[point.dtype].get(point.load_bytes, OTHER_RATE) / SMS
    spent: Array = waves * (2 * wide * high * np.ceil(k / PARTS) / (rate * share) + WAVE_US)
    spent = spent + np.where(PARTS > 1, REDUCE_US + 4 * m * n * PARTS / REDUCE_BYTES_PER_US, 0)
    spent[:, (PARTS > 1) & (k / PARTS < SHORTEST_K)] = np.inf
    return spent
