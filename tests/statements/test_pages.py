"""Statements of the first screen that were wrong once, each on the trace that showed it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from foretrace.base.tables import text as drawn
from foretrace.base.units import percent_text, time_text
from foretrace.look import summarize
from foretrace.look.documents import Overview
from foretrace.look.lines import first_screen
from foretrace.read import recordings
from foretrace.trace.intervals import shared_lengths
from look.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made, opened, overview
from statements.places import LADDER, OWN


def recorded(name: str) -> Overview:
    return overview(OWN / f"{name}.json.gz")


def lines(found: Overview) -> dict[str, str]:
    return {line.label: line.text for line in found.lines}


def detail(found: Overview, rule: str) -> str:
    return next(row.detail for row in found.look.findings if row.rule == rule)


def test_two_streams_share_the_time_in_which_both_run() -> None:
    """Matmuls 3.49 ms of a step of 3.30 ms, busy 3.23 ms here and 3.36 ms there, MFU of wall time
    above that of GPU time: two kernels ran at once.
    """
    found = recorded("streams_full_card").look
    busy = float(np.median([step.gpu_busy_ns or 0 for step in found.steps]))
    assert sum(row.time_ns for row in found.groups) == pytest.approx(busy, abs=2)
    assert found.verdict.text.startswith("GPU busy 3.23 of 3.30 ms")
    assert (found.mfu or 0) <= (found.mfu_gpu or 0)


def test_shared_time_adds_up_to_the_union() -> None:
    device = np.array([0, 0, 0, 1])
    start, end = np.array([0, 10, 20, 0]), np.array([20, 20, 30, 7])
    assert shared_lengths(device, start, end).tolist() == [15, 5, 10, 7]


@pytest.mark.parametrize("name", ["copies_pinned", "attention_decode_flash"])
def test_compiling_is_not_advised_where_it_can_hardly_help(name: str) -> None:
    """ "DO FIRST fuse with torch.compile" stood above "COMPILE can hardly help"."""
    said = lines(recorded(name))
    assert said["COMPILE"].startswith("can hardly help")
    assert "torch.compile" not in said["DO FIRST"] + said.get("THEN", "")


def test_launches_are_as_far_apart_as_the_time_says() -> None:
    """537 launches, one every 25.1 us, were 13.5 ms in a step of 9.01 ms."""
    text = recorded("gemma_eager").look.verdict.text
    match = re.search(r"of ([\d.]+) ms .* ([\d,]+) launches, one every ([\d.]+) us", text)
    assert match is not None
    wall, launches, apart = (float(each) for each in match.groups())
    assert launches * apart == pytest.approx(wall * 1e3, rel=0.01)


def test_a_graph_saves_the_idle_time_after_waits_as_well() -> None:
    """All idle time of the run record is the graph's saving, and was promised twice."""
    assert "synchronize" not in lines(recorded("gemma_compiled")).get("THEN", "")


def test_plans_of_cudnn_are_not_dispatch() -> None:
    """ "torch.compile(model): 57.1 ms to about 243 us": 55 ms were cuDNN's plans for new shapes."""
    assert "plans for new shapes" in lines(recorded("steps_drift_growing_cache"))["DO FIRST"]


def test_a_generated_kernel_converts_no_weights() -> None:
    """It reads a float32 table that has the shape of an operand of a matmul."""
    assert "16 bit" not in lines(recorded("gemma_compiled"))["DO FIRST"]


def test_views_inside_a_capture_are_not_repeated() -> None:
    """ "Resolve views once with torch.compile": the capture of a graph does."""
    found = recorded("graph_capture_in_steps")
    assert "views" not in lines(found)["DO FIRST"]
    assert "  " not in detail(found, "bias_epilogue")


def test_a_pageable_copy_has_one_time_and_one_rate() -> None:
    """8.33 GB/s in the table, 8.2 GB/s in the finding; 33.0 ms saved of a copy of 32.2 ms."""
    found = recorded("copies_pageable").look
    copy = found.groups[0]
    assert copy.limited_by == "8.33 GB/s, pageable"
    (finding,) = [row for row in found.findings if row.rule == "pageable_copies"]
    assert finding.evidence["gb_per_s"] == 8.33
    assert finding.evidence["ns"] == copy.time_ns
    assert (finding.at_most_ns or 0) < found.steps[0].gpu_busy_ns  # type: ignore[operator]


def test_compiling_with_graphs_is_what_saves_dispatch_and_kernels() -> None:
    """A graph alone cannot save 560 us where the GPU is idle for 501 us."""
    (path,) = LADDER.glob("mlp_liger_64x128*_backward_bf16.json.gz")
    first = lines(overview(path))["DO FIRST"]
    assert first.startswith("CUDA graph (torch.cuda.make_graphed_callables)")


