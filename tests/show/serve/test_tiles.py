"""Tiles, ways and ranges against the events themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import foretrace
from foretrace.base.errors import UsageError
from foretrace.model.intervals import Ints, shared_lengths, union_length
from foretrace.model.trace import Trace
from foretrace.read.recordings import traces
from foretrace.show.html.strip import edges
from foretrace.show.html.timeline import Timeline
from foretrace.show.serve import tiles as tiling
from foretrace.show.serve.ranges import Ranges
from foretrace.show.serve.tiles import Tiles
from foretrace.show.serve.ways import Ways
from show.serve import reading

WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module", params=["llama_train_eager", "mlp_compiled"])
def opened(request: pytest.FixtureRequest) -> tuple[Trace, Timeline]:
    trace = foretrace.open(traces()[request.param], cache=False)
    return trace, Timeline(trace)


def views(timeline: Timeline) -> Iterator[tuple[int, int, int]]:
    """The whole recording and closer, on wide and on narrow screens."""
    end, middle = timeline.end_ns, int(np.median(timeline.start))
    yield 0, end, 700
    yield -end, 2 * end, 390
    yield middle, middle + end // 50, 500
    yield middle, middle + 3000, 100
    yield middle, middle + 7, 100


def overlap(timeline: Timeline, rows: Ints, start: int, end: int) -> tuple[Ints, Ints]:
    begin = np.maximum(timeline.start[rows], start)
    return begin, np.maximum(np.minimum((timeline.start + timeline.length)[rows], end), begin)


def test_bands_add_up_to_the_busy_time_of_every_row(opened: tuple[Trace, Timeline]) -> None:
    timeline = opened[1]
    tiles = Tiles(timeline)
    for start, end, width in views(timeline):
        found = reading.bands(tiles.bands(start, end, width), start, end, width)
        near = timeline.between(start, end)
        keys = list(zip(timeline.lane[near], timeline.row[near], strict=True))
        expected = {}
        for key in set(keys):
            mine = near[[each == key for each in keys]]
            expected[key] = union_length(*overlap(timeline, mine, start, end))
        sums = dict.fromkeys(expected, 0)
        for key, busy in found.items():
            sums[key[:2]] += int(busy.sum())
        assert sums == expected


def test_each_pixel_has_what_is_counted(opened: tuple[Trace, Timeline]) -> None:
    timeline = opened[1]
    tiles = Tiles(timeline)
    for start, end, width in views(timeline):
        at = edges(start, end, width)
        found = reading.bands(tiles.bands(start, end, width), start, end, width)
        for (lane, row, group), busy in list(found.items())[::3]:
            mine = (timeline.lane == lane) & (timeline.row == row) & (timeline.group == group)
            rows = np.flatnonzero(mine)
            for pixel in range(0, width, 41):
                near = overlap(timeline, rows, int(at[pixel]), int(at[pixel + 1]))
                assert busy[pixel] == union_length(*near)


def test_boxes_are_what_is_a_pixel_wide(
    opened: tuple[Trace, Timeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiling, "ENOUGH", 10)  # levels even where there are few events
    timeline = opened[1]
    tiles = Tiles(timeline)
    assert len(tiles.levels) > 2
    for start, end, width in views(timeline):
        begin, finish = timeline.start, timeline.start + timeline.length
        wide = timeline.length >= max((end - start) / width, 1)
        near = np.flatnonzero(wide & (begin < end) & (finish > start))
        assert tiles.boxes(start, end, width).tolist() == near.tolist()
        some = near[np.isin(timeline.lane[near], (0, 2))]
        assert tiles.boxes(start, end, width, {0, 2}).tolist() == some.tolist()


def test_a_strip_adds_up_to_the_busy_time_of_its_gpu(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    tiles, rows = Tiles(timeline), timeline.rows_of(trace.gpu.id[trace.gpu.usable])
    for start, end, width in views(timeline):
        found = reading.bands(tiles.strips(start, end, width), start, end, width)
        busy = sum(found.values(), np.zeros(width, np.int64))
        assert int(busy.sum()) == union_length(*overlap(timeline, rows, start, end))
        assert bool((busy <= np.diff(edges(start, end, width))).all())


def test_ranges_count_as_look_does(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    ranges, gpu = Ranges(trace, timeline), trace.gpu
    totals = foretrace.look(trace).totals
    whole = ranges.numbers(0, timeline.end_ns)
    assert whole.busy_ns == totals.gpu_busy_ns
    assert sum(part.count for part in whole.kernels) == totals.kernels
    rows = timeline.rows_of(gpu.id[gpu.usable])
    for start, end, _ in views(timeline):
        found = ranges.numbers(start, end)
        first, last = overlap(timeline, rows, start, end)
        inside = last > first
        shared = shared_lengths(np.zeros(inside.sum(), np.int64), first[inside], last[inside])
        assert found.busy_ns == union_length(first, last)
        assert sum(part.ns for part in found.groups) == pytest.approx(found.busy_ns)
        group = timeline.group[rows][inside]
        for part in found.groups:
            assert part.ns == pytest.approx(shared[group == part.number].sum())
            assert part.count == (group == part.number).sum()
        case = timeline.columns["case"][rows]
        for part in found.kernels:
            assert part.ns == (last - first)[case == part.number].sum()


def test_costs_are_those_of_the_kernels_inside(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    whole = Ranges(trace, timeline).numbers(0, timeline.end_ns)
    for name, found in (("bytes", whole.bytes), ("flops", whole.flops)):
        known = trace.kernel_cases.drop_nulls(name)
        total = sum(each * count for each, count in known.select(name, "count").iter_rows())
        assert found == (pytest.approx(total) if known.height else None)
    empty = Ranges(trace, timeline).numbers(-2000, -1000)
    assert (empty.busy_ns, empty.groups, empty.bytes, empty.flops) == (0, [], None, None)


def test_the_ways_lead_to_the_next_event_and_back(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    ways = Ways(timeline)
    order = trace.gpu.id[trace.gpu.launch_order].tolist()
    assert ways.neighbour(order[1], "next", 0) == order[2]
    assert ways.neighbour(order[1], "previous", 0) == order[0]
    assert ways.neighbour(order[-1], "next", 0) is None
    launch = int(trace.gpu.launch[trace.gpu.launch_order[1]])
    assert ways.neighbour(order[1], "up", 0) == launch
    assert ways.neighbour(launch, "down", 0) == order[1]
    caller = ways.neighbour(launch, "up", 0)
    assert caller == int(trace.host.parent[launch])
    first = int(timeline.start[timeline.rows_of(np.array([order[3]]))][0])
    assert ways.neighbour(None, "next", first) == order[3]
    assert ways.neighbour(None, "next", timeline.end_ns + 1) is None
    with pytest.raises(UsageError, match="next, previous"):
        ways.neighbour(order[0], "sideways", 0)


def test_the_launches_of_a_kernel_are_all_of_them(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    ways = Ways(timeline)
    cases: list[dict[str, Any]] = trace.kernel_cases.head(5).to_dicts()
    for case, row in enumerate(cases):
        found = timeline.event[ways.launches(case)].tolist()
        assert sorted(found) == sorted(row["kernels"])
