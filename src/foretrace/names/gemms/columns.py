"""What a tree may ask about a matmul: sizes, alignment, kind, tiles, waves and times of tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from foretrace.names.gemms.nearness import letters
from foretrace.names.gemms.waves import PARTS, SMS, choices_us
from foretrace.schema.gemms import DTYPES, EPILOGUES, LAYOUTS, GemmPoint

Array = np.ndarray[Any, np.dtype[Any]]
# tiles whose waves a tree may ask about, output features x rows
TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256), (256, 64), (64, 8))
# tiles that are counted, and counted times K
COUNTED = ((32, 32), (64, 64), (128, 128), (256, 128))
# tiles whose time a tree may ask about, beside that of the model
_SQUARES = ((128, 128), (64, 64), (32, 32))
_SIDES = ((256, 128), (128, 64), (256, 64), (64, 32), (128, 32))
TIMED = np.array([*_SQUARES, *_SIDES, *((b, a) for a, b in _SIDES)])
FEW_ROWS = 17  # from here on, kernels for few rows are not taken


def columns(points: Sequence[GemmPoint], model: Array) -> Array:
    """What a tree may ask about a matmul."""
    found = [_asked(point, us) for point, us in zip(points, model.tolist(), strict=True)]
    return np.array(found, dtype=np.float32)


def _asked(point: GemmPoint, us: float) -> list[float]:
    m, n, k = point[:3]
    along_x, along_w, _ = point.contiguous
    size = point.bytes_each
    found = [math.log2(m), math.log2(n), math.log2(k), math.log2(m * n), math.log2(m * n * k)]
    found += [math.log2(us), math.log2(k / math.sqrt(m * n)), *map(_twos, (n, k, m))]
    found += [float(math.gcd(along * size, 16)) for along in (along_x, along_w)]
    found += [float(point.load_bytes), float(size), float(DTYPES.index(point.dtype))]
    kind = letters(point)
    found += [
        float(LAYOUTS.index(kind)),
        float(kind[0] == "t"),
        float(EPILOGUES.index(point.epilogue)),
    ]
    for wide, high in TILES:
        waves = math.ceil(n / wide) * math.ceil(m / high) / SMS
        found += [min(waves, 8.0), math.ceil(waves) / waves if waves < 20 else 1.0]
    found += [math.log2(point.bytes), math.log2(point.intensity)]
    found += [math.log2(m * k), math.log2(n * k), min(m, FEW_ROWS)]
    for wide, high in COUNTED:
        tiles = math.ceil(n / wide) * math.ceil(m / high)
        found += [math.log2(tiles), math.log2(tiles * k)]
    return found + _timed(point, us)


def _timed(point: GemmPoint, us: float) -> list[float]:
    """Tiles with K in one part and with the best cut, the fastest of each, and its parts."""
    spent = choices_us(point, TIMED)
    whole, best = spent[:, 0], spent.min(axis=1)
    at = int(best.argmin())
    times: list[float] = np.log2(np.concatenate([whole, best]) / us).tolist()
    return [*times, float(whole.argmin()), float(at), float(PARTS[spent[at].argmin()])]


def _twos(size: int) -> float:
    """How often two divides it, up to six times."""
    return math.log2(math.gcd(size, 64))
