"""Idle time: every gap, its length and its cause, on traces with exact numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corpus.builder import TraceBuilder
from foretrace.read import recordings
from foretrace.trace.idle import CAUSES, spent_in
from foretrace.trace.trace import Trace
from opened_traces import open_made
from opened_traces import opened as opened_trace

Open = Callable[[TraceBuilder], Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda builder: open_made(builder, tmp_path)


def launched(builder: TraceBuilder, at: int, start: int, length: int) -> TraceBuilder:
    """A launch at `at` and its kernel."""
    return builder.launch(at, 500).kernel("sgemm", start, length)


def gaps(trace: Trace) -> list[tuple[int, str]]:
    idle = trace.idle
    return [
        (length, CAUSES[cause])
        for length, cause in zip(idle.length.tolist(), idle.cause.tolist(), strict=True)
    ]


def test_a_late_launch_inside_an_op_is_launch(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 100_000).op("aten::mm", 0, 10_000)
    launched(builder, 5_000, 12_000, 20_000)
    builder.op("aten::mm", 30_000, 40_000)
    launched(builder, 60_000, 67_000, 33_000)
    assert gaps(opened(builder)) == [(12_000, "launch"), (35_000, "launch")]


def test_no_op_at_all_is_host(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 100_000).op("aten::mm", 0, 10_000)
    launched(builder, 5_000, 12_000, 20_000)
    builder.op("aten::mm", 90_000, 2_000)
    launched(builder, 91_000, 98_000, 2_000)
    assert gaps(opened(builder)) == [(12_000, "launch"), (66_000, "host")]


def test_a_wait_that_drains_the_gpu_is_sync(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 100_000).op("aten::mm", 0, 8_000)
    launched(builder, 5_000, 12_000, 18_000)
    builder.sync(12_000, 20_000).op("aten::mm", 40_000, 20_000)
    launched(builder, 55_000, 62_000, 38_000)
    assert gaps(opened(builder)) == [(12_000, "launch"), (32_000, "sync")]


def test_work_already_queued_is_not_the_hosts(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 50_000).op("aten::mm", 0, 9_000)
    launched(builder, 1_000, 8_000, 20_000)
    launched(builder, 5_000, 30_000, 20_000)
    assert gaps(opened(builder)) == [(8_000, "launch"), (2_000, "queue")]


def test_a_launch_is_the_hosts_only_until_it_arrives(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 90_000).op("aten::mm", 0, 90_000)
    launched(builder, 1_000, 8_000, 2_000)
    launched(builder, 80_000, 150_000, 20_000)
    assert gaps(opened(builder)) == [(8_000, "launch"), (90_500, "launch"), (49_500, "queue")]


def test_a_long_wait_in_the_queue_is_not_the_hosts(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 50_000).op("aten::mm", 0, 9_000)
    launched(builder, 1_000, 8_000, 2_000)
    launched(builder, 5_000, 400_000, 20_000)
    trace = opened(builder)
    assert gaps(trace) == [(8_000, "launch"), (390_000, "queue")]
    # nothing leaves the time of the step
    assert (trace.idle.window_ns, spent_in(trace.idle).wall_ns) == (420_000, 420_000)
    assert spent_in(trace.idle).idle_bound == "unknown"


def test_launches_during_a_capture_run_nothing(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 100_000).op("aten::mm", 0, 10_000)
    launched(builder, 1_000, 8_000, 2_000)
    builder.call("cudaStreamBeginCapture", 12_000, 500).op("aten::mm", 13_000, 60_000)
    builder.launch(20_000, 500).call("cudaStreamEndCapture", 75_000, 500)
    builder.op("aten::mm", 78_000, 10_000)
    launched(builder, 80_000, 87_000, 13_000)
    trace = opened(builder)
    assert gaps(trace) == [(8_000, "launch"), (77_000, "capture")]
    assert "gpu_events_missing" not in {note.code for note in trace.ledger.notes}


def test_the_profiler_and_copies_are_told_apart(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 200_000).op("aten::mm", 0, 2_000)
    launched(builder, 1_000, 8_000, 2_000)
    builder.host("overhead", "Activity Buffer Request", 10_000, 45_000).op(
        "aten::mm", 60_000, 1_000
    )
    launched(builder, 60_500, 67_500, 2_500)
    builder.call("cudaMemcpyAsync", 70_000, 110_000).op("aten::mm", 185_000, 5_000)
    launched(builder, 188_000, 195_000, 5_000)
    assert gaps(opened(builder)) == [(8_000, "launch"), (57_500, "profiler"), (125_000, "copy")]


def test_a_launch_that_is_not_in_the_trace_is_unknown(opened: Open) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 2_000)
    launched(builder, 1_000, 2_000, 8_000)
    builder.kernel("stray", 20_000, 5_000, correlation=999)
    assert gaps(opened(builder)) == [(10_000, "unknown")]


def test_time_between_steps_does_not_count(opened: Open) -> None:
    builder = TraceBuilder()
    for index, at in enumerate((0, 1_000_000)):
        builder.step(index, at, 50_000).op("aten::mm", at, 20_000)
        launched(builder, at + 5_000, at + 12_000, 38_000)
    trace = opened(builder)
    # before the first kernel the pipeline fills, once; the gap began between the steps
    assert gaps(trace) == [(12_000, "host")]
    assert trace.idle.window_ns == 88_000


def test_devices_have_gaps_of_their_own(opened: Open) -> None:
    builder = TraceBuilder().step(1, 0, 40_000).op("aten::mm", 0, 30_000)
    builder.launch(1_000, 500).kernel("sgemm", 8_000, 32_000, device=0)
    builder.launch(2_000, 500).kernel("sgemm", 10_000, 30_000, device=1)
    trace = opened(builder)
    assert gaps(trace) == [(8_000, "launch"), (10_000, "launch")]
    assert trace.idle.window_ns == 80_000


@pytest.mark.parametrize("name", sorted(recordings.traces()))
def test_busy_and_idle_make_up_the_window(name: str) -> None:
    trace = opened_trace(recordings.traces()[name])
    idle, gpu = trace.idle, trace.gpu
    windows = [trace.spans.window(span) for span in trace.spans.steps]
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(windows))
    windows[0] = (int(gpu.start[0]), windows[0][1])
    assert idle.window_ns == sum(end - start for start, end in windows)
    assert int(idle.length.sum()) + gpu.busy(gpu.usable) == idle.window_ns
    assert sum(idle.by_cause().values()) == int(idle.length.sum())
    json.dumps(idle.by_cause())


def test_a_trace_without_gpu_work_has_no_gaps(opened: Open) -> None:
    trace: Any = opened(TraceBuilder().step(1, 0, 1_000).op("aten::mm", 0, 500))
    assert gaps(trace) == []
    assert trace.idle.window_ns == 0
