from __future__ import annotations

import foretrace as ft
from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel
from foretrace.model.replay import NOTHING
from foretrace.read import recordings


def test_a_finding_becomes_shorter_kernels(fix: FixUnderTest) -> None:
    trace = ft.open(recordings.ladder()["attention_naive_8x16x1024x64_bf16"])
    (found,) = [each for each in fix.found(trace)[1] if "torch.where" in each.order]
    assert found.best is not None
    assert found.worst == NOTHING
    gpu = trace.gpu.length
    for row, ns in found.best.length.items():
        assert ns < found.change.length[row] < gpu[row]


def test_a_step_without_findings_has_none(fix: FixUnderTest) -> None:
    def plain(sketch: Sketch) -> None:
        sketch.op("aten::mm", kernel(GEMM, 100), dims=[[64, 64], [64, 64]])

    fix.stays(plain)
