"""The typical step as a small picture without a script: how busy each GPU, stream and row is.

Every pixel is as high as it is busy, from the exact busy time of all events. The union of a group's
intervals is kept with the busy time before each piece, so the busy time of a pixel is a difference
of two look-ups, however many events it holds. `web/src/core/busy.ts` does the same in a page. A
line below the picture names what is not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model.intervals import Bools, IntervalUnion, Ints
from foretrace.model.trace import Trace
from foretrace.show.html.page import read
from foretrace.show.html.timeline import Timeline
from foretrace.show.render.terminal import plain

_LONG_AGO = -(1 << 62)  # the end of what precedes the first piece


class Bands:
    """The intervals of one row, in order of start, each with the number of its group."""

    def __init__(self, start: Ints, end: Ints, group: Ints) -> None:
        groups = distinct(group).tolist()
        self.groups = {
            each: IntervalUnion(start[group == each], end[group == each]) for each in groups
        }

    def pixels(self, edges: Ints) -> dict[int, Ints]:
        """Busy ns between each two of these moments, by group; nothing for idle groups."""
        found = {each: np.diff(busy.up_to(edges)) for each, busy in self.groups.items()}
        return {each: busy for each, busy in found.items() if busy.any()}


def edges(start: int, end: int, width: int) -> Ints:
    """The whole nanoseconds at which `width` pixels begin, and where the last one ends."""
    whole, rest = divmod(end - start, width)  # the product of all three may exceed 64 bits
    pixel = np.arange(width + 1, dtype=np.int64)
    return start + whole * pixel + rest * pixel // width


def partition(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Intervals in order of start, cut so that a moment belongs to the first that holds it.

    Groups that run at once then add up to the time in which something ran.
    """
    before = np.maximum.accumulate(np.concatenate([[_LONG_AGO], end[:-1]]))[: len(start)]
    began = np.maximum(start, before)
    return began, np.maximum(end, began)


WIDTH, STRIP, ROW, GAP, LABEL = 800, 36, 9, 5, 12  # pixels
MOST_ROWS = 6  # of a thread


class Row(Struct, frozen=True):
    """One line of the picture: busy ns of each pixel, by group."""

    label: str
    height: int
    bands: dict[int, Ints]


class Picture:
    """One stretch of a timeline: the typical step, or the whole recording without steps."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.lanes = timeline, timeline.lanes
        step = None if timeline.typical_step is None else timeline.steps[timeline.typical_step]
        self.name = step.name if step else "the recording"
        self.start, end = (step.start, step.last) if step else (0, timeline.end_ns)
        self.end = max(end, self.start + 1)
        # an annotation on the GPU keeps nothing busy
        self.work = timeline.group != timeline.groups.index("gpu_user_annotation")

    def rows(self) -> Iterator[Row]:
        """A strip for each GPU, the rows of its streams, and those of the threads that launch."""
        last = None
        for at, lane in enumerate(self.lanes):
            if lane.gpu_number is not None and lane.gpu_number != last:
                last = lane.gpu_number
                yield Row(lane.label.split(" · ")[0], STRIP, self._bands(self.on_gpu(last)))
            if not lane.gpu and not lane.launches:
                continue
            for number in range(lane.rows if lane.gpu else min(lane.rows, MOST_ROWS)):
                mine = (self.timeline.lane == at) & (self.timeline.row == number)
                yield Row("" if number else lane.label, ROW, self._bands(mine))

    def busy(self) -> list[float]:
        """The busy share of each GPU."""
        numbers = dict.fromkeys(lane.gpu_number for lane in self.lanes)
        known = [number for number in numbers if number is not None]
        edges, length = np.array([self.start, self.end]), self.end - self.start
        return [
            np.diff(IntervalUnion(*self._ordered(self.on_gpu(number))[:2]).up_to(edges)).item()
            / length
            for number in known
        ]

    def left_out(self) -> str:
        """What the picture does not show."""
        threads = [lane for lane in self.lanes if not lane.gpu]
        idle = sum(not lane.launches for lane in threads)
        deeper = sum(max(lane.rows - MOST_ROWS, 0) for lane in threads if lane.launches)
        parts = [plural(idle, "thread", "threads") + " without launches"] if idle else []
        parts += [plural(deeper, "row", "rows") + " of deeper calls"] if deeper else []
        return f". Not drawn: {', '.join(parts)}; trace.plot() shows them" if parts else ""

    def on_gpu(self, number: int) -> Bools:
        """The work of one GPU."""
        own = np.array([lane.gpu_number == number for lane in self.lanes])
        found: Bools = own[self.timeline.lane] & self.work
        return found

    def _ordered(self, mine: Bools) -> tuple[Ints, Ints, Ints]:
        rows = np.flatnonzero(mine)
        rows = rows[np.argsort(self.timeline.start[rows], kind="stable")]
        start = self.timeline.start[rows]
        return start, start + self.timeline.length[rows], self.timeline.group[rows]

    def _bands(self, mine: Bools) -> dict[int, Ints]:
        start, end, group = self._ordered(mine)
        return Bands(*partition(start, end), group).pixels(edges(self.start, self.end, WIDTH))


def timeline_svg(trace: Trace) -> str:
    """The picture, and a line that says what it is."""
    timeline = Timeline(trace)
    if not len(timeline):
        return ""
    picture, top = Picture(timeline), 0
    shapes: list[str] = []
    for row in picture.rows():
        if row.label:
            shapes.append(f'<text x="0" y="{top + LABEL - 3}">{_text(row.label)}</text>')
            top += LABEL
        shapes += _stacked(row, timeline.groups, top, (picture.end - picture.start) / WIDTH)
        top += row.height + (GAP if row.height == STRIP else 1)
    busy = ", ".join(map(percent_text, picture.busy()))
    length = time_text(picture.end - picture.start)
    label = _text(f"{length} of {picture.name}{f': GPU busy {busy}' if busy else ''}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" style="max-width:100%" font-size="10" '
        f'fill="#5b6675" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
        f"<p>{label}{_text(picture.left_out())}</p>"
    )


def _stacked(row: Row, groups: list[str], top: int, pixel_ns: float) -> Iterator[str]:
    """One shape a group, upon those before it: as high in each pixel as that is busy."""
    bottom, low = top + row.height, np.zeros(WIDTH)
    for group, busy in row.bands.items():
        high = low + busy / pixel_ns * row.height
        moved = (np.diff(low, prepend=-1.0) != 0) | (np.diff(high, prepend=-1.0) != 0)
        begins = np.flatnonzero(moved)
        ends = np.append(begins[1:], WIDTH)
        path = "".join(
            f"M{x} {bottom - low[x]:.5g}H{to}V{bottom - high[x]:.5g}H{x}z"
            for x, to in zip(begins.tolist(), ends.tolist(), strict=True)
            if high[x] > low[x]
        )
        words = _text(f"{groups[group]}: {time_text(int(busy.sum()))}")
        yield f'<path fill="{_fill(groups[group])}" d="{path}"><title>{words}</title></path>'
        low = high


@cache
def _colours() -> dict[str, str]:
    """The colours of the pages, light."""
    light = read("page.css").partition("{")[2].partition("}")[0]
    pairs = (line.partition(":") for line in light.split(";"))
    return {name.strip().removeprefix("--"): colour.strip() for name, _, colour in pairs}


def _fill(group: str) -> str:
    name = "accent" if group.endswith("annotation") else group.replace("_", "-")
    return _colours().get(name, _colours()["other"])


def _text(text: str) -> str:
    return escape(plain(text), quote=True)
