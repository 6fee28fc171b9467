"""`foretrace memory --json`: what filled the memory of a device, which lines, and what frees it.

    found = memory_document(read_snapshot("snapshot.pickle"))
    found.device.peak_bytes                                     # 1704854372
    [(part.name, part.bytes) for part in found.device.categories]
    [(fix.order, fix.peak_bytes) for fix in found.device.fixes]

`fixes` says what would lower the peak, `from_trace` reads the memory events of a trace in the same
way, `changes` compares two snapshots, `oom` explains the text of an OutOfMemoryError.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from foretrace.base.units import bytes_text
from foretrace.memory.fixes import PeakFix, largest_batch, peak_at_batch, predicted
from foretrace.read.snapshot import Snapshot
from foretrace.trace.allocator.categories import BEFORE, CATEGORIES, KEPT
from foretrace.trace.allocator.view import MemoryView, memory_views

SCHEMA = 1
LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
LEAST_STEPS = 3
ROOM = 0.92  # of the card: the driver, libraries and fragments take the rest
_US = 1_000


class MemoryPart(Struct, frozen=True):
    """Bytes that are live at the peak: of a category, a line or a module."""

    name: str
    bytes: int
    share: float
    count: int


class MemoryLine(Struct, frozen=True):
    """A line of code with what it holds at the peak, and for how long in the median.

    `live_ns` is None where nothing was freed in the history.
    """

    line: str
    category: str
    bytes: int
    share: float
    count: int
    live_ns: int | None


class Fragments(Struct, frozen=True):
    """What the allocator holds from the driver at the end of the history, and what of it is free.

    `largest_free` is the largest free block: a larger allocation needs new memory.
    """

    reserved_bytes: int
    live_bytes: int
    free_bytes: int
    largest_free: int
    free_blocks: int
    expandable: bool


class Growth(Struct, frozen=True):
    """Bytes that stay from step to step: how many a step, over how many steps, by line."""

    bytes_per_step: int
    steps: int
    lines: list[MemoryPart]


class FailedAllocation(Struct, frozen=True):
    """The allocation that failed, the line that wanted it, and the memory that was free.

    `live_bytes` were in use at that moment, by category in `categories`.
    """

    bytes: int
    line: str
    device_free: int | None
    why: str
    live_bytes: int
    categories: list[MemoryPart]


class LargerBatch(Struct, frozen=True):
    """The peak with twice the batch, and how many times it fits the card, where that is known."""

    twice_bytes: int
    fits_times: int | None


class DeviceMemoryDocument(Struct, frozen=True):
    """One device. Times count from the first event of the history."""

    device: int
    allocations: int
    span_ns: int
    steps: int
    stacks: bool
    peak_bytes: int
    peak_ns: int
    peak_pass: str
    end_bytes: int
    reserved_bytes: int
    categories: list[MemoryPart]
    lines: list[MemoryLine]
    modules: list[MemoryPart]
    fragments: Fragments | None  # None where the source has no blocks, as a trace
    growth: Growth | None
    failed: FailedAllocation | None
    fixes: list[PeakFix]
    batch: LargerBatch | None = None


class MemoryDocument(Struct, frozen=True):
    """The device with the highest peak; the others, if any, are in `others`."""

    path: str
    card: str
    card_bytes: int
    device: DeviceMemoryDocument
    others: list[DeviceMemoryDocument]
    lost: dict[str, int]
    schema: int = SCHEMA


DOCUMENTS = {"memory": MemoryDocument}


def memory_document(
    snapshot: Snapshot, views: Sequence[MemoryView] | None = None
) -> MemoryDocument:
    """The answer about every device; `views` are those of the snapshot, where they are known."""
    first, *others = (device_document(view) for view in views or memory_views(snapshot))
    path, card = snapshot.path, snapshot.card
    return MemoryDocument(path, card, snapshot.card_bytes, first, others, snapshot.lost)


def device_document(view: MemoryView) -> DeviceMemoryDocument:
    """One device."""
    time = view.history.time_us
    # no fragments where the blocks are unknown: a trace has what is reserved, and not its blocks
    device = view.history.device
    segments = [each for each in view.snapshot.segments if each.device == device]
    blocks = [block for segment in segments for block in segment.blocks]
    reserved, live = sum(each.size for each in segments), sum(b.size for b in blocks if b.is_live)
    free = [block.size for block in blocks if not block.is_live]
    held = None
    if free or reserved <= live:
        pieces = sum(free), max(free, default=0), len(free)
        held = Fragments(reserved, live, *pieces, any(each.expandable for each in segments))
    # what lowers the peak comes first, unless free memory in pieces made an allocation fail
    in_pieces = view.oom is not None and held is not None and held.free_bytes >= view.oom
    batch, room = None, int(ROOM * view.snapshot.card_bytes)
    if view.trains:  # only training has a batch whose activations stay
        batch = LargerBatch(peak_at_batch(view, 2), largest_batch(view, room) if room else None)
    return DeviceMemoryDocument(
        view.history.device,
        int((~view.lives.before).sum()),
        int(time[-1] - time[0]) * _US,
        len(view.facts.optimizes),
        any(view.snapshot.stacks),
        view.peak_bytes,
        int(time[view.peak] - time[0]) * _US,
        view.passed_at(view.peak),
        int(view.curve[-1]),
        int(view.reserved.max()),
        _parts(view, lambda row: CATEGORIES[int(view.category[row])]),
        _lines(view),
        _parts(view, view.module) if view.has_modules else [],
        held,
        growth(view),
        None if view.oom is None else _failed(view, view.oom, held),
        sorted(predicted(view), key=lambda fix: (fix.reserved_bytes is not None) != in_pieces),
        batch,
    )


def _parts(
    view: MemoryView, named: Callable[[int], str], event: int | None = None
) -> list[MemoryPart]:
    """What is live at the peak, or after another event, by name, largest first."""
    found: dict[str, list[int]] = defaultdict(list)
    at = view.peak if event is None else event
    for row in view.lives.live_at(at).tolist():
        found[named(row)].append(row)
    return _sized(view, found, int(view.curve[at]))


def _sized(view: MemoryView, found: dict[str, list[int]], total: int) -> list[MemoryPart]:
    parts = [(name, int(view.lives.size[rows].sum()), len(rows)) for name, rows in found.items()]
    parts.sort(key=lambda part: (-part[1], part[0]))
    return [MemoryPart(name, size, size / max(total, 1), count) for name, size, count in parts]


def _lines(view: MemoryView) -> list[MemoryLine]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in view.holders.tolist():
        found[view.line(row), CATEGORIES[int(view.category[row])]].append(row)
    lives, time, lines = view.lives, view.history.time_us, []
    for (line, category), held in found.items():
        rows = np.array(held)
        size = int(lives.size[rows].sum())
        freed = rows[(lives.end[rows] < lives.events) & (lives.start[rows] != BEFORE)]
        life = time[lives.end[freed]] - time[lives.start[freed]]
        live_ns = int(np.median(life)) * _US if len(freed) else None
        share = size / max(view.peak_bytes, 1)
        lines.append(MemoryLine(line, category, size, share, len(rows), live_ns))
    return sorted(lines, key=lambda each: (-each.bytes, each.line))


def growth(view: MemoryView) -> Growth | None:
    """What each step adds and no step frees; the first and the last step do not count."""
    inner = view.steps[1:-1] if view.facts.optimizes else []
    if len(inner) < LEAST_STEPS:
        return None
    starts = np.array([start for start, _ in inner])
    rows = np.flatnonzero(
        view.lives.kept
        & (view.lives.start >= inner[0][0])
        & (view.lives.start < inner[-1][1])
        & (view.category == KEPT)
    )
    at = np.searchsorted(starts, view.lives.start[rows], side="right") - 1
    added = np.bincount(at, weights=view.lives.size[rows], minlength=len(inner))
    each = int(np.median(added))
    if each < LEAST_GROWTH * view.peak_bytes:
        return None
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows.tolist():
        found[view.line(row)].append(row)
    return Growth(each, len(inner), _sized(view, found, int(added.sum())))


def _failed(view: MemoryView, wanted: int, held: Fragments | None) -> FailedAllocation:
    at = view.history.failed_at
    free = int(view.history.addr[at])
    line = view.facts.lines[view.facts.line[view.history.stack[at]]]
    why = f"the largest free block has {bytes_text(held.largest_free if held else 0)}"
    if held and held.free_bytes >= wanted:
        total = bytes_text(held.free_bytes)
        why = f"{total} are free in pieces, and {why}: they are in fragments"
    parts = _parts(view, lambda row: CATEGORIES[int(view.category[row])], at)
    return FailedAllocation(wanted, line, free or None, why, int(view.curve[at]), parts)
