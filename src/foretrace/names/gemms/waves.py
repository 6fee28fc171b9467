"""What a matmul should take: whole waves of tiles, the bytes that must move, and a launch.

The library may choose the tile, and cut K where tiles are few: the fastest of all choices counts.
What the model leaves out is fitted to the map, so its rates need not be exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace.schema.gemms import NARROW, GemmPoint

Array = np.ndarray[Any, np.dtype[Any]]
SMS = 132
# FLOP per us of a card's matmuls by the bytes of a load; medians of large matmuls of an H200.
RATES = {
    "bf16": {16: 750e6, 8: 220e6, 4: 210e6, 2: 125e6},
    "fp16": {16: 750e6, 8: 220e6, 4: 210e6, 2: 125e6},
    "fp8": {16: 1400e6},
    "tf32": {16: 360e6, 8: 105e6, 4: 105e6},
    "fp32": {16: 48e6, 8: 48e6, 4: 48e6},
}
# The library computes GELU behind 16-bit matmuls that are not aligned without tensor cores.
GELU_RATES = {("bf16", 8): 32e6, ("bf16", 4): 32e6, ("bf16", 2): 32e6, ("fp16", 2): 36e6}
# bytes per us by the bytes of a load, of matmuls with few rows
MEMORY = {16: 3.9e6, 8: 2.2e6, 4: 2.2e6, 2: 1.1e6, 1: 1.1e6}
LAUNCH_US, WAVE_US, REDUCE_US = 2.0, 0.6, 2.0
REDUCE_BYTES_PER_US = 8e6  # partial sums are still in L2
EPILOGUE_US, EPILOGUE_BYTES_PER_US = 1.5, 4e6
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


def modelled_us(point: GemmPoint) -> float:
    """Microseconds by waves, depth and bytes."""
    modern = runs_on_nvjet(point)
    compute = _compute_us(point, NEW_TILES if modern else OLD_TILES)
    memory = point.bytes / MEMORY[point.load_bytes]
    both = (compute**3 + memory**3) ** (1 / 3)  # whichever is longer, smooth where they are near
    extra = 0.0
    if not modern and point.epilogue == "bias_gelu":  # a kernel of its own reads and writes again
        extra = EPILOGUE_US + 2 * point.m * point.n * point.bytes_each / EPILOGUE_BYTES_PER_US
    return float(LAUNCH_US + both + extra)


def runs_on_nvjet(point: GemmPoint) -> bool:
    """Whether the matmul gets a kernel written for Hopper; all others get older ones."""
    return point.aligned and point.dtype in NARROW


def _compute_us(point: GemmPoint, tiles: Array) -> float:
    return float(choices_us(point, tiles).min())


def choices_us(point: GemmPoint, tiles: Array) -> Array:
    """Microseconds of the arithmetic by tile, and by the parts that K is cut into (`PARTS`)."""
    m, n, k = point[:3]
    wide, high = tiles[:, :1], tiles[:, 1:]
    blocks = np.ceil(n / wide) * np.ceil(m / high) * PARTS / SMS
    waves = np.maximum(1.0, np.maximum(blocks, np.ceil(blocks) - 0.5))
    reuse = 2 * wide * high / (wide + high)
    share = np.minimum(reuse / (reuse + HALF_REUSE) * (1 + HALF_REUSE / FULL_TILE), 1.0)
    rate = _rate(point) / SMS
    spent: Array = waves * (2 * wide * high * np.ceil(k / PARTS) / (rate * share) + WAVE_US)
    spent = spent + np.where(PARTS > 1, REDUCE_US + 4 * m * n * PARTS / REDUCE_BYTES_PER_US, 0)
    spent[:, (PARTS > 1) & (k / PARTS < SHORTEST_K)] = np.inf
    return spent


def _rate(point: GemmPoint) -> float:
    kind = point.dtype, point.load_bytes
    if point.epilogue == "bias_gelu" and kind in GELU_RATES:
        return GELU_RATES[kind]
    return RATES[point.dtype].get(point.load_bytes, 100e6)
