"""The answer about a snapshot of the allocator: parts of the peak, fragments, growth, fixes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from foretrace.analyze.memory_fixes import largest_batch, peak_at_batch, predicted
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import BEFORE, CATEGORIES, KEPT
from foretrace.model.allocator.view import MemoryView, memory_views
from foretrace.schema.documents.memory_document import (
    DeviceMemoryDocument,
    FailedAllocation,
    Fragments,
    Growth,
    LargerBatch,
    MemoryDocument,
    MemoryLine,
    MemoryPart,
    PeakFix,
)
from foretrace.schema.snapshot import Numbers, Snapshot

LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
LEAST_STEPS = 3
ROOM = 0.92  # of the card: the driver, libraries and fragments take the rest
_US = 1_000


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
        _fragments(view),
        growth(view),
        _failed(view),
        _fixes(view),
        _batch(view),
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
    lines = [
        MemoryLine(
            line,
            category,
            size := int(view.lives.size[rows].sum()),
            size / max(view.peak_bytes, 1),
            len(rows),
            _median_life(view, np.array(rows)),
        )
        for (line, category), rows in found.items()
    ]
    return sorted(lines, key=lambda each: (-each.bytes, each.line))


def _median_life(view: MemoryView, rows: Numbers) -> int | None:
    # of these rows alone: a snapshot may have millions
    rows = rows[(view.lives.end[rows] < view.lives.events) & (view.lives.start[rows] != BEFORE)]
    if not len(rows):
        return None
    time = view.history.time_us
    return int(np.median(time[view.lives.end[rows]] - time[view.lives.start[rows]])) * _US


def _fragments(view: MemoryView) -> Fragments | None:
    """None where the blocks are unknown: a trace has what is reserved, and not its blocks."""
    device = view.history.device
    segments = [each for each in view.snapshot.segments if each.device == device]
    blocks = [block for segment in segments for block in segment.blocks]
    reserved, live = sum(each.size for each in segments), sum(b.size for b in blocks if b.is_live)
    free = [block.size for block in blocks if not block.is_live]
    if reserved > live and not free:
        return None
    return Fragments(
        reserved,
        live,
        sum(free),
        max(free, default=0),
        len(free),
        any(segment.expandable for segment in segments),
    )


def growth(view: MemoryView) -> Growth | None:
    """What each step adds and no step frees; the first and the last step do not count."""
    inner = view.steps[1:-1] if view.has_steps else []
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


def _failed(view: MemoryView) -> FailedAllocation | None:
    at, wanted = view.failed_at, view.oom
    if wanted is None:
        return None
    free, held = int(view.history.addr[at]), _fragments(view)
    line = view.stack_line(int(view.history.stack[at]))
    why = f"the largest free block has {bytes_text(held.largest_free if held else 0)}"
    if held and held.free_bytes >= wanted:
        total = bytes_text(held.free_bytes)
        why = f"{total} are free in pieces, and {why}: they are in fragments"
    parts = _parts(view, lambda row: CATEGORIES[int(view.category[row])], at)
    return FailedAllocation(wanted, line, free or None, why, int(view.curve[at]), parts)


def _batch(view: MemoryView) -> LargerBatch | None:
    """Only training has a batch whose activations stay."""
    if not view.trains:
        return None
    room = int(ROOM * view.snapshot.card_bytes)
    return LargerBatch(peak_at_batch(view, 2), largest_batch(view, room) if room else None)


def _fixes(view: MemoryView) -> list[PeakFix]:
    found: Sequence[PeakFix] = [
        PeakFix(
            each.fix,
            each.proposal.order,
            each.proposal.why,
            each.proposal.write,
            each.proposal.cost,
            each.peak_bytes,
            each.proposal.reserved,
        )
        for each in predicted(view)
    ]
    # what lowers the peak comes first, unless free memory in pieces made an allocation fail
    held = _fragments(view)
    pieces = view.oom is not None and held is not None and held.free_bytes >= view.oom
    return sorted(found, key=lambda fix: (fix.reserved_bytes is not None) != pieces)
