"""Which way each part of the gated MLP is computed, by measurement.

The MLP has four parts, and each has several ways (routes) to compute it:

    gate_up          act(x Wg^T) * (x Wu^T)                          library | tma | pointer
    gate_up_saving   the same, keeping what backward needs           library | tma | pointer
    down             a Wd^T                                          library | narrow
    gradient         the gradients of gate and up from dy            library | tma

`library` is the plain route: the vendor's matrix product and the pointwise kernel. Which is fastest
depends on the GPU and the sizes, so it is measured (`foretrace bench tune`) and kept in a table.
One ships for the H200; measurements of this machine are on disk and come first. A size takes the
nearest measured size, in octaves. A size far from all of them, or a GPU without a table, takes the
library. A route is in a table only if it was measured to be no slower than the library.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from foretrace.kernels.support import HAVE_TRITON, INTERPRETED

if HAVE_TRITON:
    from foretrace.kernels.device.products import Tile

Size = tuple[int, int, int]

PARTS = ("gate_up", "gate_up_saving", "down", "gradient")
# Beyond this distance from every measured size, in octaves summed over (m, d, h): the library.
FAR = 4.0


class Route(NamedTuple):
    """A way to compute a part: `library`, or a kernel with its tile."""

    kind: str
    tile: Tile | None = None

    def text(self) -> str:
        """`tma 128 128 64 4 8 8 1 1`: how tables write it."""
        return " ".join((self.kind, *map(str, self.tile or ())))

    @staticmethod
    def parse(text: str) -> Route:
        """The route that `text` wrote."""
        kind, *numbers = text.split()
        return Route(kind, Tile(*map(int, numbers)) if numbers else None)


LIBRARY = Route("library")


class MeasuredRoute(NamedTuple):
    """A row of a table: a part at a size, its best route, its time and the library's, in us."""

    part: str
    m: int
    d: int
    h: int
    route: str
    us: float
    library_us: float


class Plan(NamedTuple):
    """The route of every part, for one size."""

    gate_up: Route
    gate_up_saving: Route
    down: Route
    gradient: Route


ALL_LIBRARY = Plan(LIBRARY, LIBRARY, LIBRARY, LIBRARY)


@lru_cache(maxsize=4096)
def plan(device: int, dtype: torch.dtype, size: Size) -> Plan:
    """The routes for a size (m, d, h); float32 takes the library, which rounds as torch does."""
    if not HAVE_TRITON or dtype == torch.float32 or 0 in size:
        return ALL_LIBRARY
    table = rows_for(card_name(device))
    return Plan(*(_nearest(table, part, size) for part in PARTS))


def _nearest(table: Iterable[MeasuredRoute], part: str, size: Size) -> Route:
    best, least = LIBRARY, FAR
    for row in table:
        if row.part == part:
            distance = sum(
                abs(math.log2(a / b)) for a, b in zip(size, (row.m, row.d, row.h), strict=True)
            )
            # The first of equally near rows wins: what was measured here comes before what ships.
            if distance < least:
                best, least = Route.parse(row.route), distance
    return best


def card_name(device: int) -> str:
    """The card's name as the driver gives it: the key of a table."""
    return "interpreter" if INTERPRETED else torch.cuda.get_device_name(device)


@lru_cache
def rows_for(card: str) -> tuple[MeasuredRoute, ...]:
    """What was measured for a card: on this machine first, then what ships with the package."""
    return (*read(store_path(card)), *read(shipped_path(card)))


def shipped_path(card: str) -> Path:
    """Where the package keeps the measurements of a GPU."""
    return Path(__file__).with_name("tables") / f"{_file_name(card)}.json"


def store_path(card: str) -> Path:
    """Where this machine's own measurements are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "foretrace" / "kernels" / f"{_file_name(card)}.json"


def read(path: Path) -> tuple[MeasuredRoute, ...]:
    """The rows of a table; none when there is no table, or when a damaged one cannot be read."""
    try:
        return tuple(MeasuredRoute(*row) for row in json.loads(path.read_text())["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _file_name(card: str) -> str:
    return "-".join(card.lower().split())
