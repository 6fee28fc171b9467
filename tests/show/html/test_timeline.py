"""The lanes of a timeline, and the exact busy time of its pixels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretrace
from corpus.builder import TraceBuilder
from foretrace.model.flame import is_library_frame
from foretrace.model.host import HOST_KINDS
from foretrace.model.intervals import union_length
from foretrace.read.recordings import traces
from foretrace.show.html.timeline import (
    Bands,
    Timeline,
    call_group,
    depths,
    edges,
    frame_sorts,
    partition,
)
from opened_traces import open_made, opened, overview

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"


@pytest.fixture(scope="module")
def stacks() -> foretrace.Trace:
    return opened(MODULES)


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


def test_frames_of_python_have_lanes_and_every_event_a_group(stacks: foretrace.Trace) -> None:
    timeline = Timeline(stacks)
    is_frame = stacks.host.is_kind("python_function")[timeline.event]
    for number, lane in enumerate(timeline.lanes):
        mine = timeline.lane == number
        assert (lane.kind == "python") == bool(is_frame[mine].any()) == bool(is_frame[mine].all())
        assert int(timeline.row[mine].max()) + 1 == lane.rows
        events = timeline.event[mine]
        busy = union_length(stacks.host.start[events], stacks.host.end[events])
        assert lane.busy_ns == busy
        if lane.kind == "python":  # right below its thread, PyTorch's own below the program's
            sort = lane.key.rpartition("/")[2]
            thread = timeline.lanes[number - 1 - (sort == "torch")]
            assert lane.key == f"{thread.key}/{sort}"
            names = {stacks.host.names[stacks.host.name[event]] for event in events.tolist()}
            assert {is_library_frame(name) for name in names} == {sort == "torch"}
    assert len(timeline.groups) == len(set(timeline.groups))
    names = np.array(timeline.groups)[timeline.group]
    kernels = stacks.host.is_kind("kernel")[timeline.event]
    roles = stacks.kernel_cases["role"].to_numpy()[timeline.columns["case"][kernels]]
    assert (names[kernels] == roles).all()
    copies = stacks.host.is_kind("gpu_memcpy", "gpu_memset")[timeline.event]
    assert set(names[copies]) <= {"copy"}
    assert set(names[stacks.host.is_kind("cpu_op")[timeline.event]]) == {"cpu_op"}


def test_depths_count_callers_of_the_same_sort(stacks: foretrace.Trace) -> None:
    host = stacks.host
    shown = np.flatnonzero(host.is_kind(*HOST_KINDS) & host.lasting)[::97]
    frames, stepping = frame_sorts(host), host.track[host.is_step]
    for event, depth in zip(shown.tolist(), depths(host, shown).tolist(), strict=True):
        apart = host.steps_apart and not frames[event] and not host.is_step[event]
        around = apart and host.track[event] in stepping  # its step, which is in no tree
        above, count = int(host.parent[event]), int(around)
        while above >= 0:
            count += int(frames[above] == frames[event])
            above = int(host.parent[above])
        assert depth == count


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


def test_a_step_that_crosses_the_models_call_has_a_row_of_its_own(tmp_path: Path) -> None:
    """`record --stacks` begins a step in a hook: both were drawn on one row."""
    built = TraceBuilder().host("python_function", "nn.Module: Net_0", 0, 10_000)
    built.step(1, 500, 19_500).op("aten::linear", 1_000, 2_000).op("aten::mm", 1_100, 500)
    host = open_made(built, tmp_path).host
    shown = np.arange(host.count)
    found = {host.names[host.name[event]]: depth for event, depth in enumerate(depths(host, shown))}
    assert [found[name] for name in ("ProfilerStep#1", "aten::linear", "aten::mm")] == [0, 1, 2]


def test_a_serving_trace_opens_at_a_batch_of_its_verdict(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at, length in enumerate((3_000, 5_000, 4_000)):
        start = 20_000 * at
        builder.region("execute_context_0(0)_generation_32(32)", start, 1_000)
        builder.op("aten::mm", start + 10, 500).launch(start + 100, 10)
        builder.kernel("mm", start + 200, length)
    trace = open_made(builder, tmp_path)
    timeline = Timeline(trace)
    assert (len(timeline.steps), timeline.typical_step) == (3, 2)
    start, last = timeline.steps[2].start, timeline.steps[2].last
    begin, end = trace.spans.window(trace.served.spans[2])
    assert (start, last) == (begin - timeline.origin_ns, end - timeline.origin_ns)
