"""Guesses the kernel and the time of a matmul that the map does not hold.

The kernel is that of the nearest matmuls: sizes in octaves, and a price for another type, layout,
epilogue or alignment. The time is that of a model of waves (`waves`), times what boosted trees
learned from the map about the difference (`trees`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.names.gemms import trees
from foretrace.names.gemms.columns import columns
from foretrace.names.gemms.entries import point_of
from foretrace.names.gemms.kinds import ALIGNED, KINDS, kind_of
from foretrace.names.gemms.nearness import NEAREST, Nearness, letters
from foretrace.names.gemms.table import GemmMap
from foretrace.names.gemms.tiling import tiled, used
from foretrace.names.gemms.waves import HALF_REUSE, modelled_us
from foretrace.schema.gemms import GemmPoint

Array = np.ndarray[Any, np.dtype[Any]]
Row = dict[str, Any]
T = TypeVar("T")
CANDIDATES = 24  # matmuls whose kernels may be guessed
CLOSE = 0.15  # octaves: nearer matmuls do not count for more
# Chosen by leaving out parts of the H200's map: the choice among older kernels is less regular.
OLDER = trees.Fitting(trees=200, depth=8, rate=0.08, columns=0.7, reach=(0.8, 0.12))
HOW = {kind: trees.Fitting() if kind == ALIGNED else OLDER for kind in KINDS}


class Neighbour(Struct, frozen=True):
    """A measured matmul near the one in question; `octaves` away."""

    point: GemmPoint
    short: str
    cold_us: float
    octaves: float


class Guessed(Struct, frozen=True):
    """A kernel and a time. `agreement` is the weight of the neighbours that have this kernel.

    `measured` where the map holds the matmul itself: then nothing is guessed.
    """

    family: str
    kernel: str
    short: str
    us: float
    agreement: float
    measured: bool
    neighbours: tuple[Neighbour, ...]


class Predictor:
    """Guesses from one map."""

    def __init__(self, found: GemmMap) -> None:
        if found.trees is None:
            raise UsageError(f"{found.place}: no trees beside it, so nothing can be guessed")
        self.map, self._near = found, Nearness(found)

    def guess(self, point: GemmPoint) -> Guessed:
        """The kernel and the time of one matmul."""
        held = self.map.rows.get(point)
        us = self.times([point])[0] if held is None else self.map.frame["cold_us"][held]
        family, kernel, agreement, near = self.kernel(point)
        short = next(row["short"] for row, _ in near if row["kernel"] == kernel)
        near = near[:NEAREST]
        if held is not None:
            own = self.map.frame.row(held, named=True)
            family, kernel, short, agreement = own["family"], own["kernel"], own["short"], 1.0
        neighbours = tuple(
            Neighbour(point_of(row), row["short"], row["cold_us"], away) for row, away in near
        )
        return Guessed(family, kernel, short, float(us), agreement, held is not None, neighbours)

    def kernel(self, point: GemmPoint) -> tuple[str, str, float, list[tuple[Row, float]]]:
        """Family, kernel, the share of the neighbours' weight that has it, and the neighbours.

        The nearest matmuls vote for a family. Of those that have it, the ones of the same type,
        layout and epilogue vote for a tile, the more the better it fits this matmul.
        """
        places, away = self._near.nearest(point, CANDIDATES)
        near = list(zip(self.map.frame[places].to_dicts(), away.tolist(), strict=True))
        family = _winner((row["family"], _weight(away)) for row, away in near[:NEAREST])
        own = [(row, away) for row, away in near if row["family"] == family]
        same = [each for each in own if _same_kind(point_of(each[0]), point)] or own
        fits = [(row, _weight(away) * _fit(point, row, self.map.facts.sms)) for row, away in same]
        tile = _winner((_tile(row), weight) for row, weight in fits)
        kernel = _winner((row["kernel"], weight) for row, weight in fits if _tile(row) == tile)
        votes = [(row["kernel"] == kernel, _weight(away)) for row, away in same]
        agreement = sum(weight for has, weight in votes if has) / sum(weight for _, weight in votes)
        shown = [each for each in near if each[0]["kernel"] == kernel][:1]
        return family, kernel, agreement, [*near[:NEAREST], *shown]

    def times(self, points: Sequence[GemmPoint]) -> Array:
        """Microseconds of matmuls, as if the map held none of them."""
        assert self.map.trees is not None
        model = np.array([modelled_us(point) for point in points])
        asked, kinds = columns(points, model), _kinds(points)
        ratio = np.zeros(len(points))
        for kind in HOW:
            nodes, rows = self.map.trees.filter(pl.col("kind") == kind), kinds == kind
            ratio[rows] = trees.evaluate(nodes.drop("kind"), asked[rows])
        found: Array = model * np.exp(ratio)
        return found


def fitted(frame: pl.DataFrame) -> pl.DataFrame:
    """Trees for the times of a map: matmuls of each kind apart."""
    points = [point_of(row) for row in frame.iter_rows(named=True)]
    model = np.array([modelled_us(point) for point in points])
    asked, kinds = columns(points, model), _kinds(points)
    wanted = np.log(frame["cold_us"].to_numpy() / model)
    made = [
        trees.fit(asked[rows], wanted[rows], how).with_columns(kind=pl.lit(kind))
        for kind, how in HOW.items()
        if (rows := kinds == kind).any()
    ]
    return pl.concat(made)


def _kinds(points: Sequence[GemmPoint]) -> Array:
    return np.array([kind_of(point) for point in points])


def _winner(votes: Iterable[tuple[T, float]]) -> T:
    total: defaultdict[T, float] = defaultdict(float)
    for name, weight in votes:
        total[name] += weight
    return max(total, key=total.__getitem__)


def _weight(away: float) -> float:
    return 1 / (CLOSE + away) ** 2


def _tile(row: Row) -> tuple[Any, ...]:
    return row["tile_n"], row["tile_m"], row["splits"]


def _same_kind(one: GemmPoint, other: GemmPoint) -> bool:
    return (one.dtype, letters(one), one.epilogue) == (other.dtype, letters(other), other.epilogue)


def _fit(point: GemmPoint, row: Row, sms: int) -> float:
    """How much of what the waves of this tile compute is wanted, and how little they load."""
    if not row["tile_n"]:
        return 1.0
    cut = tiled(point, (row["tile_n"], row["tile_m"]), sms * row["per_sm"], row["split"])
    return used(point, cut) * cut.reuse / (cut.reuse + HALF_REUSE)
