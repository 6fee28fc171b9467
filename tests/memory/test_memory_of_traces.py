"""The memory events of a trace, read as a history of the allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.builder import TraceBuilder
from foretrace.base.errors import TraceError
from foretrace.check import check
from foretrace.memory.from_trace import HOST, snapshot_of_trace
from foretrace.trace.allocator.categories import CATEGORIES
from foretrace.trace.allocator.view import MemoryView
from foretrace.trace.trace import Trace
from foretrace.trace.traced_memory import over_time
from memory.test_memory import Allocator, step
from opened_traces import open_made


def view_of(trace: Trace) -> MemoryView:
    snapshot = snapshot_of_trace(trace, "t.json")
    return MemoryView(snapshot, snapshot.histories[0])


def test_live_bytes_are_the_totals_of_the_profiler(tmp_path: Path) -> None:
    trace = step(tmp_path)
    view = view_of(trace)
    assert view.curve.tolist() == over_time(trace)[0].allocated.tolist()
    assert view.peak_bytes == 3_816
    # 300 bytes of the 1,000 are freed by the trace
    earlier = [int(view.lives.size[row]) for row in view.holders if view.lives.before[row]]
    assert sorted(earlier) == [300, 700]


def test_a_training_step_has_passes_without_python_functions(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op("aten::mm", 100, 800)
    built.op("autograd::engine::evaluate_function: MmBackward0", 1_000, 900)
    built.op("aten::mm", 1_100, 700).op("aten::mul", 1_820, 60)
    built.host("user_annotation", "Optimizer.step#AdamW.step", 2_000, 900)
    built.op("aten::sqrt", 2_100, 500)
    built.op("aten::mm", 5_000, 800)
    written = Allocator(built)
    written.event(200, 1, 512)  # an activation
    written.event(1_200, 2, 256).event(1_300, 1, -512).event(1_830, 4, 128).event(1_840, 4, -128)
    written.event(2_200, 3, 64).event(2_300, 3, -64).event(5_100, 5, 32).event(5_200, 2, -256)
    view = view_of(open_made(built, tmp_path))
    found = {int(a): CATEGORIES[c] for a, c in zip(view.lives.addr, view.category, strict=True)}
    assert found[1] == "activations"
    assert found[2] == "gradients"
    assert found[3] == found[4] == "temporaries"
    assert view.line(0) == "aten::mm in the forward pass"
    assert len(view.facts.optimizes) == 1


def test_a_cpu_is_read_where_no_gpu_has_events(tmp_path: Path) -> None:
    built = TraceBuilder().op("aten::mm", 0, 5_000)
    Allocator(built).event(100, 1, 512)
    for event in built.events:
        if event["name"] == "[memory]":
            event["args"] |= {"Device Type": 0, "Device Id": -1}
    trace = open_made(built, tmp_path)
    snapshot = snapshot_of_trace(trace, "t.json")
    assert (snapshot.histories[0].device, snapshot.card) == (HOST, "CPU")
    [answer] = check(trace, "peak < 1 GB")
    assert (answer.verdict, "only those of a CPU" in answer.why) == ("unknown", True)


def test_a_trace_without_memory_events_says_how_to_record_them(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="record --memory"):
        snapshot_of_trace(open_made(TraceBuilder().op("aten::mm", 0, 5_000), tmp_path), "t.json")
