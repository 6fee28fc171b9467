"""Which measured matmuls are near another one, and what they predict for it.

The distance is octaves of M, N and K, and a price for another type, layout, epilogue or alignment.
The nearest matmuls vote for the kernel. The time is that of a model of waves and bytes
(`tiling.modelled_us`), times what they took over the same model. The spread of their ratios is the
interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from foretrace.names.gemms.table import GemmMap, point_of
from foretrace.names.gemms.tiling import modelled_us
from foretrace.schema.documents.gemms import (
    KindAccuracy,
    MapAccuracy,
    MatmulSize,
    NearMatmul,
    PredictAnswer,
)
from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS, NARROW, GemmPoint

Array = np.ndarray[Any, np.dtype[Any]]
# What a difference costs, in octaves. The prices were chosen by leaving out matmuls of the H200's
# map. The interval's tail was set with the held-out matmuls in sight: their share is optimistic.
PRICES = {"dtype": 5.0, "layout": 2.0, "epilogue": 2.0, "load": 3.0, "vector": 2.0}
SHOWN = 8  # matmuls that vote for the kernel, and that an answer lists
RATED = 16  # matmuls whose ratios give the time
CLOSE = 0.15  # octaves: nearer matmuls do not count for more
TAIL = 0.03  # of the weight, on each side of the interval: it then holds nine times of ten
FAR = 3.0  # octaves: the price of other alignment; of such matmuls a third was missed by 15%
WITHIN = 0.15  # of the measured time: what counts as right
ALIGNED, NOT_ALIGNED = "16-bit and fp8, aligned", "16-bit, not aligned"


class Nearest:
    """Distances to all matmuls of a map, and predictions from the nearest."""

    def __init__(self, found: GemmMap) -> None:
        self.map = found
        self._points = list(found.rows)
        self._octaves = _octaves(self._points)
        self._traits = np.array([_traits(point) for point in self._points])
        self._cold = found.frame["cold_us"].to_numpy()

    def nearest(self, point: GemmPoint, count: int) -> tuple[Array, Array]:
        """Rows of the map, and how many octaves they are away."""
        away = np.abs(self._octaves - _octaves([point])).sum(axis=1)
        away += (self._traits != _traits(point)) @ np.array(list(PRICES.values()))
        rows = np.argsort(away, kind="stable")[:count]
        return rows, away[rows]

    def predict(self, point: GemmPoint) -> PredictAnswer:
        """The kernel and the time of a matmul; what was measured where the map holds it."""
        rows, away = self.nearest(point, RATED)
        weights: Array = 1 / (CLOSE + away) ** 2
        around = self.map.frame[rows[:SHOWN]].to_dicts()
        held = self.map.rows.get(point)
        if held is not None:
            named, agreement = self.map.frame.row(held, named=True), 1.0
            us = low = high = named["cold_us"]
        else:
            named, agreement = _voted(around, weights[:SHOWN])
            us, low, high = self._times(point, rows, weights)
        return PredictAnswer(
            matmul=MatmulSize(*point),
            measured=held is not None,
            inconclusive=held is None and bool(away[0] > FAR),
            **{name: named[name] for name in ("family", "kernel", "short")},
            kind=kind_of(point),
            agreement=agreement,
            us=us,
            low_us=low,
            high_us=high,
            tflops=point.flops / us / 1e6,
            roof_percent=100 * self.map.facts.roof_us(point) / us,
            nearest=[
                NearMatmul(MatmulSize(*point_of(row)), row["short"], row["cold_us"], float(octaves))
                for row, octaves in zip(around, away[:SHOWN], strict=False)
            ],
        )

    def _times(self, point: GemmPoint, rows: Array, weights: Array) -> tuple[float, float, float]:
        """Microseconds, and the ends of the interval: quantiles of the neighbours' ratios."""
        ratios = self._cold[rows] / np.array([modelled_us(self._points[row]) for row in rows])
        order = np.argsort(ratios)
        reached = np.cumsum(weights[order]) / weights.sum()
        at = np.searchsorted(reached, (0.5, TAIL, 1 - TAIL)).clip(max=len(rows) - 1)
        middle, low, high = (modelled_us(point) * ratios[order][at]).tolist()
        return middle, low, high


def _octaves(points: Sequence[GemmPoint]) -> Array:
    octaves: Array = np.log2(np.array([point[:3] for point in points], dtype=float))
    return octaves


def _traits(point: GemmPoint) -> list[int]:
    """What has a price, as numbers, in the order of `PRICES`.

    The layout is as the library sees it: one row of x has no order.
    """
    vector = point.m == 1
    layout = {"nt": "nn", "tt": "tn"}.get(point.layout, point.layout) if vector else point.layout
    return [
        DTYPES.index(point.dtype),
        LAYOUTS.index(layout),
        EPILOGUES.index(point.epilogue),
        point.load_bytes,
        int(vector),
    ]


def _voted(around: list[dict[str, Any]], weights: Array) -> tuple[dict[str, Any], float]:
    """The nearest row with the family, the tile and the kernel that have most weight, in turn; and
    the share of the weight that has its kernel.
    """
    left = list(zip(around, weights.tolist(), strict=True))
    for names in (("family",), ("tile_n", "tile_m"), ("kernel",)):
        total: defaultdict[tuple[Any, ...], float] = defaultdict(float)
        for row, weight in left:
            total[_values(row, names)] += weight
        best = max(total, key=total.__getitem__)
        left = [(row, weight) for row, weight in left if _values(row, names) == best]
    return left[0][0], sum(weight for _, weight in left) / float(weights.sum())


def _values(row: dict[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def kind_of(point: GemmPoint) -> str:
    """The kind of a matmul: those of one kind get kernels of the same generation."""
    if point.dtype not in NARROW:
        return point.dtype
    return ALIGNED if point.aligned else NOT_ALIGNED


def held_out_accuracy(found: GemmMap) -> MapAccuracy | None:
    """Shares of the held-out matmuls that are predicted right; None without such matmuls."""
    if found.heldout is None:
        return None
    near, tile = Nearest(found), ("tile_n", "tile_m")
    tiles = {row[0]: row[1:] for row in found.frame.select("kernel", *tile).iter_rows()}
    marks = []
    for row in found.heldout.iter_rows(named=True):
        point, us = point_of(row), row["cold_us"]
        made = near.predict(point)
        marks.append(
            {
                "kind": kind_of(point),
                "family": made.family == row["family"],
                "tile": tiles[made.kernel] == _values(row, tile),
                "error": abs(made.us / us - 1),
                "interval": made.low_us <= us <= made.high_us,
            }
        )
    frame = pl.DataFrame(marks).with_columns(time=pl.col("error") <= WITHIN)
    kinds = frame.partition_by("kind", as_dict=True)
    error = float(np.median(frame["error"].to_numpy()))
    by_kind = [KindAccuracy(str(kind[0]), *_shares(own)) for kind, own in sorted(kinds.items())]
    return MapAccuracy(*_shares(frame), error, by_kind)


def _shares(marks: pl.DataFrame) -> tuple[int, float, float, float, float]:
    """How many matmuls, and the shares with family, tile, time and interval right."""
    shares = marks.select(pl.col("family", "tile", "time", "interval").mean()).row(0)
    return marks.height, *shares
