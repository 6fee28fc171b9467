"""How often guesses are right on matmuls that the map does not hold, of each kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foretrace.names.gemms.entries import point_of
from foretrace.names.gemms.kinds import kind_of
from foretrace.names.gemms.predict import Predictor
from foretrace.names.gemms.table import GemmMap
from foretrace.schema.documents.gemms import KindAccuracy, MapAccuracy
from foretrace.schema.gemms import GemmPoint

WITHIN = 0.15  # of the measured time: what counts as right
TILE = ("tile_n", "tile_m")


class Marked(NamedTuple):
    """A guess against what was measured; `error` is that of the time."""

    family: bool
    tile: bool
    error: float


def accuracy(found: GemmMap) -> MapAccuracy | None:
    """Shares of the held-out matmuls that were guessed right; None without such matmuls."""
    if found.heldout is None or found.trees is None:
        return None
    points = [point_of(row) for row in found.heldout.iter_rows(named=True)]
    guessed = marks(found, points)
    kinds: dict[str, list[Marked]] = {}
    for point, each in zip(points, guessed, strict=True):
        kinds.setdefault(kind_of(point), []).append(each)
    return MapAccuracy(
        *_shares(guessed),
        float(np.median([each.error for each in guessed])),
        [KindAccuracy(kind, *_shares(own)) for kind, own in sorted(kinds.items())],
    )


def marks(found: GemmMap, points: list[GemmPoint]) -> list[Marked]:
    """Every guess beside the held-out matmul."""
    assert found.heldout is not None
    predictor = Predictor(found)
    kernels = [predictor.kernel(point)[:2] for point in points]
    error = np.abs(predictor.times(points) / found.heldout["cold_us"].to_numpy() - 1)
    tiles = {row[0]: row[1:] for row in found.frame.select("kernel", *TILE).iter_rows()}
    real = found.heldout.select("family", *TILE).iter_rows()
    return [
        Marked(family == right[0], tiles[kernel] == right[1:], each)
        for (family, kernel), right, each in zip(kernels, real, error.tolist(), strict=True)
    ]


def _shares(own: list[Marked]) -> tuple[int, float, float, float]:
    """How many matmuls, and the shares with family, tile and time right."""
    right = np.array([(each.family, each.tile, each.error <= WITHIN) for each in own])
    family, tile, time = right.mean(axis=0).tolist()
    return len(own), family, tile, time
