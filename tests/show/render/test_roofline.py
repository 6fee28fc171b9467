"""The roofline of a terminal, and what is said of kernels above HBM."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import foretrace
from foretrace.names import devices
from foretrace.read import recordings
from foretrace.schema.documents.look import Look
from foretrace.show.html.timeline import Timeline
from foretrace.show.html.trace_facts import facts
from foretrace.show.html.view_data import matmuls_on_map
from foretrace.show.overview import look, summarize
from foretrace.show.overview.look_document import roofs_entry
from foretrace.show.render.look_page import sections
from foretrace.show.render.roofs_page import COLUMNS, cached_lines, roofline, roofs_text
from foretrace.show.render.terminal import drawn
from statements.places import ladder

GEMMA = "model_gemma_4x512x4x768x12x3072x32000"


@pytest.fixture(scope="module")
def gemma() -> Look:
    return look(ladder(GEMMA))


def test_the_kernel_from_l2_lies_between_the_slopes(gemma: Look) -> None:
    assert gemma.roofs is not None
    plot, rows = roofline(gemma.kernels, gemma.roofs)
    assert plot.endswith("/ HBM   . L2   - bf16")
    (row,) = [row for row in rows if row[3].startswith("from L2: mm wrote")]
    assert row[1:3] == ["mul bf16", "2.6%"]
    assert sum(line.count(row[0]) for line in plot.split("\n") if "|" in line) == 1
    assert all(len(line) <= COLUMNS + 9 for line in plot.split("\n"))


def test_without_l2_one_slope(gemma: Look) -> None:
    assert gemma.roofs is not None
    plot, _ = roofline(gemma.kernels, replace(gemma.roofs, l2_gbps=None))
    assert plot.endswith("/ HBM   - bf16")
    assert roofline([], gemma.roofs) == ("", [])


def test_why_a_kernel_is_faster_than_hbm(gemma: Look) -> None:
    ((fact, why),) = cached_lines(gemma)
    assert fact == "mul bf16: 37.7 MB in 7.31 us is 5.16 TB/s, above the 4.71 TB/s of HBM"
    assert why == (
        "mm wrote 12.6 MB, the size of its input [4, 512, 3072] bf16, 12.4 us before, with nothing "
        "moved in between; gelu wrote 12.6 MB, the size of its input [4, 512, 3072] bf16, 83.2 us "
        "before, with 20.4 MB moved in between. That fits in L2 (62.9 MB), which gives up to "
        "8.93 TB/s. The trace shows sizes and order, not that it is the same tensor."
    )
    page = drawn(sections(summarize(ladder(GEMMA)), ["kernels"], 3))
    assert fact in page
    assert "HBM 4.71 TB/s, L2 8.93 TB/s, 894.3 TFLOP/s of bf16, as measured" in page


def test_a_gpu_that_was_not_measured_says_so() -> None:
    roofs = roofs_entry(devices.find("NVIDIA B200"))
    assert roofs is not None
    assert (roofs.l2_gbps, roofs.measured) == (None, False)
    said = roofs_text(roofs)
    assert said.startswith("HBM 7.70 TB/s, 2250 TFLOP/s of bf16, by the NVIDIA Blackwell datasheet")
    assert said.endswith(
        "the rate of L2 is not known: `foretrace lab roofs` on such a GPU measures it"
    )
    assert roofs_entry(None) is None


def test_the_report_has_three_roofs() -> None:
    roofs = facts(ladder(GEMMA), "", Timeline(ladder(GEMMA)).outline(0)).look.roofs
    assert roofs is not None
    assert (roofs.hbm_gbps, roofs.l2_gbps, roofs.measured) == (4709, 8925, True)
    assert roofs.tflops["fp32"] == 66.9, "no unit alone was measured: the datasheet's"
    assert ("fp32" in roofs.datasheet, "bf16" in roofs.datasheet) == (True, False)


def _trace(name: str) -> foretrace.Trace:
    return foretrace.open(str(recordings.find(name)), cache=False)


def test_matmuls_lie_in_the_plane_of_their_kind() -> None:
    found = matmuls_on_map(_trace("mlp_eager"))
    assert found is not None
    assert (found.plane.dtype, found.plane.layout) == ("bf16", "tn")
    assert {(mark.m, mark.n) for mark in found.marks} == {(8192, 3072), (8192, 768)}
    assert [row[0] for row in found.rows] == ["8192x3072x768 tn bf16", "8192x768x3072 tn bf16"]
    assert {row[4] for row in found.rows} == {"the same"}


def test_a_matmul_that_was_not_measured_is_beside_the_nearest() -> None:
    found = matmuls_on_map(_trace("llama_train_eager"))
    assert found is not None
    kernels = {row[0]: row[4] for row in found.rows}
    assert kernels["4096x1024x1024 tn bf16"] == "the same"
    assert kernels["2816x1024x4096 nt bf16"] == "nearest: nvjet 128x192x64 nt bf16"
