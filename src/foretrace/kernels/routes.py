"""Which way each part of the gated MLP is computed, by measurement.

The MLP has parts, and each has several ways (routes) to compute it:

    gate_up          act(x Wg^T) * (x Wu^T)                 library | pingpong | tma | pointer
    gate_up_saving   the same, keeping what backward needs  library | pingpong | tma | pointer
    down             a Wd^T                                 library | narrow
    gradient         the gradients of gate and up from dy   library | pingpong | tma
    whole            gate, up and down                      parts | pingpong
    whole_saving     the same, keeping what backward needs  parts | pingpong

`parts` computes gate and up, then down, each by its own route; `pingpong` does it in one launch.
`library` is the plain route: the vendor's matmul and the pointwise kernel. Which is fastest
depends on the GPU and the sizes, so it is measured (`foretrace bench tune`) and kept in a table.
One ships for the H200; measurements of this machine are on disk and come first. At a size that was
not measured, times are estimated (see `estimate`), and a route is chosen only if it beats the
library, or the parts, by more than the doubt in both estimates. A GPU without a table takes the
library.

In a CUDA graph the time on the GPU decides. Elsewhere the host launches while the GPU works, and
decides where it is the slower of the two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from foretrace.kernels.estimate import Estimate, Size, TimesBySize, estimate
from foretrace.kernels.support import HAVE_TRITON, INTERPRETED

if HAVE_TRITON:
    from foretrace.kernels.device.products import Tile

PARTS = ("gate_up", "gate_up_saving", "down", "gradient", "whole", "whole_saving")
# A route must be this much faster than the plain one where both were measured: medians of two equal
# routes differ by about 1% on an H200.
GAIN = 1.01
# Rows from which the specialised kernels compute gate and up, where rows fill cache lines.
MANY = 1024


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


LIBRARY, SEPARATE = Route("library"), Route("parts")


def plain(part: str) -> Route:
    """The route that a part takes where nothing else is known to be faster."""
    return SEPARATE if part.startswith("whole") else LIBRARY


class MeasuredRoute(NamedTuple):
    """A row of a table: a part at a size, a route, and its times in us."""

    part: str
    m: int
    d: int
    h: int
    route: str
    device_us: float
    call_us: float


class Plan(NamedTuple):
    """The route of every part, for one size."""

    gate_up: Route
    gate_up_saving: Route
    down: Route
    gradient: Route
    whole: Route = SEPARATE
    whole_saving: Route = SEPARATE


ALL_LIBRARY = Plan(LIBRARY, LIBRARY, LIBRARY, LIBRARY)


class RouteTimes(NamedTuple):
    """What was measured of a route: on the GPU by size, and the least that a call took."""

    device: TimesBySize
    host_us: float


class SizeClass(NamedTuple):
    """A part at sizes whose times compare; times of another class say nothing about them.

    `alignment` is that of rows, in elements. At `many` rows the gradient reads other tensors than
    at few (see `steps.saved_as`).
    """

    part: str
    alignment: int
    many: bool

    @staticmethod
    def of(part: str, size: Size) -> SizeClass:
        """That of a size."""
        return SizeClass(part, alignment(size), part == "gradient" and many(size))


# By class, then by route.
Measurements = dict[SizeClass, dict[str, RouteTimes]]


class ChosenRoute(NamedTuple):
    """A route, and its microseconds on the GPU and on the host; none where nothing is known."""

    route: Route
    device_us: float = 0.0
    host_us: float = 0.0


# Called with a dtype and a size that nobody measured, before routes are chosen: see `tune.learn`.
when_unknown: Callable[[torch.dtype, Size], None] | None = None


@lru_cache(maxsize=4096)
def plan(device: int, dtype: torch.dtype, size: Size, captured: bool = False) -> Plan:
    """The routes for a size (m, d, h); float32 takes the library, which rounds as torch does.

    `captured`: the launches go into a CUDA graph.
    """
    if not HAVE_TRITON or dtype == torch.float32 or 0 in size:
        return ALL_LIBRARY
    card = card_name(device)
    if when_unknown is not None and not captured and size not in measured_sizes(card):
        when_unknown(dtype, size)
    measured = by_route(card)
    chosen = {part: choose(measured, part, size) for part in PARTS}
    forward = chosen["gate_up"], chosen["down"]
    # The GPU works while the host launches: the host counts only where it is the slower of the two.
    if not captured and sum(c.host_us for c in forward) > sum(c.device_us for c in forward):
        chosen = {part: choose(measured, part, size, host=True) for part in PARTS}
    return Plan(*(choice.route for choice in chosen.values()))


_loaded: set[tuple[str, Route, torch.dtype, str, int]] = set()


def note_loaded(part: str, route: Route, dtype: torch.dtype, activation: str, unit: int) -> None:
    """A kernel ran: it can be launched while a CUDA graph is captured, when none can be loaded."""
    _loaded.add((part, route, dtype, activation, unit))


def plan_loaded(device: int, dtype: torch.dtype, size: Size, activation: str) -> Plan:
    """The routes for a capture: those that are best in a graph, where their kernels are loaded."""
    usual, best = plan(device, dtype, size), plan(device, dtype, size, True)
    unit = alignment(size)
    return Plan(
        *(
            route if (part, route, dtype, activation, unit) in _loaded else other
            for part, route, other in zip(PARTS, best, usual, strict=True)
        )
    )


def choose(measured: Measurements, part: str, size: Size, *, host: bool = False) -> ChosenRoute:
    """The fastest route for a part, if it beats the plain one beyond doubt: on the GPU alone, or
    with the host's time where that is longer.
    """
    known = measured.get(SizeClass.of(part, size), {})
    estimates = {
        text: _estimate(part, size, Route.parse(text), times, host) for text, times in known.items()
    }
    usual = plain(part)
    baseline = estimates.get(usual.text())
    if baseline is None:
        return ChosenRoute(usual)
    surely = {
        text: found.us
        for text, found in estimates.items()
        if found is not None and found.high * GAIN <= baseline.low
    }
    best = min(surely, key=lambda text: surely[text], default=usual.text())
    return ChosenRoute(Route.parse(best), surely.get(best, baseline.us), known[best].host_us)


def _estimate(
    part: str, size: Size, route: Route, times: RouteTimes, host: bool
) -> Estimate | None:
    tile = None if route.tile is None else _covers(part, route.tile)
    found = estimate(part, size, tile, times.device)
    if found is None or not host or plain(part) == SEPARATE:  # relative times are no host's
        return found
    return found.at_least(times.host_us)


def alignment(size: Size) -> int:
    """Elements by which rows are aligned: 64, 8 or 1.

    Rows of 128 bytes fill whole cache lines; below 16 bytes TMA does not take them.
    """
    low_bits = size[1] | size[2]
    return 1 if low_bits & 7 else 8 if low_bits & 63 else 64


def many(size: Size) -> bool:
    """Whether the specialised kernels compute gate and up at nearly all such sizes of the table."""
    return size[0] >= MANY and alignment(size) == 64


def _covers(part: str, tile: Tile) -> tuple[int, int]:
    """Rows and columns of the matmul that one tile computes; gate and up have a column each."""
    if part == "down":  # split along the depth: as if a tile had fewer columns
        return tile.bm, max(1, tile.bn // tile.split)
    return tile.bm, tile.bn * (1 if part == "gradient" else 2)


@lru_cache
def by_route(card: str) -> Measurements:
    """What was measured for a card; the time of a whole pass relative to that of its parts."""
    found: dict[SizeClass, dict[str, dict[Size, MeasuredRoute]]] = {}
    for row in rows_for(card):
        size = row.m, row.d, row.h
        routes = found.setdefault(SizeClass.of(row.part, size), {})
        # What was measured here comes before what ships.
        routes.setdefault(row.route, {}).setdefault(size, row)
    return {
        key: {route: _times(rows, routes.get(SEPARATE.text())) for route, rows in routes.items()}
        for key, routes in found.items()
    }


def _times(rows: dict[Size, MeasuredRoute], parts: dict[Size, MeasuredRoute] | None) -> RouteTimes:
    """What was measured of a route; of a whole pass where its parts were measured too."""
    if parts is not None:
        rows = {size: row for size, row in rows.items() if size in parts}
    device = {
        size: row.device_us / (1.0 if parts is None else parts[size].device_us)
        for size, row in rows.items()
    }
    host_us = min((row.call_us for row in rows.values()), default=0.0)
    return RouteTimes(TimesBySize.of(device), host_us)


@lru_cache
def measured_sizes(card: str) -> frozenset[Size]:
    """The sizes at which a card was measured."""
    return frozenset((row.m, row.d, row.h) for row in rows_for(card))


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
