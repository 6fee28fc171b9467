"""Statements about what bounds a step that were false once, each with the trace it was made on."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.look import summarize
from foretrace.look.measured_step import measured
from foretrace.trace import bounds
from opened_traces import open_made
from statements.places import OWN, ladder


def test_a_graph_replay_is_not_starved_by_the_host() -> None:
    """A decode that is one graph launch a call, with leftovers of the replay before in its time."""
    trace = ft.open(OWN / "graph_replay.json.gz", cache=False)
    found = summarize(trace).look
    assert found.verdict.bound not in ("host", "sync")
    for span in trace.spans.regions:
        time = bounds.spent(trace, span)
        assert time is not None
        assert set(time.idle_by_cause) <= {"queue"}
    assert all("CUDA graph" not in row.fix for row in found.findings)


def test_three_streams_with_a_pageable_copy_are_bound_by_the_copy(tmp_path: Path) -> None:
    """99% of GPU time is one pageable copy: not "most GPU time in kernels near the bandwidth"."""
    builder = TraceBuilder().step(1, 0, 1_000_000).op("aten::copy_", 0, 990_000)
    builder.call("cudaMemcpyAsync", 1_000, 980_000)
    builder.memcpy(5_000, 975_000, stream=7)
    for stream in (20, 24):
        builder.op("aten::relu", 2_000, 1_000).launch(2_100, 500)
        builder.kernel("relu", 10_000, 3_500, stream=stream)
    trace = open_made(builder, tmp_path)
    assert summarize(trace).look.verdict.bound == "copy"


def test_work_that_waits_in_the_queue_is_not_the_hosts_fault(tmp_path: Path) -> None:
    """A decode step whose kernels were launched at once and ran 463 ms later."""
    builder = TraceBuilder().region("decode", 0, 465_000_000)
    for at in range(5):
        builder.op("aten::add", 70_000 + at * 50_000, 20_000).launch(71_000 + at * 50_000, 5_000)
        builder.kernel("add", 463_400_000 + at * 10_000, 9_000)
    builder.call("hipMemcpyWithStream", 361_000, 463_063_000)
    builder.memcpy(463_460_000, 5_000)
    found = summarize(open_made(builder, tmp_path)).look
    assert found.verdict.bound not in ("host", "sync")
    assert "waited 463 ms in the queue" in found.verdict.text
    blamed = [row for row in found.findings if row.rule in ("launch_bound", "sync_stalls")]
    assert sum(row.at_most_ns or 0 for row in blamed) < 1_000_000


def test_the_run_record_decides_what_bounds_the_compiled_mlp() -> None:
    """The trace idles for half of a step; without the profiler, 226 of 230 us are GPU time."""
    found = summarize(ladder("mlp_compiled_64x128x768x3072")).look
    assert found.verdict.bound == "compute"
    assert "226 of 230 us" in found.verdict.text
    assert not found.host_times_profiled


def test_a_trace_says_that_its_host_times_are_profiled() -> None:
    """A graph "saves at most 1.41 ms" of a step that takes 1.00 ms without the profiler."""
    from foretrace.look.lines import headline

    record = summarize(ladder("mlp_compiled_64x128x768x3072_backward")).look
    assert "wall times from the run record" in headline(record)
    plain = summarize(ft.open(OWN / "graph_replay.json.gz", cache=False)).look
    assert plain.host_times_profiled
    assert "host times inflated" in headline(plain)


def test_filling_the_pipeline_is_not_idle_time(tmp_path: Path) -> None:
    """ "Idle for 10.9%" beside "busy 99.9%": the first kernel starts late, the rest back to back."""
    builder = TraceBuilder()
    for step in range(3):
        builder.step(step, step * 40_000, 40_000).op("aten::mm", step * 40_000, 30_000)
        builder.launch(step * 40_000 + 20_000, 5_000)
        builder.kernel("sgemm", 40_000 + step * 100_000, 100_000)
    found = summarize(open_made(builder, tmp_path)).look
    assert "(100.0%)" in found.verdict.text
    assert not [row for row in found.findings if row.rule == "idle_gaps" and row.state == "found"]


def test_launches_during_a_capture_are_not_a_slow_host() -> None:
    """ "The host cannot feed the GPU ... at most 55.2 ms": launches during a capture run nothing."""
    trace = ft.open(OWN / "graph_capture.json.gz", cache=False)
    found = summarize(trace).look
    assert found.verdict.bound == "unknown"
    assert "captured CUDA graphs" in found.verdict.text
    assert "gpu_events_missing" not in {note.code for note in trace.ledger.notes}
    assert not [row for row in found.findings if row.rule == "launch_bound" and row.at_most_ns]


@pytest.mark.parametrize(
    "name", ["model_gemma_4x512x4x768x12x3072x32000", "mlp_eager_64x128x768x3072"]
)
def test_the_host_column_stays_within_its_call(name: str) -> None:
    """The column added up to 16.3 ms in a 6.4 ms call: graph times counted once per kernel."""
    found = summarize(ladder(name))
    (region,) = [row for row in found.look.regions if row.kernels_per_call][:1]
    (entry,) = [entry for entry in found.sequences if entry.region == region.name]
    assert not entry.left_out
    assert sum((row.host_ns or 0) * row.times for row in entry.rows) <= region.cpu_ns / region.count


def test_launches_are_as_far_apart_as_the_wall_time_leaves_them() -> None:
    """Gemma with a run record: "201 launches, one every 37.1 us" in 7.35 ms."""
    unit = measured(ladder("model_gemma_4x512x4x768x12x3072x32000"))
    assert unit is not None
    assert (unit.apart_ns or 0) * unit.launches < unit.wall_ns + 1


def test_the_distance_of_launches_explains_the_time_or_is_not_told(tmp_path: Path) -> None:
    """AlexNet's first call: "79 launches, one every 60.5 us" in 43.4 s."""
    builder = TraceBuilder().region("first", 0, 465_000_000)
    for at in range(5):
        start = at * 50_000 + (460_000_000 if at == 4 else 0)
        builder.op("aten::add", start, 20_000).launch(start + 1_000, 5_000)
        builder.kernel("add", start + 10_000, 9_000)
    text = summarize(open_made(builder, tmp_path)).look.verdict.text
    assert "5 launches; median kernel 9.00 us" in text


def test_host_time_of_a_trace_without_gpu_is_where_most_of_it_is(tmp_path: Path) -> None:
    """A rank without a GPU: "most self time in aten::empty (100.0%)", which took 4 us of 1.3 s."""
    builder = TraceBuilder().region("gloo:all_reduce", 0, 170_000_000)
    builder.op("aten::empty", 170_100_000, 2_000)
    text = summarize(open_made(builder, tmp_path)).look.verdict.text
    assert text.endswith(
        "1 host op (2.00 us), most host time in gloo:all_reduce (1 call, 170 ms each)"
    )
