"""Tiles, and what the page reads around an event, against the events themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

import foretrace
from foretrace.pages.serve import library as tiling
from foretrace.pages.serve.library import OpenTrace, PreparedTrace, Tiles
from foretrace.pages.timeline import Timeline, edges
from foretrace.read.recordings import traces
from foretrace.trace.intervals import Ints, union_length
from foretrace.trace.trace import Trace
from pages.serve import reading


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


def test_the_page_gets_all_gpu_work_with_its_launches(opened: tuple[Trace, Timeline]) -> None:
    trace, timeline = opened
    calls = timeline.rows_of(np.flatnonzero(trace.host.is_launch & trace.host.timed))
    prepared = PreparedTrace(timeline, trace.host.names, {}, calls, b"")
    held = json.loads(OpenTrace(prepared, trace, lambda: trace).work)["events"]
    events = set(reading.columns(held)["event"].tolist())
    usable = trace.gpu.usable
    assert set(trace.gpu.id[usable].tolist()) <= events
    assert set(trace.gpu.launch[usable & (trace.gpu.launch >= 0)].tolist()) <= events
    assert set(timeline.event[calls].tolist()) <= events
