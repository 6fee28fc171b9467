"""A small drawing of one call: lanes for the host and the GPU, with what decides drawn solid."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from foretrace.base.units import time_text
from foretrace.schema.documents.lesson import Lanes, LaneSlice
from foretrace.show.render.terminal import plain

_EMPTY, _HOST, _WORK, _DECIDES = "·", "─", "░", "█"
_SHADES = "·░▒▓"  # nothing, up to a third of a cell, two thirds, more
_LISTED = 5  # names in the text below the drawing; of more than these, the longest
_LONGEST = 3
_CELLS = 4  # that a named slice needs at least, on average
_NAMES = ("ranges", "ops", "inside", "calls", "GPU")
_COLUMN = max(map(len, _NAMES)) + 1


def lanes_lines(lanes: Lanes, width: int) -> list[str]:
    """One line per lane that holds anything, at most `width` columns."""
    room = width - _COLUMN
    return [
        f"{name:{_COLUMN}}{_lane(slices, lanes.length_ns, room)}"
        for name, slices in shown_lanes(lanes, room)
    ]


def shown_lanes(lanes: Lanes, room: int) -> list[tuple[str, list[LaneSlice]]]:
    """The lanes that hold anything, by name.

    Ops that are too many to be named are left out where the ranges of the program name the parts,
    and those inside others also where none decides.
    """
    host = [
        [] if known and _is_dense(slices, room) else slices
        for known, slices in (
            (lanes.ranges, lanes.ops),
            (lanes.ranges or not _deciding(lanes.inside), lanes.inside),
        )
    ]
    rows = zip(_NAMES, (lanes.ranges, *host, lanes.calls, lanes.gpu), strict=True)
    return [(name, slices) for name, slices in rows if slices]


def _is_dense(slices: Sequence[LaneSlice], room: int) -> bool:
    return len(slices) > room // _CELLS


def _deciding(slices: Sequence[LaneSlice]) -> list[LaneSlice]:
    return [each for each in slices if each.decides]


def _lane(slices: Sequence[LaneSlice], length_ns: int, room: int) -> str:
    if _is_dense(slices, room):
        return _dense(slices, length_ns, room)
    cells, free = [_EMPTY] * room, 0
    for each in sorted(slices, key=lambda one: one.start_ns):
        first = max(each.start_ns * room // max(length_ns, 1), free)
        # a slice that is too short to be seen takes one cell, and moves those behind it
        last = max(each.end_ns * room // max(length_ns, 1), first + 1)
        text = _slice(each, min(last, room) - first)
        cells[first : first + len(text)] = text
        free = first + len(text)
    return "".join(cells)


def _dense(slices: Sequence[LaneSlice], length_ns: int, room: int) -> str:
    """Too many slices to name: how much of each cell they cover, and where what decides is."""
    covered, deciding, cell_ns = [0.0] * room, set[int](), max(length_ns, 1) / room
    for each in slices:
        first, last = (int(moment / cell_ns) for moment in (each.start_ns, each.end_ns))
        for cell in range(first, min(last, room - 1) + 1):
            begin, end = cell * cell_ns, (cell + 1) * cell_ns
            covered[cell] += (min(each.end_ns, end) - max(each.start_ns, begin)) / cell_ns
            deciding |= {cell} if each.decides else set()
    shades = [_SHADES[ceil(min(share, 1) * (len(_SHADES) - 1))] for share in covered]
    return "".join(_DECIDES if cell in deciding else shade for cell, shade in enumerate(shades))


def _slice(each: LaneSlice, size: int) -> str:
    """A launch or a GPU operation shows its number, an op as much of its name as fits."""
    label = str(each.number) if each.number else plain(each.label)
    fill = _DECIDES if each.decides else _WORK if each.number else _HOST
    if len(label) > size and each.decides and not each.number:
        return fill * max(size, 0)  # the text below names it
    if len(label) > size:
        return (label[: size - 1] + "…")[: max(size, 0)] if size > 1 else fill[: max(size, 0)]
    return label + fill * (size - len(label))


def legend(lanes: Lanes, width: int) -> str:
    """How long the call took, and what the numbers stand for: what decides first."""
    length, chosen, others = legend_parts(lanes, width)
    parts = [f"{length}:"]
    parts += [f"{_DECIDES} {chosen}"] if chosen else []
    parts += [f"{_WORK} {others}"] if others else []
    return " ".join(parts)


def legend_parts(lanes: Lanes, width: int) -> tuple[str, str, str]:
    """How long the call took, what decides, and the other GPU operations."""
    host = (*lanes.ranges, *lanes.ops, *lanes.inside, *lanes.calls)
    chosen = _deciding(lanes.gpu) or _deciding(host)
    others = [each for each in lanes.gpu if not each.decides]
    named = _listed(others, timed=False)
    if _is_dense(lanes.gpu, width - _COLUMN):  # no number is in the drawing
        named = f"{len(others)} others"
    length = f"{time_text(lanes.length_ns)}, profiled"
    return length, _listed(chosen, timed=True), named if others else ""


def _listed(slices: Sequence[LaneSlice], *, timed: bool) -> str:
    """Each name once, with its numbers, and the times of what decides: the longest if many."""
    named: dict[str, list[LaneSlice]] = {}
    for each in slices:
        named.setdefault(each.label, []).append(each)
    more = len(named) - _LONGEST if len(named) > _LISTED else 0
    if more:
        longest = sorted(named.items(), key=lambda item: -sum(map(_length, item[1])))
        named = dict(longest[:_LONGEST])
    shown = [_entry(label, found, timed) for label, found in named.items()]
    return "; ".join([*shown, *([f"{more} more"] if more else [])])


def _length(each: LaneSlice) -> int:
    return each.end_ns - each.start_ns


def _entry(label: str, slices: Sequence[LaneSlice], timed: bool) -> str:
    lengths = [_length(each) for each in slices]
    numbers = [str(each.number) for each in slices if each.number]
    if len(slices) >= _LISTED or len({*numbers}) < len(numbers):  # a graph launch runs many
        return f"{len(slices)} x {label}" + (f" {time_text(sum(lengths))} in all" if timed else "")
    times = " " + ", ".join(map(time_text, lengths)) if timed else ""
    return f"{','.join(numbers)} {label}{times}".strip()
