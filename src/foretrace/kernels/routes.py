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
depends on the GPU and the sizes, so it is measured (`foretrace lab bench tune`) and kept in a
table. One ships for the H200; measurements of this machine are on disk and come first. At a size
that was not measured, times are estimated (see `estimate`), and a route is chosen only if it beats
the library, or the parts, by more than the doubt in the ratio of the two. A GPU without a table
takes the library.

In a CUDA graph the time on the GPU decides. Elsewhere the host launches while the GPU works, and a
call takes as long as the slower of the two: where that is the host, fewer launches are faster, even
if the GPU works a little longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch

from foretrace.kernels.case import Size, Tile
from foretrace.kernels.estimate import Estimate, TimesBySize, estimate, ratio
from foretrace.kernels.support import HAVE_TRITON, INTERPRETED

PARTS = ("gate_up", "gate_up_saving", "down", "gradient", "whole", "whole_saving")
# A route must be this much faster than the plain one where both were measured: medians of two equal
# routes differ by about 1% on an H200.
GAIN = 1.01
# Host time in us on the H200's virtual machine, where it varies by half (`benchmarks/mlp_host.py`):
# a call before its first launch, the rest of a training step, a matmul of the library, a launch.
BEFORE_US, STEP_US, MATMUL_US = 6.0, 200.0, 17.0
LAUNCH_US = {"pointwise": 10.0, "pointer": 10.0, "narrow": 11.0, "pingpong": 17.0, "tma": 25.0}
# An estimate that may be this far off is no reason to leave the library: at 78x1256x4945 one that
# doubted itself by a third made calls 7% slower.
MOST_DOUBT = 0.25
# The same of a ratio: beyond it measured ratios scatter without a pattern (off the 16-byte grid).
MOST_DOUBT_OF_RATIO = 0.15
# Elements of a cache line, of 16 bits each.
LINE = 64
# Rows from which the specialised kernels compute gate and up, where rows fill cache lines.
MANY = 1024
# Copies into longer rows: bytes read and written per us, and us for each of the four launches.
COPY_BYTES_PER_US, COPY_US, COPIES = 3.0e6, 2.0, 4
# How much faster a pass must be with copies than without, by the estimates: at ten sizes on an H200
# their ratio was 0.84 to 1.13 of the measured one.
GAIN_OF_COPIES = 1.03


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


class RouteTimes(NamedTuple):
    """What the GPU took for a route, and that over what the plain route took, where both ran."""

    device: TimesBySize
    over_plain: TimesBySize


# By class, then by route.
Measurements = dict[SizeClass, dict[str, RouteTimes]]


SAME = Estimate(1.0, 0.0)


class RouteEstimate(NamedTuple):
    """A route of a part, how long the GPU takes (0 us where nothing is known), and that over what
    the plain route takes.

    Of a whole pass, which is only compared with its parts, `device` says nothing.
    """

    part: str
    route: Route
    device: Estimate
    over_plain: Estimate = SAME

    def host_us(self, stacked: bool) -> float:
        """How long the host takes."""
        if self.route.kind != "library":
            return LAUNCH_US[self.route.kind]
        if self.part == "down":
            return MATMUL_US
        matmuls = 2 if self.part != "gradient" and not stacked else 1
        return matmuls * MATMUL_US + LAUNCH_US["pointwise"]


# Called with a dtype and a size that nobody measured, before routes are chosen: see `tune.learn`.
when_unknown: Callable[[torch.dtype, Size], None] | None = None


@lru_cache(maxsize=4096)
def plan(
    device: int, dtype: torch.dtype, size: Size, captured: bool = False, stacked: bool = True
) -> Plan:
    """The routes for a size (m, d, h); float32 takes the library, which rounds as torch does.

    `captured`: the launches go into a CUDA graph. `stacked`: gate and up are one matmul to the
    library.
    """
    if not HAVE_TRITON or dtype == torch.float32 or 0 in size:
        return ALL_LIBRARY
    card = card_name(device)
    if when_unknown is not None and not captured and size not in measured_sizes(card):
        when_unknown(dtype, size)
    measured = by_route(card)
    known = {part: estimates(measured, part, size) for part in PARTS}
    chosen = {part: choose(known[part], part) for part in PARTS}
    if not captured:
        chosen |= _least_call(known, chosen, ("gate_up", "down"), 0.0, BEFORE_US, stacked)
        # The rest of a training step: down, and the gradients of the input and all weights.
        rest = 2 * chosen["down"].device.us + 2 * chosen["gate_up"].device.us
        parts = "gate_up_saving", "gradient"
        chosen |= _least_call(known, chosen, parts, rest, STEP_US, stacked)
    return Plan(*(chosen[part].route for part in PARTS))


