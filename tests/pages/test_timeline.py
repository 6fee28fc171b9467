"""The lanes of a timeline, and the exact busy time of its pixels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.pages.timeline import Bands, Timeline, call_group, edges, partition
from foretrace.read.recordings import traces
from foretrace.trace.intervals import union_length
from opened_traces import opened, overview

CALLS = {
    "cudaLaunchKernel": "launch_call",
    "cudaDeviceSynchronize": "wait_call",
    "cudaMemcpyAsync": "copy_call",
    "cudaMalloc": "other_call",
}


def test_the_gpu_and_the_thread_with_the_steps_come_first_and_calls_have_groups() -> None:
    trace = opened(traces()["llama_train_eager"])
    timeline = Timeline(trace)
    lanes = timeline.lanes
    assert [lane.kind for lane in lanes] == ["stream", "thread", "thread"]
    assert (lanes[0].key, lanes[0].gpu_number) == ("gpu0/stream7", 0)
    assert "python3" in lanes[1].label
    assert "autograd" in lanes[2].label
    linked = int((trace.gpu.launch >= 0).sum())
    assert lanes[1].launches + lanes[2].launches == linked > 0
    found = {timeline.groups[number] for number in np.unique(timeline.group).tolist()}
    assert {*CALLS.values(), "cpu_op", "gemm"} <= found
    assert "cuda_runtime" not in found
    assert {name: call_group(name) for name in CALLS} == CALLS


SPAN = 300
INTERVALS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100), st.integers(0, 2)))


@given(INTERVALS, st.integers(0, 100), st.integers(1, 200), st.integers(1, 50))
def test_each_pixel_has_what_is_counted(
    rows: list[tuple[int, int, int]], start: int, length: int, width: int
) -> None:
    rows.sort()
    begin, size, group = np.array(rows, np.int64).reshape(-1, 3).T
    bands = Bands(begin, begin + size, group)
    found = bands.pixels(edges(start, start + length, width))
    at = [start + length * each // width for each in range(width + 1)]
    for each in set(group.tolist()):
        cells = np.zeros(SPAN + 1, bool)
        for one, long, own in rows:
            cells[one : one + long] |= own == each
        counted = [int(cells[a:b].sum()) for a, b in pairwise(at)]
        assert found.get(each, np.zeros(width, np.int64)).tolist() == counted


@pytest.mark.parametrize("name", sorted(traces()))
def test_pixels_add_up_to_the_busy_time_of_the_gpu(name: str) -> None:
    trace = opened(traces()[name])
    timeline, gpu = Timeline(trace), trace.gpu
    rows = timeline.rows_of(gpu.id[gpu.usable])
    rows = rows[np.argsort(timeline.start[rows], kind="stable")]
    start, end = timeline.start[rows], (timeline.start + timeline.length)[rows]
    total = union_length(start, end)
    for width in (1, 7, 390, 1024, 1440):
        pixels = Bands(start, end, np.zeros_like(start)).pixels(edges(0, timeline.end_ns, width))
        assert sum(int(each.sum()) for each in pixels.values()) == total
    # the recordings are of one GPU each
    assert total == (overview(traces()[name]).look.totals.gpu_busy_ns or 0)


@given(INTERVALS)
def test_parts_of_what_overlaps_add_up_to_the_whole(rows: list[tuple[int, int, int]]) -> None:
    rows.sort()
    begin, size, _ = np.array(rows, np.int64).reshape(-1, 3).T
    first, last = partition(begin, begin + size)
    assert int((last - first).sum()) == union_length(begin, begin + size)
    kept = last > first
    assert bool((first[kept] >= begin[kept]).all())
    assert bool((last[kept] <= (begin + size)[kept]).all())
