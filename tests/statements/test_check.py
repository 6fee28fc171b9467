"""Verdicts of `check` that were wrong once, each with the kind of trace it was wrong on."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.base.units import time_text
from foretrace.cli import main
from foretrace.look import summarize
from look.rules.sketch import Sketch
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
    assert verdicts(trace, "bmm and add are fused", "mul and add are fused") == ["miss", "hit"]


def test_an_origin_is_not_fused_in_a_recorded_model() -> None:
    """The same on a compiled Llama: attention ran in cuDNN, matmuls in nvjet and CUTLASS."""
    trace = ladder("model_compiled_4x512x4x768x12x3072x32000")
    assert verdicts(
        trace,
        "bmm and add are fused",
        "_scaled_dot_product_cudnn_attention and add are fused",
        "silu and mul are fused",
    ) == ["miss", "miss", "hit"]


def test_a_pointwise_kernel_is_no_matmul(tmp_path: Path) -> None:
    """`per step: matmul == 44` counted 30 pointwise kernels as matmuls."""
    trace = open_made(_compiled(), tmp_path)
    assert verdicts(trace, "per step: matmul == 1", "per step: bmm == 1") == ["hit", "hit"]
    llama = ladder("model_compiled_4x512x4x768x12x3072x32000")
    assert verdicts(llama, "per step: matmul == 30", "per step: gemm == 30") == ["hit", "hit"]


def test_a_kernel_that_look_calls_relu_does_relu(tmp_path: Path) -> None:
    """`relu and addmm are not fused` missed: "no kernel does relu"."""
    builder = TraceBuilder().op("aten::addmm", 0, 10_000).launch(1_000, 500)
    builder.kernel(GEMM, 5_000, 9_000)
    builder.op("aten::relu", 20_000, 10_000).op("aten::clamp_min", 21_000, 8_000)
    builder.launch(22_000, 500).kernel(CLAMP, 30_000, 3_000)
    trace = open_made(builder, tmp_path)
    texts = ("relu and addmm are not fused", "relu is fused into the gemm", "relu == 1")
    assert verdicts(trace, *texts) == ["hit", "miss", "hit"]


def test_work_from_before_the_recording_belongs_to_no_step(tmp_path: Path) -> None:
    """`per step: kernels == 5` was unknown for unlinked kernels at the start of the stream."""
    builder = TraceBuilder().step(1, 0, 100_000)
    builder.kernel(GEMM, 1_000, 5_000, correlation=9_999)
    for at in range(5):
        builder.op("aten::mm", 10_000 + at * 1_000, 900).launch(10_100 + at * 1_000, 500)
        builder.kernel(GEMM, 20_000 + at * 10_000, 9_000)
    assert verdicts(open_made(builder, tmp_path), "per step: kernels == 5") == ["hit"]


@pytest.mark.parametrize("path", sorted(LADDER.glob("*.json.gz"))[::6], ids=lambda path: path.name)
def test_a_time_copied_from_the_page_hits(path: Path) -> None:
    """`gpu time == 634 us` missed with 635: the page had the mean, the check the median."""
    trace = ft.open(path, cache=False)
    busy = trace.spans.median_busy(trace.spans.steps)
    assert busy is not None
    groups = summarize(trace).look.groups
    texts = [f"per step: gpu time == {time_text(busy)}"]
    texts += [
        f"per step: {group.name.lower()} time == {time_text(group.time_ns)}"
        for group in groups
        if group.name in ("RMSNorm", "RoPE", "SwiGLU", "GeGLU")
    ]
    assert verdicts(trace, *texts) == ["hit"] * len(texts)


def test_a_region_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`in mlp_typo: kernels == 4` was unknown with exit 0."""
    path = str(LADDER / "mlp_eager_64x128x768x3072_bf16.json.gz")
    for place, there in (("mlp_typo", "it has mlp_fwd"), ("step 99", "it has ")):
        assert main(["check", path, "-g", f"in {place}: kernels == 4", "--no-cache"]) == 2
        assert there in capsys.readouterr().out


def test_modules_are_places() -> None:
    """`in LlamaMLP: …`: modules are recorded, and a check did not know them."""
    trace = ft.open(OWN / "llama_train_modules.json.gz", cache=False)
    texts = ("in LlamaMLP: gemm == 3", "in LlamaMLP_0: kernels == 5", "in LlamaRMSNorm: no gemm")
    assert verdicts(trace, *texts) == ["hit"] * 3


def test_a_share_of_idle_time_names_its_scope() -> None:
    """ "Idle 34%" here, 54% in a job: of the recorded time, or of that of the run record."""
    shares = ("per step: gpu idle < 99.9%", "per step: bound is host")
    for name, scope in (("copies_pinned", " as recorded"), ("streams_full_card", "")):
        share, bound = ft.check(ft.open(OWN / f"{name}.json.gz", cache=False), shares)
        idle = share.measured.partition("%")[0]
        assert share.measured.startswith(f"{idle}%{scope} (median of")
        assert bound.measured.endswith(f"gpu idle {idle}%{scope}")


def test_idle_between_is_idle() -> None:
    """Two streams: "idle between 1.50 ms" of a step while the work of the step before ran."""
    steps = summarize(ft.open(OWN / "streams_full_card.json.gz", cache=False)).look.steps
    assert [step.gpu_idle_ns for step in steps] == [0, 0, 0]


def test_what_follows_the_backward_is_no_forward(tmp_path: Path) -> None:
    """A CPU: 256 reads of a prediction after the optimizer were the forward, and it was longer."""
    sketch = Sketch().step().op("aten::linear", us=100)
    sketch.op("autograd::engine::evaluate_function: AddmmBackward0", us=150)
    for _ in range(8):
        sketch.op("aten::select", us=40)
    document = sketch.document()
    del document["deviceProperties"]
    (verdict,) = ft.check(open_made(document, tmp_path), ["backward time > forward time"])
    assert verdict.verdict == "hit"
    assert verdict.measured.startswith("150 us, forward time: 100 us (1.50x)")
