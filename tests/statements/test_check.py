"""Verdicts of `check` that were wrong once, each with the kind of trace it was wrong on."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.cli import main
from foretrace.look import summarize
from opened_traces import open_made
from statements.places import LADDER, OWN, ladder

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
CUTLASS = "cutlass_80_simt_sgemm_128x32_8x5_nn_align1"
PREPARES = "triton_poi_fused__to_copy_add_bmm_expand_mul_0"
CLAMP = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
    "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
    "at::native::detail::ClampLimits)::{lambda()#1}::operator()() const::{lambda(float)#1}, "
    "std::array<char*, 2ul> >(int, float, std::array<char*, 2ul>)"
)


def verdicts(trace: ft.Trace, *texts: str) -> list[str]:
    return [verdict.verdict for verdict in ft.check(trace, texts)]


def _compiled() -> TraceBuilder:
    """A pointwise kernel that prepares the input of a matmul, and the matmul."""
    builder = TraceBuilder().step(1, 0, 100_000)
    builder.op(PREPARES, 0, 10_000).launch(1_000, 500).kernel(PREPARES, 5_000, 3_000)
    builder.op("aten::bmm", 20_000, 10_000).launch(21_000, 500).kernel(CUTLASS, 30_000, 9_000)
    return builder


def test_an_origin_is_not_fused(tmp_path: Path) -> None:
    """`bmm and add are fused` hit because Inductor's pointwise kernel lists bmm as an origin."""
    trace = open_made(_compiled(), tmp_path)
    assert verdicts(trace, "fused(bmm, add)", "fused(mul, add)") == ["miss", "hit"]


def test_an_origin_is_not_fused_in_a_recorded_model() -> None:
    """The same on a compiled Llama: attention ran in cuDNN, matmuls in nvjet and CUTLASS."""
    trace = ladder("model_compiled_4x512x4x768x12x3072x32000")
    assert verdicts(
        trace,
        "fused(bmm, add)",
        "fused(_scaled_dot_product_cudnn_attention, add)",
        "fused(silu, mul)",
    ) == ["miss", "miss", "hit"]


def test_a_pointwise_kernel_is_no_matmul(tmp_path: Path) -> None:
    """`per step: matmul == 44` counted 30 pointwise kernels as matmuls."""
    trace = open_made(_compiled(), tmp_path)
    assert verdicts(trace, "count(matmul) == 1", "count(bmm) == 1") == ["hit", "hit"]
    llama = ladder("model_compiled_4x512x4x768x12x3072x32000")
    assert verdicts(llama, "count(matmul) == 30", "count(gemm) == 30") == ["hit", "hit"]


def test_a_kernel_that_look_calls_relu_does_relu(tmp_path: Path) -> None:
    """`relu and addmm are not fused` missed: "no kernel does relu"."""
    builder = TraceBuilder().op("aten::addmm", 0, 10_000).launch(1_000, 500)
    builder.kernel(GEMM, 5_000, 9_000)
    builder.op("aten::relu", 20_000, 10_000).op("aten::clamp_min", 21_000, 8_000)
    builder.launch(22_000, 500).kernel(CLAMP, 30_000, 3_000)
    trace = open_made(builder, tmp_path)
    texts = ("not fused(relu, addmm)", "fused(relu, gemm)", "total.count(relu) == 1")
    assert verdicts(trace, *texts) == ["hit", "miss", "hit"]


def test_work_from_before_the_recording_belongs_to_no_step(tmp_path: Path) -> None:
    """`per step: kernels == 5` was unknown for unlinked kernels at the start of the stream."""
    builder = TraceBuilder().step(1, 0, 100_000)
    builder.kernel(GEMM, 1_000, 5_000, correlation=9_999)
    for at in range(5):
        builder.op("aten::mm", 10_000 + at * 1_000, 900).launch(10_100 + at * 1_000, 500)
        builder.kernel(GEMM, 20_000 + at * 10_000, 9_000)
    assert verdicts(open_made(builder, tmp_path), "kernels == 5") == ["hit"]


def test_a_region_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`in mlp_typo: kernels == 4` was unknown with exit 0."""
    path = str(LADDER / "mlp_eager_64x128x768x3072_bf16.json.gz")
    for place, there in (("mlp_typo", "it has mlp_fwd"), ("step 99", "it has ")):
        assert main(["check", path, f"in {place}: kernels == 4", "--no-cache"]) == 2
        assert there in capsys.readouterr().out


def test_modules_are_places() -> None:
    """`in module LlamaMLP: …`: modules are recorded, and a check did not know them."""
    trace = ft.open(OWN / "llama_train_modules.json.gz", cache=False)
    texts = (
        "in module LlamaMLP: count(gemm) == 3",
        "in module LlamaMLP_0: kernels == 5",
        "in module LlamaRMSNorm: count(gemm) == 0",
    )
    assert verdicts(trace, *texts) == ["hit"] * 3


def test_idle_between_is_idle() -> None:
    """Two streams: "idle between 1.50 ms" of a step while the work of the step before ran."""
    steps = summarize(ft.open(OWN / "streams_full_card.json.gz", cache=False)).look.steps
    assert [step.gpu_idle_ns for step in steps] == [0, 0, 0]
