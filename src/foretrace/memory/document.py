"""The answer about a snapshot of the allocator: parts of the peak, fragments, growth, fixes.

Also what changed between two snapshots, and what the text of an OutOfMemoryError means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text, percent_text
from foretrace.memory.documents import (
    DeviceMemoryDocument,
    FailedAllocation,
    Fragments,
    Growth,
    HeldChange,
    LargerBatch,
    MemoryChanges,
    MemoryDocument,
    MemoryLine,
    MemoryPart,
    OutOfMemoryDocument,
    OutOfMemoryText,
)
from foretrace.memory.fixes import largest_batch, peak_at_batch, predicted
from foretrace.read.snapshot_tables import Snapshot
from foretrace.trace.allocator.categories import BEFORE, CATEGORIES, KEPT
from foretrace.trace.allocator.view import MemoryView, memory_views

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


SAME = 0.01  # of a part, or of the larger peak: two runs of one program differ by less
NAMED = 3  # parts that the verdict names
_PLACE = regex(r"([^:]+):(\d+) in (.+)")

Key = tuple[str, str]  # a line and its category


def memory_changes(a: MemoryDocument, b: MemoryDocument) -> MemoryChanges:
    """From A to B, of the devices with the highest peaks."""
    first, second = a.device, b.device
    peak = max(first.peak_bytes, second.peak_bytes)
    parts = [{(part.name, ""): part.bytes for part in each.categories} for each in (first, second)]
    categories, lines = _changes(parts[0], parts[1], peak), _changed_lines(first, second, peak)
    grown = [each.growth.bytes_per_step if each.growth else 0 for each in (first, second)]
    return MemoryChanges(
        *(a.path, b.path, first.peak_bytes, second.peak_bytes),
        *(first.reserved_bytes, second.reserved_bytes),
        *(grown[0], grown[1]),
        _verdict(first, second, categories),
        categories,
        lines,
    )


def _changed_lines(
    first: DeviceMemoryDocument, second: DeviceMemoryDocument, peak: int
) -> list[HeldChange]:
    a, b = (
        {(line.line, line.category): line.bytes for line in each.lines} for each in (first, second)
    )
    left, right = (
        _by_function([key for key in one if key not in other]) for one, other in ((a, b), (b, a))
    )
    moved = {
        old: new
        for place, olds in left.items()
        if len(olds) == len(right.get(place, ()))
        for old, new in zip(olds, right[place], strict=True)
    }
    return _changes({moved.get(key, key): size for key, size in a.items()}, b, peak)


def _by_function(keys: list[Key]) -> dict[tuple[str, str, str], list[Key]]:
    found: dict[tuple[str, str, str], list[tuple[int, Key]]] = defaultdict(list)
    for line, category in keys:
        if (place := _PLACE.match(line)) is not None:
            found[place[1], place[3], category].append((int(place[2]), (line, category)))
    return {place: [key for _, key in sorted(each)] for place, each in found.items()}


def _changes(a: dict[Key, int], b: dict[Key, int], peak: int) -> list[HeldChange]:
    found = []
    for key in dict.fromkeys((*b, *a)):
        before, after = a.get(key, 0), b.get(key, 0)
        word, change = "grew" if after > before else "shrank", abs(after - before)
        if change <= SAME * max(before, after) or change < SAME * peak / 10:
            word = "same"
        elif not before or not after:
            word = "gone" if before else "new"
        found.append(HeldChange(*key, before, after, word))
    return sorted(found, key=lambda each: (-abs(each.b_bytes - each.a_bytes), each.name))


def _verdict(
    first: DeviceMemoryDocument, second: DeviceMemoryDocument, parts: list[HeldChange]
) -> str:
    a, b = first.peak_bytes, second.peak_bytes
    peaks = f"{bytes_text(a)} to {bytes_text(b)}"
    if abs(b - a) <= SAME * max(a, b):
        text = f"the same peak, {peaks}"
    else:
        share = percent_text(abs(b - a) / max(a, 1))
        text = f"the peak {'rose' if b > a else 'fell'} by {share}, {peaks}"
        # what went the way of the peak, the most first
        named = [each for each in parts if (each.b_bytes > each.a_bytes) is (b > a)][:NAMED]
        said = [f"{each.name} {change_text(each)}" for each in named if each.change != "same"]
        text += f": {', '.join(said)}" if said else ""
    if bool(first.growth) is not bool(second.growth):
        text += "; B grows from step to step" if second.growth else "; B no longer grows"
    return text


def change_text(each: HeldChange) -> str:
    """`+1.20 GB` or `-300.0 MB`."""
    change = each.b_bytes - each.a_bytes
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{bytes_text(abs(change))}"


RECORD = (
    "foretrace record --memory SCRIPT keeps the allocator when memory runs out; "
    "foretrace memory NAME.oom.pickle then says which lines hold it"
)
CONTEXT_BYTES = 1 << 30  # CUDA's own and libraries' on a large card: up to about 1 GiB


def out_of_memory_document(text: OutOfMemoryText) -> OutOfMemoryDocument:
    """The cause, and what to do about it."""
    judged = (judge(text) for judge in (_too_large, _in_fragments, _others))
    return OutOfMemoryDocument(text, *next(filter(None, judged), _full(text)))


_Judged = tuple[str, str, list[str]]


def _limit(text: OutOfMemoryText) -> int | None:
    known = [each for each in (text.allowed_bytes, text.total_bytes) if each is not None]
    return min(known, default=None)


def _room(text: OutOfMemoryText) -> int:
    """What the driver would still give to this process."""
    free, used = text.free_bytes or 0, (text.allocated_bytes or 0) + (text.unallocated_bytes or 0)
    return free if text.allowed_bytes is None else max(min(free, text.allowed_bytes - used), 0)


def _too_large(text: OutOfMemoryText) -> _Judged | None:
    limit, wanted = _limit(text), text.wanted_bytes
    if limit is None or wanted <= limit:
        return None
    why = f"one tensor of {bytes_text(wanted)} is larger than the {bytes_text(limit)} there are"
    at = f" at {text.line}" if text.line else " of the op in the traceback"
    return "too large", why, [f"check the shapes{at}: nothing else has to be freed", RECORD]


def _in_fragments(text: OutOfMemoryText) -> _Judged | None:
    """torch gives back every segment that is free as a whole before it raises."""
    idle, room, wanted = text.unallocated_bytes or 0, _room(text), text.wanted_bytes
    if not idle or idle + room < wanted:
        return None
    pieces = f"{bytes_text(idle)} are reserved by PyTorch and hold no tensor"
    if room:
        pieces += f", {bytes_text(room)} more are free"
    why = f"{pieces}: together enough for {bytes_text(wanted)}, but no piece is large enough"
    expandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces grow together"
    return "fragments", why, [expandable, RECORD]


def _others(text: OutOfMemoryText) -> _Judged | None:
    others, wanted = text.other_bytes, text.wanted_bytes
    what = "other processes"
    if others is None and text.total_bytes is not None and text.free_bytes is not None:
        ours = (text.allocated_bytes or 0) + (text.unallocated_bytes or 0)
        others = max(text.total_bytes - text.free_bytes - ours - CONTEXT_BYTES, 0)
        what = "other processes or other libraries"
    if not others or text.allowed_bytes is not None or others + _room(text) < wanted:
        return None
    why = f"{what} hold {bytes_text(others)} of the card; without them {bytes_text(wanted)} fit"
    end = "nvidia-smi names them: end them, or choose another GPU"
    return "other processes", why, [end, RECORD]


def _full(text: OutOfMemoryText) -> _Judged:
    limit, used, wanted = _limit(text), text.allocated_bytes, text.wanted_bytes
    if limit is None or used is None:
        return "unknown", "the text does not say what is in use", [RECORD]
    why = f"tensors hold {bytes_text(used)}, {percent_text(used / max(limit, 1))} of what there is"
    if wanted > limit // 2:
        why += f"; this one alone takes {percent_text(wanted / limit)}"
    idle = text.unallocated_bytes or 0
    vain = f"expandable_segments would not help: {bytes_text(idle)} are reserved and free"
    return "full", why, [RECORD, "a smaller batch, or torch.utils.checkpoint", vain]
