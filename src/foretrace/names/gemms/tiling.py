"""The tiles of a matmul, and how many waves they take on a card.

A tile is what one thread block computes. Tiles that fill the card run at once: a wave. The last
wave leaves multiprocessors idle unless the tiles divide evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from msgspec import Struct

from foretrace.schema.gemms import GemmPoint
from foretrace.schema.kernel import KernelId

# xmma counts rows first: on an H200 the grids of 125 of 128 matmuls of unequal tiles say so, and
# the other three fit both ways. The families of cuBLAS count output features first.
ROWS_FIRST = frozenset({"xmma"})
# Of one multiprocessor of sm_80 to sm_90; shared memory by what the card's driver states.
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32
REGISTER_UNIT = 256  # of one warp
SHARED_BYTES = 233472
RESERVED_BYTES = 1024  # of shared memory, by the system for each block


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


def tiled(point: GemmPoint, tile: tuple[int, int], at_once: int, split: int | None = 1) -> Tiling:
    """A matmul cut into tiles."""
    tile_n, tile_m = tile
    return Tiling(tile_n, tile_m, ceil(point.n / tile_n), ceil(point.m / tile_m), split, at_once)


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
    split = _split(plain, kernel, launch, sms)
    return Tiling(*tile, plain.tiles_n, plain.tiles_m, split, plain.at_once)


def _split(plain: Tiling, kernel: KernelId, launch: Launched, sms: int) -> int | None:
    """Parts of K. nvjet does not state them: the grid does, unless it fills the card."""
    if kernel.family != "nvjet":
        return launch.grid[2]
    if not kernel.get("splitk"):
        return 1
    along_n, along_m = kernel.get("cluster") or (1, 1)
    padded = _padded(plain.tiles_n, along_n) * _padded(plain.tiles_m, along_m)
    filled = launch.blocks > sms - along_n * along_m
    return None if filled or launch.blocks % padded else launch.blocks // padded


def _padded(count: int, unit: int) -> int:
    return ceil(count / unit) * unit


def split_stated(kernels: Sequence[KernelId], found: Tiling | None) -> bool:
    """Whether K was split: the names say so, or the grid does."""
    named = any(each.get("splitk") or each.get("op") == "splitk_reduce" for each in kernels)
    return named or bool(found and (found.split or 1) > 1)
