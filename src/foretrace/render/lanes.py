"""A small drawing of one call: lanes for the host and the GPU, with what decides drawn solid."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.render.safe import plain
from foretrace.schema.documents.lesson import Lanes, LaneSlice
from foretrace.units import time_text

_EMPTY, _HOST, _WORK, _DECIDES = "·", "─", "░", "█"
_LISTED = 5  # names in the text below the drawing
_NAMES = ("ops", "inside", "calls", "GPU")
_COLUMN = max(map(len, _NAMES)) + 1


def lanes_lines(lanes: Lanes, width: int) -> list[str]:
    """One line per lane that holds anything, at most `width` columns."""
    rows = zip(_NAMES, (lanes.ops, lanes.inside, lanes.calls, lanes.gpu), strict=True)
    room = width - _COLUMN
    return [
        f"{name:{_COLUMN}}{_lane(slices, lanes.length_ns, room)}" for name, slices in rows if slices
    ]


def _lane(slices: Sequence[LaneSlice], length_ns: int, room: int) -> str:
    cells, free = [_EMPTY] * room, 0
    for each in sorted(slices, key=lambda one: one.start_ns):
        first = max(each.start_ns * room // max(length_ns, 1), free)
        # a slice that is too short to be seen takes one cell, and moves those behind it
        last = max(each.end_ns * room // max(length_ns, 1), first + 1)
        text = _slice(each, min(last, room) - first)
        cells[first : first + len(text)] = text
        free = first + len(text)
    return "".join(cells)


def _slice(each: LaneSlice, size: int) -> str:
    """A launch or a GPU operation shows its number, an op as much of its name as fits."""
    label = str(each.number) if each.number else plain(each.label)
    fill = _DECIDES if each.decides else _WORK if each.number else _HOST
    if len(label) > size:
        return (label[: size - 1] + "…")[: max(size, 0)] if size > 1 else fill[: max(size, 0)]
    return label + fill * (size - len(label))


def legend(lanes: Lanes) -> str:
    """How long the call took, and what the numbers stand for: what decides first."""
    host = [each for each in (*lanes.ops, *lanes.inside, *lanes.calls) if each.decides]
    chosen = [each for each in lanes.gpu if each.decides] or host
    others = [each for each in lanes.gpu if not each.decides]
    parts = [f"{time_text(lanes.length_ns)}, profiled:"]
    parts += [f"{_DECIDES} {_listed(chosen, timed=True)}"] if chosen else []
    parts += [f"{_WORK} {_listed(others, timed=False)}"] if others else []
    return " ".join(parts)


def _listed(slices: Sequence[LaneSlice], *, timed: bool) -> str:
    """Each name once, with its numbers, and the times of what decides."""
    named: dict[str, list[LaneSlice]] = {}
    for each in slices:
        named.setdefault(each.label, []).append(each)
    shown = [_entry(label, found, timed) for label, found in named.items()]
    more = [f"{len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
    return "; ".join([*shown[:_LISTED], *more])


def _entry(label: str, slices: Sequence[LaneSlice], timed: bool) -> str:
    numbers = ",".join(str(each.number) for each in slices if each.number)
    times = ", ".join(time_text(each.end_ns - each.start_ns) for each in slices)
    return f"{numbers} {label}{f' {times}' if timed else ''}".strip()
