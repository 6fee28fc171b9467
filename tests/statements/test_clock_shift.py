"""What a shift of the GPU's clock changes: nothing but the times that are compared with the host's."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.check import check
from foretrace.look import summarize
from foretrace.read.kineto.assemble import APART_NS
from opened_traces import open_made
from statements.places import every, name_of

STAMPED = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def shifted(document: dict[str, Any], by_us: int) -> dict[str, Any]:
    """The trace with a GPU whose clock is late."""
    events = [
        event | {"ts": event["ts"] + by_us} if event.get("cat") in STAMPED else event
        for event in document["traceEvents"]
    ]
    return document | {"traceEvents": events}


def answers(path: Path) -> tuple[ft.Trace, dict[str, Any]]:
    """What a reader is told, apart from notes."""
    trace = ft.open(path, cache=False)
    look = summarize(trace).look
    steps = [(row.gpu_busy_ns, row.recorded_ns, row.bound) for row in look.steps]
    regions = [(row.name, row.gpu_ns_per_call, row.bound) for row in look.regions]
    idle, verdict = trace.idle, look.verdict
    return trace, {
        "bound": verdict.bound,
        "text": verdict.text,
        "first": verdict.first,
        "then": verdict.then,
        "steps": steps,
        "regions": regions,
        "idle": (idle.by_cause(), idle.window_ns),
    }


@pytest.mark.sweep(23)
@pytest.mark.parametrize("path", every(), ids=name_of)
def test_no_answer_depends_on_the_gpus_clock(path: Path, tmp_path: Path) -> None:
    own = path.with_name(path.name.replace(".json.gz", ".run.json"))
    if own.exists():
        shutil.copy(own, tmp_path / "trace.run.json")
    document = json.loads(gzip.decompress(path.read_bytes()))
    place = tmp_path / "trace.json"
    place.write_text(json.dumps(document))
    _, expected = answers(place)
    for by_us in (200, 10_000):
        place.write_text(json.dumps(shifted(document, by_us)))
        trace, found = answers(place)
        assert found == expected
        assert abs(trace.gpu.lag) <= APART_NS or "clock_offset" not in trace.ledger.counts


def half_busy() -> TraceBuilder:
    """Ten steps of 100 us, each with a kernel of 50 us on an idle GPU."""
    builder = TraceBuilder()
    for step in range(10):
        at = 100_000 * step
        builder.step(step, at, 100_000).op("aten::mm", at, 90_000).launch(at + 1_000, 5_000)
        builder.kernel("sgemm", at + 8_000, 50_000)
    return builder


@pytest.mark.parametrize(("by_us", "side"), [(200, "late"), (10_000, "late"), (-200, "early")])
def test_an_offset_is_corrected_and_stated(by_us: int, side: str, tmp_path: Path) -> None:
    """A half-busy GPU was called busy all the time once its clock was late."""
    trace = open_made(shifted(json.loads(half_busy().bytes()), by_us), tmp_path)
    assert set(trace.gpu.delay.tolist()) == {7_000}
    note = next(note for note in trace.ledger.notes if note.code == "clock_offset")
    assert side in note.text
    assert "recorded 100 us" in summarize(trace).look.verdict.text
    assert (trace.idle.window_ns, int(trace.idle.length.sum())) == (982_000, 482_000)
    assert [
        each.verdict for each in check(trace, ["gpu.time == 50 us", "step.recorded == 100 us"])
    ] == ["hit", "hit"]
