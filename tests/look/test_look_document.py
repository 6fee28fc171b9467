"""The document of `look`: GPU time by op, and one author of every sentence in all forms."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

import foretrace as ft
from corpus.build import cut, gn
from foretrace.base.tables import marked
from foretrace.base.tables import text as drawn
from foretrace.look import fixes, summarize
from foretrace.look.documents import FixEntry, Overview, StepTime
from foretrace.look.lines import first_screen, first_text, headline
from foretrace.look.measured_step import measured
from foretrace.look.savings import predict_fixes, without_profiler
from foretrace.pages import notebook, report
from look.rules.sketch import GEMM, MUL, Sketch, kernel, memcpy
from opened_traces import open_made


def shown_everywhere(trace: ft.Trace, found: Overview) -> list[str]:
    """The sentences, after a check that each form shows them in this order and no other summary."""
    page, said, head = first_screen(found), found.sentences, headline(found.look)
    for text in (drawn(page), re.sub(r"\\(.)", r"\1", marked(page)).replace("**", "")):
        flat = " ".join(text.split())
        places = [flat.index(line.text) for line in found.lines]
        assert places == sorted(places)
        assert found.notes in flat
        assert head in flat
    data = re.search(r'id="data">(.*?)</script>', report([trace]), re.DOTALL)
    assert data is not None
    shown = json.loads(data[1])["traces"][0]
    top = shown["findings"][0]
    story = [f"{label}: {text}" for label, text, _ in top["lines"]]
    assert shown["headline"] == head
    assert [*story, *filter(None, [top.get("more")])] == said
    for text in (notebook.trace_html(trace), notebook.look_html(found.look)):
        assert head in html.unescape(text)
        assert said == [
            line for line in html.unescape(text).replace("<p>", "").split("</p>") if line in said
        ]
    return said


def test_an_incomplete_trace_says_so_in_every_form(tmp_path: Path) -> None:
    whole = gn(50).bytes()
    (tmp_path / "cut.json").write_bytes(cut(whole, len(whole) // 2))
    trace = ft.open(tmp_path / "cut.json", cache=False)
    said = shown_everywhere(trace, summarize(trace))
    assert said[0].startswith("TRUST: the input ends inside the document")


def test_a_recording_without_steps_that_the_profiler_made_host_bound(tmp_path: Path) -> None:
    sketch = Sketch().op("aten::mul", kernel(MUL, 20)).pause(100).op("aten::mul", kernel(MUL, 20))
    trace = open_made(sketch, tmp_path)
    step = measured(trace)
    assert step is not None
    assert (step.bound, step.spans) == ("host", [])
    future: Any = SimpleNamespace(now_ns=1.2 * step.busy_ns, recorded_ns=step.wall_ns)
    assert without_profiler(trace, step, future).bound == "unknown"  # that of its kernels


def test_look_and_whatif_give_one_time(tmp_path: Path) -> None:
    """Without steps it goes from the first launch to the last GPU operation; with steps it is that
    of the one that is replayed. What the host does before and after counts for neither.
    """
    sketch = Sketch().host("cpu_op", "aten::empty", 5_000)
    for _ in range(3):
        sketch.op("aten::mul", kernel(MUL, 20)).pause(100)
    trace = open_made(sketch.host("cpu_op", "aten::empty", 3_000), tmp_path)
    found, step = predict_fixes(trace, []).step, summarize(trace).look.composition
    assert found is not None
    assert step is not None
    assert step.per == "in the recording"
    assert step.wall_ns == found.recorded_ns == 247_000


def test_times_of_several_gpus_are_sums(tmp_path: Path) -> None:
    trace = open_made(Sketch().step().op("aten::mul", kernel(MUL, 400), us=600), tmp_path)
    step = measured(trace)
    assert step is not None
    both = replace(step, devices=2, wall_ns=1_400_000, busy_ns=800_000)
    future: Any = SimpleNamespace(now_ns=500_000, recorded_ns=700_000)
    shown = without_profiler(trace, both, future)
    assert (shown.wall_ns, shown.recorded_ns, shown.busy_share) == (1_000_000, 1_400_000, 0.8)


def test_no_fix_is_denied_that_could_not_look(tmp_path: Path) -> None:
    sketch = Sketch().step().op("aten::mm", kernel(GEMM, 500), us=20).step()
    trace = open_made(sketch.op("aten::mm", kernel(GEMM, 500), us=20), tmp_path)
    said = "record with record_shapes=True: most fixes need shapes"
    assert any(line.text.startswith(said) for line in summarize(trace).lines)
    assert predict_fixes(trace, []).reason == "needs shapes: record with record_shapes=True"
    shaped = sketch.op("aten::mm", dims=[[8, 8], [8, 8]])
    assert predict_fixes(open_made(shaped, tmp_path), []).reason == ""


def test_the_reason_why_a_step_is_not_replayed_is_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixes, "MOST_WRONG", -1)

    def reason(sketch: Sketch) -> str:
        return predict_fixes(open_made(sketch, tmp_path), []).reason.partition(": ")[2]

    unlinked = Sketch().step().stray(kernel(MUL, 20)).op("aten::t")
    assert reason(unlinked) == "it needs launches, GPU work and one clock"
    whole = Sketch().step().op("aten::mul", kernel(MUL, 20))
    assert reason(whole) == "the replay does not give the recorded time"
    told = " ".join(line.text for line in summarize(open_made(whole, tmp_path)).lines)
    assert "no step can be replayed, so no fix is predicted (foretrace look --fixes)" in told


def test_a_step_that_outlasts_the_recording_is_replayed_to_its_end(tmp_path: Path) -> None:
    sketch = Sketch().step().op("aten::mul", kernel(MUL, 20)).pause(200)
    sketch.op("aten::mul", kernel(MUL, 20)).sync().pause(10_000_000)
    found = predict_fixes(open_made(sketch, tmp_path), []).step
    assert found is not None
    assert found.recorded_ns == 242_000


def test_most_steps_without_a_kernel_beside_a_run_record(tmp_path: Path) -> None:
    sketch = Sketch()
    for kernels in (0, 0, 4):
        sketch = sketch.step().op("aten::copy_", memcpy("Memcpy DtoD (Device -> Device)", 5, 4096))
        for _ in range(kernels):
            sketch = sketch.op("aten::mul", kernel(MUL, 20))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(sketch.document()))
    record = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 100_000.0}}
    (tmp_path / "trace.run.json").write_text(json.dumps(record))
    step = measured(ft.open(path, cache=False))
    assert step is not None
    assert (step.profiled, step.launches, step.apart_ns) == (False, 0, None)


@pytest.mark.parametrize(
    ("ns", "now"),
    [
        (34_400_000, "34.4 ms without the profiler to"),  # the verdict says the recorded 35.2 ms
        (35_190_000, "; 35.2 ms to"),
        (30_000_000, "; 30.0 ms to"),  # the verdict says this one
    ],
)
def test_a_time_that_the_verdict_does_not_give_is_explained(ns: float, now: str) -> None:
    step = StepTime(35_200_000, 35_000_000, ns, ns, ns)
    fix = FixEntry("compile", "torch.compile(model)", "why", 16e6, 15e6, 25e6)
    assert now in first_text(step, fix)