def test_one_name_has_one_time_on_a_screen() -> None:
    """DO FIRST gave 25.9 ms for `mode="reduce-overhead"`, and COMPILE 19.3 ms: the first was that
    of the graph alone.
    """
    found = lines(overview("llama_train_eager"))
    assert "reduce-overhead" not in found["DO FIRST"]
    assert "about 25.9 ms" in found["DO FIRST"]
    assert 'about 19.3 ms with mode="reduce-overhead"' in found["COMPILE"]
    assert found["THEN"].endswith("about 19.3 ms")


@pytest.mark.parametrize("name", ["model_llama_*", "train_step_fused_*"])
def test_the_mode_with_graphs_fuses_too(name: str) -> None:
    """ "18.4 ms with torch.compile, 30.0 ms with reduce-overhead": the graph alone, without fusing.

    In the first the compiler is the first fix, in the second the graph is.
    """
    (path,) = LADDER.glob(f"{name}_bf16.json.gz")
    found = overview(path)
    fixes = {each.name: each for each in found.look.fixes}
    both, graph = fixes["cuda_graph"].compiled_ns, fixes["cuda_graph"].ns
    assert f'about {time_text(both)} with mode="reduce-overhead"' in lines(found)["COMPILE"]
    assert (both or 0) < min(graph, fixes["compile"].ns)
    assert both in (fixes["cuda_graph"].after_ns, fixes["compile"].after_ns)  # as THEN has it


def test_the_table_of_a_recording_says_so() -> None:
    """Its title was cut to "GPU in the"."""
    trace = opened(OWN / "graph_capture.json.gz")
    assert "GPU in the recording" in drawn(first_screen(summarize(trace), 80), width=80)


def test_the_matmuls_of_experts_are_not_plain_matmuls(tmp_path: Path) -> None:
    """Most of a mixture-of-experts step was "GEMM": the author calls them experts."""
    names = ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", GEMM)
    sketch = Sketch().step()
    for name in names:
        sketch.op("aten::mm", kernel(name, 20))
    found = open_made(sketch, tmp_path).work_groups
    assert sorted(str(name) for name in found) == ["GEMM", "MoE GEMM"]


def test_a_graph_of_eager_kernels_is_worth_compiling() -> None:
    """Casts of 30 us came first where RMSNorm and RoPE are 468 us of fusable kernels. The bound
    holds for the step that was compiled.
    """
    found = recorded("llama_decode_cuda_graph")
    assert lines(found)["DO FIRST"].startswith("fuse with torch.compile: ")
    assert "THEN" not in lines(found)  # the casts are among these kernels
    (row,) = [each for each in found.look.findings if each.rule == "fusable_in_graphs"]
    compiled = opened(recordings.decoding()["llama_decode_reduce_overhead"])
    after = compiled.spans.median_busy(compiled.spans.steps) or 0
    before = float(np.median([step.gpu_busy_ns or 0 for step in found.look.steps]))
    assert before - after <= (row.at_most_ns or 0) < before


def test_a_short_kernel_is_not_a_large_one() -> None:
    """ "1 large kernel with low occupancy": a fill of 800 ns."""
    found = recorded("graph_capture").look.findings
    assert all(row.state != "found" for row in found if row.rule == "low_occupancy")


def test_launches_of_two_steps_are_not_neighbours() -> None:
    """Launches were 79.6 us apart in the finding, 70.6 us within a step."""
    trace = opened(LADDER / "model_llama_4x512x4x768x12x3072x32000_bf16.json.gz")
    (row,) = [each for each in summarize(trace).look.findings if each.rule == "launch_bound"]
    starts = [
        np.sort(trace.host.start[np.unique(trace.gpu.launch[work[trace.gpu.is_kernel[work]]])])
        for work in (span.work for span in trace.spans.steps)
    ]
    inside = np.concatenate([np.diff(start) for start in starts])
    assert row.evidence["launch_interval_ns"] == int(np.median(inside))


def test_idle_time_without_the_profiler_is_that_of_the_record() -> None:
    """A title said "without the profiler for at most 0.0%" above a detail of 146 us."""
    found = recorded("llama_decode_cuda_graph").look
    (row,) = [each for each in found.findings if each.rule == "idle_gaps"]
    assert "without the profiler for at most 12.5%" in row.title
    assert "(87.5%)" in found.verdict.text


def test_a_little_is_not_nothing() -> None:
    """ "GPU busy 4.86 us of 55.2 ms (0.0%)"."""
    assert [percent_text(part) for part in (0.0, 0.0001, 0.0005)] == ["0.0%", "<0.1%", "0.1%"]
