"""Bounds of steps and regions: the limits, the votes, and the recorded traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.read import recordings
from foretrace.trace import bounds
from foretrace.trace.spans import Span
from look.rules.sketch import MUL, Sketch, kernel
from opened_traces import open_made, opened

RECORDED = {  # bounds of the steps, of the region
    "linear_eager": (["host"] * 3, "host"),
    "matmul_add_64_eager": (["host"] * 3, "host"),
    "matmul_add_4096_eager": (["mixed", "compute", "compute"], "compute"),
    "mlp_eager": (["host", "compute", "compute"], "compute"),
    "mlp_eager_train": (["host"] * 3, "host"),
    "llama_train_eager": (["host"] * 3, "host"),
}


def one_kernel(start: int, length: int, step: int = 100_000) -> TraceBuilder:
    return (
        TraceBuilder()
        .step(1, 0, step)
        .op("aten::mm", 0, 5_000)
        .launch(1_000, 500)
        .kernel("sgemm", start, length)
        .call("cudaEventQuery", step - 1_000, 1_000)
    )


def _idle_share(trace: ft.Trace, span: Span) -> float:
    time = bounds.spent(trace, span)
    assert time is not None
    return time.idle_share


def test_a_launch_without_a_time_was_not_before_all_others(tmp_path: Path) -> None:
    builder = one_kernel(10_000, 20_000)
    trace = open_made(builder, tmp_path)
    window = trace.spans.window(trace.spans.steps[0])
    builder.launch(2_000, 500)
    del builder.events[-2]["ts"]
    later = open_made(builder.kernel("sgemm", 150_000, 10_000), tmp_path)
    assert later.spans.window(later.spans.steps[0]) == window


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str) -> None:
    trace = opened(recordings.traces()[name])
    steps, region = RECORDED[name]
    assert [bounds.of_span(trace, span) for span in trace.spans.steps] == steps
    assert bounds.of_spans(trace, next(iter(trace.spans.region_groups().values()))) == region


@pytest.mark.parametrize(
    ("length", "bound"),
    [(49_999, "host"), (50_000, "mixed"), (66_000, "mixed"), (90_000, "unknown")],
)
def test_more_than_half_idle_is_host(length: int, bound: str, tmp_path: Path) -> None:
    trace = open_made(one_kernel(2_000, length), tmp_path)
    (span,) = trace.spans.steps
    assert _idle_share(trace, span) == pytest.approx(1 - length / 100_000)
    assert bounds.of_span(trace, span) == bound


def test_work_that_outlives_its_step_stretches_it(tmp_path: Path) -> None:
    trace = open_made(one_kernel(50_000, 150_000), tmp_path)
    # nothing says that the only kernel waited in the queue: its launch is taken as quick
    assert _idle_share(trace, trace.spans.steps[0]) == pytest.approx(8 / 158)


def test_earlier_work_counts_as_busy(tmp_path: Path) -> None:
    builder = one_kernel(10_000, 190_000).step(2, 100_000, 100_000).op("aten::mm", 100_000, 5_000)
    trace = open_made(builder.launch(101_000, 500).kernel("sgemm", 200_000, 10_000), tmp_path)
    assert _idle_share(trace, trace.spans.steps[1]) == 0.0


def test_a_device_that_is_not_used_does_not_count(tmp_path: Path) -> None:
    builder = one_kernel(8_000, 92_000).op("aten::mm", 200_000, 5_000)
    trace = open_made(
        builder.launch(201_000, 500).kernel("sgemm", 250_000, 1_000, device=1), tmp_path
    )
    assert _idle_share(trace, trace.spans.steps[0]) == pytest.approx(0.08)


def test_a_stretch_without_gpu_work_is_unknown(tmp_path: Path) -> None:
    trace = open_made(one_kernel(0, 90_000).region("quiet", 40_000, 1_000), tmp_path)
    assert bounds.of_spans(trace, trace.spans.regions) == "unknown"
    assert bounds.of_spans(trace, []) == "unknown"


def test_the_run_record_of_a_capture_times_its_steps(tmp_path: Path) -> None:
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 25_000}}
    (tmp_path / "trace.run.json").write_text(json.dumps(record))
    trace = open_made(one_kernel(2_000, 20_000), tmp_path)
    time = bounds.spent(trace, trace.spans.steps[0])
    assert time is not None
    assert (time.wall_ns, time.busy_ns, time.profiled) == (25_000, 20_000, False)
    assert bounds.idle_limit_ns(trace) == 5_000
    assert not ft.look(trace).host_times_profiled


def test_of_as_many_the_step_of_median_idle_time_decides(tmp_path: Path) -> None:
    """One step waits 900 us for the host, the other 700 us in the queue, as the rules say too."""
    sketch = Sketch().step().op("aten::mul", kernel(MUL, 20)).pause(900)
    sketch.op("aten::mul", kernel(MUL, 20)).sync().step().op("aten::mul", kernel(MUL, 20))
    sketch.gpu_free += 700
    sketch.op("aten::mul", kernel(MUL, 20)).sync()
    trace = open_made(sketch, tmp_path)
    assert [bounds.of_span(trace, span) for span in trace.spans.steps] == ["host", "unknown"]
    assert bounds.of_spans(trace, trace.spans.steps) == "unknown"
