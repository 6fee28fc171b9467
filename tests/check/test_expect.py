"""The same predictions in Python."""

from __future__ import annotations

import foretrace as ft
from foretrace.check import check
from foretrace.trace.trace import Trace


def test_said_in_python(mlp: Trace, compiled: Trace) -> None:
    expect = ft.expect(mlp, against=compiled)
    region = expect.region("mlp_fwd")
    assert region.kernels == 5
    assert region.gemm == 3
    assert region.pointwise <= 2
    assert region.memcpy != 1
    assert expect.each_step.sync == 0
    assert expect.step(2).kernels > 4
    assert expect.launches < 50
    assert expect.kernels >= 15
    assert region.count("aten::linear") == 3
    assert expect.op("aten::linear").count("distinct ops") == 9
    assert region.order("gemm", "gelu", "gemm", "mul", "gemm")
    assert expect.every("gemm").has("layout", "tn")
    assert expect.some("gemm").has("tile", "256x128")
    assert expect.no("gemm").are("fp32 gemm")
    assert expect.every("gemm").launched_by("cuLaunchKernelEx")
    assert region.bound("compute")
    assert region.gpu_idle < "60%"
    assert region.time() < "300 us"
    assert region.time("last gemm") < "55 us"
    assert region.same("gemm kernels")
    assert expect("in mlp_fwd: kernels == 5")


def test_a_miss_is_false_and_shows_what_was_measured(mlp: Trace) -> None:
    answer = ft.expect(mlp).region("mlp_fwd").fused("gelu", "mul")
    assert not answer
    assert answer.verdict == "miss"
    assert answer.text == "in mlp_fwd: gelu and mul are fused"
    assert "separate kernels" in repr(answer)
    assert "aten::gelu" in repr(answer)


def test_the_text_is_the_same_prediction(mlp: Trace) -> None:
    answer = ft.expect(mlp).region("mlp_fwd").kernels == 4
    [verdict] = check(mlp, "in mlp_fwd: kernels == 4")
    assert (answer.text, answer.measured, answer.slice) == (
        verdict.text,
        verdict.measured,
        verdict.slice,
    )
