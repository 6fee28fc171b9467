"""Memory over time for a page: columns for each device, and who holds the peak."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Ints
from foretrace.model.memory import DeviceMemory, over_time
from foretrace.model.trace import Trace
from foretrace.show.html.packing import Packed, pack
from foretrace.show.render.safe import plain

MOST_POINTS = 40_000  # of one device: a hundred kB of a page, and forty for each pixel
MOST_HOLDERS = 200


class PeakHolder(Struct, frozen=True):
    """Allocations of the same ops, modules and pass that are held at the peak; `event` is the op
    of the largest, or -1.
    """

    ops: list[str]
    modules: list[str]
    ran: str
    bytes: int
    count: int
    event: int


class MemoryPage(Struct, frozen=True):
    """The memory of a device after each event: `time` from the first event of the trace,
    `allocated` and, where it is known, `reserved`.

    `points_left_out` events are not in the columns: each lies between others of its stretch of time
    that are larger and smaller. `before_bytes` of the peak were allocated before the recording.
    """

    device: str
    points: Packed
    points_left_out: int
    relative: bool
    peak_bytes: int
    peak_ns: int
    holders: list[PeakHolder]
    holders_left_out: int
    before_bytes: int | None


def memory(trace: Trace, origin_ns: int) -> list[MemoryPage]:
    """The memory of every device of a trace."""
    return [_page(each, origin_ns) for each in over_time(trace)]


def _page(found: DeviceMemory, origin_ns: int) -> MemoryPage:
    kept = thinned(found.allocated, MOST_POINTS, found.reserved)
    columns = {"time": found.time[kept] - origin_ns, "allocated": found.allocated[kept]}
    if found.reserved is not None:
        columns["reserved"] = found.reserved[kept]
    holders = [
        PeakHolder(
            [plain(name) for name in each.ops],
            [plain(name) for name in each.modules],
            *(each.ran, each.bytes, each.count, each.event),
        )
        for each in found.holders[:MOST_HOLDERS]
    ]
    return MemoryPage(
        found.name,
        pack(columns, frozenset(columns)),
        len(found.time) - len(kept),
        found.relative,
        int(found.allocated[found.peak]),
        int(found.time[found.peak]) - origin_ns,
        holders,
        len(found.holders) - len(holders),
        found.before,
    )


def thinned(values: Ints, most: int, more: Ints | None = None) -> Ints:
    """Places to draw: all, or of each stretch the ends, the least and the most."""
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most // 6 + 1).astype(np.int64)
    ends = [edges[:-1], edges[1:] - 1]
    for each in (values, *(() if more is None else (more,))):
        for sign in (1, -1):
            ends.append(_largest(sign * each, edges))
    return np.unique(np.concatenate(ends))


def _largest(values: Ints, edges: Ints) -> Ints:
    """The place of the largest value between each two edges."""
    return np.array([start + values[start:end].argmax() for start, end in pairwise(edges.tolist())])
