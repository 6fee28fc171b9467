"""The document of `look`: GPU time by op, and one author of every sentence in all forms."""

from __future__ import annotations

import gzip
import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

import foretrace as ft
from analyze.rules.sketch import GEMM, MUL, Sketch, kernel, memcpy
from corpus.build import cut, gn
from foretrace.read import recordings
from foretrace.read.recordings import folder
from foretrace.schema.documents.look import FixEntry, StepTime
from foretrace.show.html import notebook, report
from foretrace.show.overview import summarize
from foretrace.show.overview.measured_step import measured
from foretrace.show.overview.page import Overview
from foretrace.show.overview.predictions import code_in, first_text, whatif, without_profiler
from foretrace.show.overview.reading import overview_of
from foretrace.show.overview.sentences import headline, verdict
from foretrace.show.render.look_page import first_screen
from foretrace.show.render.terminal import drawn, marked
from opened_traces import open_made, opened, overview

PATH = folder("h200") / "ladder" / "mlp_eager_64x128x768x3072_bf16.json.gz"


def test_ops_have_the_gpu_time_launched_below_them() -> None:
    rows = {row.name: row.gpu_ns for row in overview_of(str(PATH), cache=False).look.ops}
    events = json.loads(gzip.decompress(PATH.read_bytes()))["traceEvents"]
    kernels = [event for event in events if event.get("cat") in ("kernel", "gpu_memset")]
    pointwise = {"gelu": "aten::gelu", "Mul": "aten::mul"}
    spent = dict.fromkeys(["aten::mm", *pointwise.values()], 0)
    for event in kernels:
        found = (op for word, op in pointwise.items() if word.lower() in event["name"].lower())
        spent[next(found, "aten::mm")] += round(event["dur"] * 1000)
    assert {name: rows[name] for name in spent} == spent
    assert rows["aten::linear"] == rows["aten::matmul"] == rows["aten::mm"]
    assert rows["aten::t"] == 0


NAMES = ("linear_eager", "mlp_eager", "mlp_compiled", "mlp_eager_train", "llama_train_eager")


def shown_everywhere(trace: ft.Trace, found: Overview) -> list[str]:
    """The sentences, after a check that each form shows them in this order and no other summary."""
    page, said, head = first_screen(found), found.look.sentences, headline(found.look)
    for text in (drawn(page), re.sub(r"\\(.)", r"\1", marked(page)).replace("**", "")):
        flat = " ".join(text.split())
        places = [flat.index(line.text) for line in found.lines]
        assert places == sorted(places)
        assert found.notes in flat
        assert head in flat
    data = re.search(r'id="data">(.*?)</script>', report([trace]), re.DOTALL)
    assert data is not None
    shown = json.loads(data[1])["traces"][0]
    story = [f"{line['label']}: {line['text']}" for line in shown["story"]]
    assert shown["headline"] == head
    assert [*story, *filter(None, [shown["notes"]])] == said
    for text in (notebook.trace_html(trace), notebook.look_html(found.look)):
        assert head in html.unescape(text)
        assert said == [
            line for line in html.unescape(text).replace("<p>", "").split("</p>") if line in said
        ]
    return said


@pytest.mark.parametrize("name", NAMES)
def test_the_same_sentences_in_every_form(name: str) -> None:
    path = recordings.traces()[name]
    said = shown_everywhere(opened(path), overview(path))
    assert len(said) > 2
    assert not any(line.startswith("TRUST") for line in said)  # a sound recording


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
    found, step = whatif(trace, []).step, summarize(trace).look.composition
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
    assert whatif(trace, []).reason == "needs shapes: record with record_shapes=True"
    shaped = sketch.op("aten::mm", dims=[[8, 8], [8, 8]])
    assert whatif(open_made(shaped, tmp_path), []).reason == ""


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_a_bound_comes_first_where_no_fix_is_predicted(tmp_path: Path) -> None:
    """`no known fix shortens this` stood beside 600 us of collectives that overlap with nothing."""
    sketch = Sketch()
    for _ in range(3):
        sketch.step().op("aten::mm", kernel(GEMM, 200), us=5, dims=[[4096, 4096]] * 2)
        sketch.op("record_param_comms", kernel(NCCL, 600), us=5).sync()
    trace = open_made(sketch, tmp_path)
    found = summarize(trace).look
    found.fixes = []  # as where the replay has what follows a collective wait for something else
    said = verdict(measured(trace), found).first
    assert said.startswith("overlap the collectives with computation: 600 us of communication")
    assert said.endswith("saves at most 600 us")


def test_the_reason_why_a_step_is_not_replayed_is_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretrace.analyze.fixes.MOST_WRONG", -1)

    def reason(sketch: Sketch) -> str:
        return whatif(open_made(sketch, tmp_path), []).reason.partition(": ")[2]

    unlinked = Sketch().step().stray(kernel(MUL, 20)).op("aten::t")
    assert reason(unlinked) == "it needs launches, GPU work and one clock"
    whole = Sketch().step().op("aten::mul", kernel(MUL, 20))
    assert reason(whole) == "the replay does not give the recorded time"
    told = " ".join(line.text for line in summarize(open_made(whole, tmp_path)).lines)
    assert "no step can be replayed, so no fix is predicted (foretrace look TRACE --fixes)" in told


def test_a_step_that_outlasts_the_recording_is_replayed_to_its_end(tmp_path: Path) -> None:
    sketch = Sketch().step().op("aten::mul", kernel(MUL, 20)).pause(200)
    sketch.op("aten::mul", kernel(MUL, 20)).sync().pause(10_000_000)
    found = whatif(open_made(sketch, tmp_path), []).step
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


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("torch.compile(model)", "model = torch.compile(model)"),
        (
            "CUDA graph (torch.cuda.make_graphed_callables)",
            "model = torch.cuda.make_graphed_callables(model, (x,))",
        ),
        (
            "add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x",
            "F.one_hot(index, n).to(x.dtype).T @ x",
        ),
        ("write into a preallocated cache: cache[:, :, t] = k", "cache[:, :, t] = k"),
        ("use memory_format=torch.channels_last for x", "memory_format=torch.channels_last"),
        ("remove torch.cuda.empty_cache() from the step", ""),
        ("pad 50257 to 50304, a multiple of 64", ""),
    ],
)
def test_an_order_has_the_code_to_copy(order: str, code: str) -> None:
    assert code_in(order) == code


@pytest.mark.parametrize("name", ["llama_train_eager", "mlp_compiled"])
def test_a_step_consists_of_roles_and_causes(name: str) -> None:
    document = overview(recordings.traces()[name]).look
    made = document.composition
    assert made is not None
    assert made.per == "per step"
    busy = [part for part in made.parts if part.kind == "busy"]
    idle = [part for part in made.parts if part.kind == "idle"]
    groups = sum(row.time_ns for row in document.groups)
    assert sum(part.ns for part in busy) == pytest.approx(groups, abs=len(document.groups))
    assert sum(part.ns for part in busy + idle) == pytest.approx(made.wall_ns)
    assert {part.name for part in busy} >= {"gemm", "pointwise"}
    assert idle[0].name == "launch"
