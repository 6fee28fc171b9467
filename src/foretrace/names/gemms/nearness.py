"""Which measured matmuls are near another one: sizes in octaves, and a price for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from foretrace.names.gemms.table import GemmMap
from foretrace.schema.gemms import GemmPoint

Array = np.ndarray[Any, np.dtype[Any]]
NEAREST = 8
# What a difference costs, in octaves; chosen by leaving out matmuls of the H200's map.
PRICES = {"dtype": 5.0, "letters": 2.0, "epilogue": 2.0, "load": 3.0, "vector": 2.0}


class Nearness:
    """Distances to all matmuls of a map."""

    def __init__(self, found: GemmMap) -> None:
        points = list(found.rows)
        kinds = [_kind(point) for point in points]
        self._octaves = _octaves(points)
        self._kinds = {name: np.array([kind[name] for kind in kinds]) for name in PRICES}

    def nearest(self, point: GemmPoint, count: int = NEAREST) -> tuple[Array, Array]:
        """Rows of the map, and how many octaves they are away."""
        away = np.abs(self._octaves - _octaves([point])).sum(axis=1)
        kind = _kind(point)
        for name, price in PRICES.items():
            away = away + price * (self._kinds[name] != kind[name])
        rows = np.argsort(away, kind="stable")[:count]
        return rows, away[rows]


def _octaves(points: Sequence[GemmPoint]) -> Array:
    octaves: Array = np.log2(np.array([point[:3] for point in points], dtype=float))
    return octaves


def _kind(point: GemmPoint) -> dict[str, Any]:
    return {
        "dtype": point.dtype,
        "letters": letters(point),
        "epilogue": point.epilogue,
        "load": point.load_bytes,
        "vector": point.m == 1,
    }


def letters(point: GemmPoint) -> str:
    """The layout as the library sees it: one row of x has no order."""
    return point.layout if point.m > 1 else {"nt": "nn", "tt": "tn"}.get(point.layout, point.layout)