def _least_call(
    known: Mapping[str, Sequence[RouteEstimate]], chosen: Mapping[str, RouteEstimate],
    parts: tuple[str, ...], device_us: float, host_us: float, stacked: bool,
) -> dict[str, RouteEstimate]:  # fmt: skip
    """Routes of `parts` with which a call takes less time than with those chosen, beyond doubt.

    The GPU takes `device_us` besides, the host `host_us`.
    """
    parts = tuple(part for part in parts if known[part])
    sure = {part: [one for one in known[part] if one.device.doubt <= MOST_DOUBT] for part in parts}
    best = usual = tuple(chosen[part] for part in parts)
    least = float("inf")
    for found in product(*(sure[part] or [chosen[part]] for part in parts)):
        high = low = device_us
        for new, old in zip(found, usual, strict=True):
            high += new.device.us if new is old else new.device.high
            low += old.device.us if new is old else old.device.low
        hosts = (host_us + sum(e.host_us(stacked) for e in each) for each in (found, usual))
        call, before = map(max, (high, low), hosts)
        # Of two equal calls, that which leaves the GPU more time for others.
        if call * GAIN <= before and call + high / 4 < least:
            best, least = found, call + high / 4
    return dict(zip(parts, best, strict=True))


_loaded: set[tuple[str, Route, torch.dtype, str, int]] = set()


def note_loaded(part: str, route: Route, dtype: torch.dtype, activation: str, unit: int) -> None:
    """A kernel ran: it can be launched while a CUDA graph is captured, when none can be loaded."""
    _loaded.add((part, route, dtype, activation, unit))


def plan_loaded(
    device: int, dtype: torch.dtype, size: Size, activation: str, stacked: bool = True
) -> Plan:
    """The routes for a capture: those that are best in a graph, where their kernels are loaded."""
    usual, best = plan(device, dtype, size, False, stacked), plan(device, dtype, size, True)
    unit = alignment(size)
    return Plan(
        *(
            route if (part, route, dtype, activation, unit) in _loaded else other
            for part, route, other in zip(PARTS, best, usual, strict=True)
        )
    )


def copies_pay(device: int, size: Size, longer: Size) -> bool:
    """Whether a forward pass is faster over copies of everything in longer rows."""
    known = by_route(card_name(device))
    now, then = _pass_us(known, size), _pass_us(known, longer)
    m, d, h = size
    copies = 4 * (m * d + 3 * d * h) / COPY_BYTES_PER_US + COPIES * COPY_US
    return now > 0 and then > 0 and (then + copies) * GAIN_OF_COPIES <= now


def _pass_us(measured: Measurements, size: Size) -> float:
    """Microseconds of a forward pass on the GPU; 0 where nothing is known."""
    parts = "gate_up", "down", "whole"
    first, last, whole = (choose(estimates(measured, part, size), part) for part in parts)
    if not (first.device.us and last.device.us):
        return 0.0
    us = first.device.us + last.device.us
    return us * whole.over_plain.us


def choose(known: Iterable[RouteEstimate], part: str) -> RouteEstimate:
    """The fastest route for a part on the GPU, if it beats the plain one beyond doubt."""
    known = list(known)
    baseline = next((each for each in known if each.route == plain(part)), None)
    if baseline is None:
        return RouteEstimate(part, plain(part), Estimate(0.0, 0.0))
    surely = [each for each in known if _surely_faster(each.over_plain)]
    return min(surely, key=lambda each: each.over_plain.us, default=baseline)


def _surely_faster(ratio: Estimate) -> bool:
    return ratio.doubt <= MOST_DOUBT_OF_RATIO and ratio.high * GAIN <= 1.0


def estimates(measured: Measurements, part: str, size: Size) -> list[RouteEstimate]:
    """What every route takes that was measured near a size, and near it beside the plain one."""
    found = []
    for text, times in measured.get(SizeClass.of(part, size), {}).items():
        route = Route.parse(text)
        tile = None if route.tile is None else _covers(part, route.tile)
        device = estimate(part, size, tile, times.device)
        over = ratio(part, size, tile, times.over_plain) if tile else SAME
        if device is not None and over is not None:
            found.append(RouteEstimate(part, route, device, over))
    return found


def alignment(size: Size) -> int:
    """Elements by which rows are aligned: 64, 8 or 1.

    Rows of 128 bytes fill whole cache lines; below 16 bytes TMA does not take them.
    """
    low_bits = size[1] | size[2]
    return 1 if low_bits & 7 else 8 if low_bits & (LINE - 1) else LINE


def many(size: Size) -> bool:
    """Whether the specialised kernels compute gate and up at nearly all such sizes of the table."""
    return size[0] >= MANY and alignment(size) == LINE


def _covers(part: str, tile: Tile) -> tuple[int, int]:
    """Rows and columns of the matmul that one tile computes; gate and up have a column each."""
    if part == "down":  # split along the depth: as if a tile had fewer columns
        return tile.bm, max(1, tile.bn // tile.split)
    return tile.bm, tile.bn * (1 if part == "gradient" else 2)


@lru_cache
def by_route(card: str) -> Measurements:
    """What was measured for a card."""
    found: dict[SizeClass, dict[str, dict[Size, float]]] = {}
    for row in rows_for(card):
        size = row.m, row.d, row.h
        routes = found.setdefault(SizeClass.of(row.part, size), {})
        # What was measured here comes before what ships.
        routes.setdefault(row.route, {}).setdefault(size, row.device_us)
    return {key: beside_plain(plain(key.part).text(), routes) for key, routes in found.items()}


def beside_plain(usual: str, routes: Mapping[str, Mapping[Size, float]]) -> dict[str, RouteTimes]:
    """What every route of a part took, by itself and beside the plain one."""
    known = {route: TimesBySize.of(times) for route, times in routes.items()}
    base = routes.get(usual, {})
    return {route: RouteTimes(times, times.over(base)) for route, times in known.items()}


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
