"""What a route takes at a size that nobody measured.

A simple model says how times scale: whole waves of tiles over the multiprocessors, the depth in
steps, and the bytes that must move. What it leaves out (the pipeline, caches, the library's choice
of a kernel) is in the ratio of measured to modelled time, which changes slowly from size to size.
The nearest measured sizes give that ratio, and how much it varies among them is the doubt.

How much faster one route is than another is known better than how long either takes: what makes a
size slow (a ragged last wave, a warm card) makes it slow for both. So routes are compared by the
ratio of their times at the sizes where both were measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from foretrace.kernels.case import Size

# Of an H200 under load, good to a third: errors of the model cancel in the ratio.
MULTIPROCESSORS = 132
FLOPS_PER_US = 5.3e6  # of one multiprocessor, in bf16 or fp16
BYTES_PER_US = 4.0e6
LAUNCH_US = 4.0
# The tiles from which the library chooses; its own rules are not known.
LIBRARY_TILES = ((256, 128), (128, 256), (192, 128), (128, 128), (64, 256), (64, 128), (64, 64))
# TimesBySize sizes further away than this say nothing, in octaves summed over (m, d, h).
FAR = 3.0
NEAREST = 16
FEWER = 0.5  # octaves
# Chosen by leaving out one size of the H200's table after the other.
DOUBT_PER_SPREAD = 0.8
DOUBT_PER_OCTAVE = 0.03
# The same of the ratio of two routes: with these, 26 choices in 4,956 are more than 2% slower than
# the plain route, and the chosen route takes 1.4% more than the best one in the mean.
DOUBT_PER_SPREAD_OF_RATIO = 0.7
DOUBT_PER_OCTAVE_OF_RATIO = 0.01


class TimesBySize(NamedTuple):
    """The sizes at which a route was measured, their logarithms, and what it took there, in us."""

    sizes: tuple[Size, ...]
    octaves: np.ndarray
    us: tuple[float, ...]

    @staticmethod
    def of(times: Mapping[Size, float]) -> TimesBySize:
        """From times by size."""
        return TimesBySize(tuple(times), np.log2(list(times)).reshape(-1, 3), tuple(times.values()))

    def over(self, others: Mapping[Size, float]) -> TimesBySize:
        """These times over others, at the sizes of both."""
        mine = zip(self.sizes, self.us, strict=True)
        return TimesBySize.of({size: us / others[size] for size, us in mine if size in others})


class Estimate(NamedTuple):
    """Microseconds, or a ratio of two times; the true one is most likely below `us * (1 + doubt)`
    and above `us / (1 + doubt)`.
    """

    us: float
    doubt: float

    @property
    def high(self) -> float:
        """No larger than this."""
        return self.us * (1 + self.doubt)

    @property
    def low(self) -> float:
        """No smaller than this."""
        return self.us / (1 + self.doubt)


def estimate(
    part: str, size: Size, tile: tuple[int, int] | None, known: TimesBySize
) -> Estimate | None:
    """From a route's measurements; None where none is near. `tile` is None for the library."""
    model = partial(modelled, part, tile=tile)
    return _near(size, known, model, DOUBT_PER_SPREAD, DOUBT_PER_OCTAVE)


def ratio(part: str, size: Size, tile: tuple[int, int], known: TimesBySize) -> Estimate | None:
    """What a route takes over what the plain one takes; None where no such ratio is near."""

    def model(size: Size) -> float:
        return modelled(part, size, tile) / modelled(part, size, None)

    return _near(size, known, model, DOUBT_PER_SPREAD_OF_RATIO, DOUBT_PER_OCTAVE_OF_RATIO)


def _near(
    size: Size, known: TimesBySize, model: Callable[[Size], float], per_spread: float,
    per_octave: float,
) -> Estimate | None:  # fmt: skip
    """What the model says, corrected by the nearest measurements; None where none is near."""
    if not known.sizes:
        return None
    octaves = np.log2(size)
    rows = known.octaves[:, 0]
    # A route was tried where it makes sense: beyond the fewest and the most rows it is not known. A
    # few rows less take as long, since a tile has as many rows.
    if not rows.min() - FEWER <= octaves[0] <= rows.max():
        return None
    away = np.abs(known.octaves - octaves).sum(axis=1)
    near = [i for i in np.argsort(away, kind="stable")[:NEAREST] if away[i] <= FAR]
    if not near:
        return None
    if away[near[0]] == 0:
        return Estimate(known.us[near[0]], 0.0)
    weights = 1 / (0.25 + away[near]) ** 2
    errors = np.log([known.us[i] / model(known.sizes[i]) for i in near])
    mean = np.average(errors, weights=weights)
    spread = np.average((errors - mean) ** 2, weights=weights)
    doubt = per_spread * math.sqrt(spread) + per_octave * float(away[near[0]])
    return Estimate(model(size) * math.exp(mean), doubt)


def modelled(part: str, size: Size, tile: tuple[int, int] | None) -> float:
    """Microseconds by waves, depth and bytes."""
    m, d, h = size
    if part.startswith("whole"):  # does the same work as its parts: their ratio is all that counts
        return 1.0
    rows, columns, depth = {
        "down": (m, d, h),
        "gradient": (m, h, d),
    }.get(part, (m, 2 * h, d))
    moved = m * d + m * h + d * h
    if part != "down":  # gate and up weights; or the pre-activations and their gradients
        moved += d * h if part.startswith("gate_up") else 4 * m * h
    if part == "gate_up_saving":
        moved += 2 * m * h
    if tile is None and part != "down":  # what the pointwise kernel reads and writes again
        moved += (5 if part == "gradient" else 4) * m * h
    tiles = LIBRARY_TILES if tile is None else (tile,)
    work = min(_waves(rows, columns, bm, bn) * bm * bn for bm, bn in tiles)
    compute = 2 * work * depth / FLOPS_PER_US
    return LAUNCH_US + max(compute, 2 * moved / BYTES_PER_US)


def _waves(rows: int, columns: int, bm: int, bn: int) -> float:
    tiles = -(-rows // bm) * -(-columns // bn)
    # A part of a wave costs less than a whole one when several blocks share a multiprocessor.
    return max(1.0, tiles / MULTIPROCESSORS, math.ceil(tiles / MULTIPROCESSORS) - 0.5)
