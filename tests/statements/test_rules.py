"""Statements of rules that were false on some trace; one test each, named by what is true."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from corpus.places import RECORDED
from foretrace.base.units import time_text
from foretrace.look import rules as analyses
from foretrace.look import summarize
from foretrace.look.documents import Finding
from foretrace.look.measured_step import measured
from foretrace.trace import bounds
from foretrace.trace.trace import Trace
from look.rules.sketch import ADD, COPY, GELU, GEMM, Sketch, kernel, memcpy, memset
from opened_traces import open_made, opened, overview
from statements.places import OWN

DATA = Path(__file__).parents[1] / "data"
LADDER = RECORDED / "ladder"
MLP = "64x128x768x3072"
MODEL = "4x512x4x768x12x3072x32000"
ATTENTION = "8x16x1024x64"


def said(source: Path | Trace, rule: str) -> Finding:
    """The (first) finding of one rule."""
    trace = source if isinstance(source, Trace) else ft.open(source, cache=False)
    return next(each for each in ft.findings(trace) if each.rule == rule)


def ladder(name: str) -> Path:
    return LADDER / f"{name}_bf16.json.gz"


def test_a_step_that_is_one_graph_launch_needs_no_graph(tmp_path: Path) -> None:
    """CUDA-graph decode: "A CUDA graph would replay it with one launch"; it already does."""
    sketch = Sketch()
    for _ in range(3):
        sketch.step().graph(*(kernel(ADD, 5) for _ in range(20))).pause(2000)
    found = said(open_made(sketch, tmp_path), "launch_bound")
    assert (found.state, found.fix) == ("clear", "")


def test_work_that_waits_in_the_queue_is_not_blamed_on_the_host(tmp_path: Path) -> None:
    """SGLang decode: "The host cannot feed the GPU ... at most 464 ms"; kernels were queued."""
    sketch = Sketch().op("aten::add", kernel(ADD, 5))
    sketch.gpu_free += 463_000  # the GPU is busy with work that is not in the trace
    for _ in range(20):
        sketch.op("aten::add", kernel(ADD, 5))
    trace = open_made(sketch, tmp_path)
    assert said(trace, "launch_bound").state == "clear"
    found = said(trace, "idle_gaps")
    assert found.title.startswith("The trace shows no GPU work for 100.0%")
    assert found.title.endswith("while launched work waited in the queue")
    assert (found.at_most_ns or 0) < 1_000_000


def test_origin_ops_of_inductor_are_not_what_a_kernel_computes(tmp_path: Path) -> None:
    """Gemma, Llama compiled: "_scaled_dot_product_cudnn_attention, bmm in one pointwise kernel"."""
    name = "triton_poi_fused__scaled_dot_product_cudnn_attention_bmm_mul_3"
    cudnn = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64_4x1x1"
    sketch = Sketch().step()
    for each in (name, cudnn, GEMM):
        sketch.op("aten::bmm", kernel(each, 10))
    found = said(open_made(sketch, tmp_path), "inductor_fusions")
    (entry,) = found.evidence["kernels"]
    assert (entry["ops"], len(entry["run_by_a_library"])) == (["mul"], 2)
    assert "Origin ops by kernel: mul (pointwise)" in found.detail


def test_a_generated_kernel_is_one_whatever_its_shapes() -> None:
    """A model with six batch sizes: "Inductor generated 3 kernels"; one ran with three shapes."""
    found = said(DATA / "compile" / "recompiles" / "trace.json.gz", "inductor_fusions")
    assert found.title == "Inductor generated 1 kernel, launched once per step"
    (entry,) = found.evidence["kernels"]
    assert entry["count"] == 1


def test_no_size_stands_for_shapes_that_differ_between_steps() -> None:
    """Steps of 1024, 8192 and 4096 rows: "M=4096", "0.7 matmuls", 1,002 TFLOP/s of 894."""
    path = DATA / "compile" / "recompiles" / "trace.json.gz"
    found = said(path, "gemm_choice")
    assert found.title == "3 matmuls of 38.7 GFLOP in all steps together on 2 different kernels"
    assert found.detail.startswith("2 matmuls [8192, 768] x [768, 3072] use nvjet 256x128x64")
    page = summarize(ft.open(path, cache=False))
    assert [row.name for row in page.look.groups][:2] == ["GEMM", "GeGLU"]
    steps = page.sequences[0]
    assert (steps.calls, steps.same) == (3, 2)
    kernels = [row for row in steps.rows if row.role != "copy"]
    assert not [row for row in kernels if row.tflops or row.gbps]


def test_work_beside_an_earlier_step_is_not_added_to_a_step() -> None:
    """Two streams, steps 1.24 ms apart: "GPU busy 1.51 of 1.51 ms per step"."""
    page = overview(OWN / "streams_overlap.json.gz")
    assert page.lines[0].text.startswith("GPU busy 1.24 of 1.24 ms per step (100.0%)")
    busy = [step.gpu_busy_ns for step in page.look.steps]
    assert busy == [1_243_331, 1_240_130, 1_213_091]
    assert sum(row.time_ns for row in page.look.groups) == 1_240_130


def test_two_generated_kernels_may_have_one_name(tmp_path: Path) -> None:
    """Two graphs with a kernel of one name and shape: the hash of their code tells them apart."""
    name, sketch = "triton_poi_fused_add_0", Sketch().step()
    for _ in range(4):
        sketch.op(name, kernel(name, 10), dims=[[64, 64], []])
    document = sketch.document()
    launched = [each for each in document["traceEvents"] if each.get("cat") == "cpu_op"]
    for code, event in zip(("one", "two", "one", "two"), launched, strict=True):
        event["args"] |= {"kernel_backend": "triton", "kernel_hash": code}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    found = said(path, "inductor_fusions")
    assert found.title == "Inductor generated 2 kernels, launched 4 times per step"
    assert [entry["count"] for entry in found.evidence["kernels"]] == [2, 2]


def test_a_matmul_and_the_sum_of_its_parts_are_one_matmul(tmp_path: Path) -> None:
    """A loop of GRU cells: "512 float32 matmuls per step"; each of 256 launches two kernels."""
    name = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_{}"
    sketch, dims = Sketch().step(), [[64, 1024], [1024, 3072]]
    for _ in range(4):
        parts = [name.format(f"execute_{word}kernel__5x_cublas") for word in ("", "split_k_")]
        work = [kernel(each, us) for each, us in zip(parts, (50, 5), strict=True)]
        sketch.op("aten::mm", *work, dims=dims, types=["float", "float"])
    trace = open_made(sketch, tmp_path)
    assert said(trace, "float32_matmuls").title == "4 float32 matmuls per step without tensor cores"
    assert said(trace, "split_k").title == "4 matmuls per step split along K"
    assert said(trace, "split_k").evidence["reduce_ns"] == 4 * 5_000
    assert [str(name) for name in trace.work_groups[:2]] == ["GEMM", "split-K sums"]
    assert trace.kernels["bytes_written"].to_list()[:2] == [64 * 3072 * 4] * 2


def test_a_split_convolution_is_no_matmul(tmp_path: Path) -> None:
    """A V100 training a ResNet: "10 matmuls split along K" were weight gradients of filters."""
    name = "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x32"
    ends = ("execute_segment_k_on_kernel__5x_cudnn", "execute_split_k_kernel__5x_cudnn")
    work = [kernel(f"{name}_warpgroupsize1x1x1_g1_{end}", 20) for end in ends]
    sketch = Sketch().step().op("aten::convolution_backward", *work)
    found = said(open_made(sketch, tmp_path), "split_k")
    assert found.title == "1 convolution per step split along K"
    assert found.at_most_ns == 20_000


def test_no_attention_or_matmul_is_in_a_generated_kernel_of_the_compiled_model() -> None:
    """The same on the recording of the compiled model."""
    found = said(ladder(f"model_compiled_{MODEL}"), "inductor_fusions")
    ops = {op for entry in found.evidence["kernels"] for op in entry["ops"]}
    assert not [op for op in ops if "attention" in op or op in ("mm", "bmm", "addmm")]


def test_the_copy_between_the_matmuls_of_attention_counts() -> None:
    """Attention by hand: "at most 929 us"; cuDNN saves 1,018 us in the recordings."""
    before, after = (
        ft.open(ladder(f"attention_{form}_{ATTENTION}"), cache=False) for form in ("naive", "cudnn")
    )
    realised = busy(before) - busy(after)
    assert 1_000_000 < realised <= said(before, "attention_math").evidence["ns"]


def test_a_run_record_limits_what_a_graph_can_save() -> None:
    """Compiled MLP: a graph "saves at most 295 us"; the call takes 230 us, 225 us of it GPU."""
    trace = ft.open(ladder(f"mlp_compiled_{MLP}"), cache=False)
    assert said(trace, "launch_bound").state == "clear"
    found = said(trace, "idle_gaps")
    assert (found.saves_ns or 0) <= 6_000
    assert "without the profiler for at most 1.8%" in found.title


def test_a_training_step_saves_no_more_than_it_takes_without_the_profiler() -> None:
    """Training step of the compiled MLP: "at most 1.41 ms" of a step that takes less."""
    trace = ft.open(ladder(f"mlp_compiled_{MLP}_backward"), cache=False)
    found, limit = said(trace, "launch_bound"), bounds.idle_limit_ns(trace)
    assert (found.saves_ns or 0) <= (limit or 0)
    assert "(run record)" in found.detail


def test_profiled_host_times_are_said_to_be_profiled() -> None:
    """... and the page does not say so."""
    found = said(RECORDED / "llama_train_eager.json.gz", "launch_bound")
    assert "Host times include profiler overhead." in found.detail


def test_the_first_step_fills_the_queue_once(tmp_path: Path) -> None:
    """linear fp32: "idle for 10.9%" beside "busy 99.9%"; the first step's pipeline fill."""
    sketch = Sketch()
    for place in range(4):
        sketch.step().pause(900 if place == 0 else 0)
        for _ in range(5):
            sketch.op("aten::mm", kernel(GEMM, 300))
    assert said(open_made(sketch, tmp_path), "idle_gaps").state == "clear"


def test_a_scalar_is_no_intermediate() -> None:
    """Training step: "The 2 B intermediate that fill_ makes ([64, 128, 768] bf16)"."""
    found = said(RECORDED / "mlp_eager_train.json.gz", "fusable_pointwise")
    assert min(chain["intermediate_bytes"] for chain in found.evidence["chains"]) > 1024
    assert "fill_ makes" not in str(found.evidence)


def test_launches_during_a_capture_run_nothing(tmp_path: Path) -> None:
    """CUDA-graph capture: "The host cannot feed the GPU ... at most 55.2 ms"."""
    sketch = Sketch().op("aten::add", kernel(ADD, 2))
    sketch.host("cuda_runtime", "cudaStreamBeginCapture", 5)
    for _ in range(100):
        sketch.host("cuda_runtime", "cudaLaunchKernel", 5).pause(20)
    sketch.host("cuda_runtime", "cudaStreamEndCapture", 5).op("aten::add", kernel(ADD, 2))
    trace = open_made(sketch, tmp_path)
    for rule in ("launch_bound", "idle_gaps"):
        found = said(trace, rule)
        assert (found.state, found.at_most_ns) == ("skipped", None)
        assert "captured or lost launches: 100 launches without any" in found.detail


def test_memcpys_are_no_launches(tmp_path: Path) -> None:
    """B200: "929 launches" where the trace has 768 kernels."""
    sketch = Sketch().step()
    for _ in range(10):
        sketch.op("aten::add", kernel(ADD, 2), us=40)
        sketch.op("aten::copy_", memcpy("Memcpy DtoD (Device -> Device)", 2, 4096), us=40)
    found = said(open_made(sketch, tmp_path), "launch_bound")
    assert (found.evidence["launches"], found.evidence["kernels"]) == (10, 10)
    assert found.title.startswith("10 launches per step; ")


def test_one_launch_in_a_long_step_calls_for_no_graph(tmp_path: Path) -> None:
    """triton_example: a graph saves "at most 13.3 s" for one launch."""
    sketch = Sketch().step().pause(13_000_000).op("aten::add", kernel(ADD, 2))
    trace = open_made(sketch, tmp_path)
    assert said(trace, "launch_bound").state == "clear"
    assert "while the host ran no op" in said(trace, "idle_gaps").title


def test_a_wait_that_costs_nothing_saves_nothing(tmp_path: Path) -> None:
    """ "at most 0 ns: The host waits for the GPU"."""
    sketch = Sketch().step().op("aten::add", kernel(ADD, 2)).sync()
    found = said(open_made(sketch, tmp_path), "sync_stalls")
    assert (found.at_most_ns, found.fix) == (None, "")
    assert found.title.endswith("no GPU time is lost by it")


def test_two_ops_have_their_kernels(tmp_path: Path) -> None:
    """V100: "convolution_backward and cudnn_convolution cleared 57.5 MB: ... its kernels"."""
    sketch = Sketch().step()
    for op in ("aten::convolution_backward", "aten::cudnn_convolution"):
        sketch.op(op, memset(5, 1 << 20), kernel(GEMM, 50))
    found = said(open_made(sketch, tmp_path), "library_fills")
    assert found.detail.endswith("buffers that their kernels add into.")


def test_varying_times_promise_no_saving() -> None:
    """varying_kernels had a saving and no fix; lists of tensors do not vary."""
    trace = ft.open(ladder(f"train_step_fused_{MODEL}"), cache=False)
    assert said(trace, "varying_kernels").state == "clear"


def test_a_cut_trace_lacks_what_the_rest_would_have(tmp_path: Path) -> None:
    """Truncated H200 trace: "Checked and not found", "only traces of CUDA cards carry them"."""
    whole = gzip.decompress((RECORDED / "llama_train_eager.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: len(whole) // 8])
    found = analyses.run_all(ft.open(path, cache=False))
    assert not [finding for finding in found if finding.state == "clear"]
    assert any("needs a complete trace: the input ends" in finding.detail for finding in found)
    assert not any("only traces of CUDA cards" in finding.detail for finding in found)


def test_two_steps_of_different_work_are_not_cold_and_warm(tmp_path: Path) -> None:
    """MI250: "The first step is cold: 189.27x"; the second launched nothing."""
    sketch = Sketch().step().op("aten::add", kernel(ADD, 5)).pause(900).step().pause(5)
    assert said(open_made(sketch, tmp_path), "cold_start").state == "clear"


def test_a_small_pageable_copy_needs_no_pinned_memory(tmp_path: Path) -> None:
    """B200: "16 B at 0.0 GB/s ... Pinned memory copies faster"."""
    name = "Memcpy HtoD (Pageable -> Device)"
    small = Sketch().step().op("aten::copy_", memcpy(name, 2, 16))
    assert said(open_made(small, tmp_path), "pageable_copies").state == "clear"
    large = Sketch().step().op("aten::copy_", memcpy(name, 200, 1 << 20))
    assert said(open_made(large, tmp_path), "pageable_copies").state == "found"


@pytest.mark.parametrize("op", ["mylib::fused", "aten::mm"])
def test_what_torch_compile_cannot_open_is_not_fusable(op: str, tmp_path: Path) -> None:
    """B200: "copy_ and _C_cache_ops::reshape_and_cache_flash could be one kernel"."""
    dims: dict[str, Any] = {"dims": [[64, 1024]] * 2}
    sketch = Sketch().step().op("aten::mm", kernel(GEMM, 10), **dims)
    sketch.op("aten::gelu", kernel(GELU, 10), dims=[[64, 1024]]).op(op, kernel(COPY, 10), **dims)
    assert said(open_made(sketch, tmp_path), "fusable_pointwise").state == "clear"


def busy(trace: Trace) -> float:
    return trace.spans.median_busy(trace.spans.steps) or 0.0


def test_idle_time_is_divided_between_ops_and_the_time_outside_them(tmp_path: Path) -> None:
    """linear eager: "125 us while the host ran no op"; 72 us of it were inside aten::linear."""
    sketch = Sketch()
    for _ in range(3):
        sketch.step().pause(4).op("aten::add", kernel(ADD, 1)).pause(30)
    found = said(open_made(sketch, tmp_path), "idle_gaps")
    causes = found.evidence["causes"]
    assert 0 < causes["launch"] < causes["host"]
    assert causes["launch"] + causes["host"] == found.evidence["idle_ns"]


def test_a_step_has_one_length() -> None:
    """linear eager: "a step takes 88.9 us" beside "GPU busy 2.69 of 128 us per step"."""
    trace = opened(RECORDED / "linear_eager.json.gz")
    unit = measured(trace)
    assert unit is not None
    assert f"a step takes {time_text(unit.wall_ns)} with" in said(trace, "compile_triage").title


def test_tf32_that_others_use_is_not_advised(tmp_path: Path) -> None:
    """Two ranks of a recommender: "TF32 would use the tensor cores"; most matmuls use it."""
    sketch = Sketch("NVIDIA A100-SXM4-80GB", (8, 0), 108).step()
    tf32 = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(int)"
    for name in (tf32, "ampere_sgemm_128x64_tn"):
        dims = [[512, 512], [512, 512]]
        sketch.op("aten::mm", kernel(name, 30), dims=dims, types=["float", "float"])
    found = said(open_made(sketch, tmp_path), "float32_matmuls")
    assert (found.evidence["count"], found.fix, found.at_most_ns) == (1, "", None)
    assert "TF32 is allowed" in found.detail


def test_compiling_saves_no_more_than_fused_attention_leaves() -> None:
    """Attention by the math path: "compiling can help: at most 100.0% of the step"."""
    trace = ft.open(ladder(f"attention_math_{ATTENTION}"), cache=False)
    unit, found = measured(trace), said(trace, "compile_triage")
    assert unit is not None
    assert (found.at_most_ns or 0) < unit.wall_ns - 10_000
    assert "small" not in found.title  # its kernels take up to 0.5 ms each


def test_compiling_replaces_the_batch_norm_of_a_library(tmp_path: Path) -> None:
    """ResNet: "at most 16.7% of the step"; Inductor writes BatchNorm too, another 18%."""
    name = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)"
    sketch = Sketch().step()
    for _ in range(2):
        sketch.op("aten::mm", kernel(GEMM, 300)).op("aten::cudnn_batch_norm", kernel(name, 200))
    found = said(open_made(sketch, tmp_path), "compile_triage")
    assert found.evidence["small_ns"] == 400_000


@pytest.mark.parametrize("variant", ["naive", "math"])
def test_what_the_first_fix_removes_is_not_repaired_then(variant: str) -> None:
    """Attention by hand: "call scaled_dot_product_attention", then "fuse mul and _softmax"."""
    said = summarize(ft.open(ladder(f"attention_{variant}_{ATTENTION}"), cache=False)).look.verdict
    assert "attention" in said.first
    assert "fuse with" not in said.then


def test_compiling_is_one_fix() -> None:
    """Block, eager: "resolve views once with torch.compile", then "fuse with torch.compile"."""
    said = summarize(ft.open(ladder("block_eager_8x1024x768x12x3072"), cache=False)).look.verdict
    assert said.first.startswith("torch.compile(model)")
    assert "torch.compile" not in said.then


def test_a_bias_is_added_not_multiplied() -> None:
    """GPT-2: "4 matmuls [3072] x [2048, 768] x [768, 3072]"."""
    found = said(ladder(f"model_gpt2_{MODEL}"), "gemm_choice")
    assert "4 matmuls [2048, 768] x [768, 3072] + [3072] use" in found.detail


def _copied(direction: str) -> Sketch:
    """Steps that copy 256 bytes, wait for it, and launch 400 us later."""
    sketch = Sketch()
    for _ in range(3):
        sketch.step().op("aten::add", kernel(ADD, 5))
        sketch.op("aten::copy_", memcpy(f"Memcpy {direction}", 5, 256), us=60)
        number = {"correlation": 800_000 + len(sketch.events)}
        sketch._add("cuda_runtime", "cudaStreamSynchronize", sketch.now - 25, 20, number)
        sketch.pause(400).op("aten::add", kernel(ADD, 5))
    return sketch


def test_a_copy_to_the_host_has_to_be_waited_for(tmp_path: Path) -> None:
    """SGLang decode: "copy without waiting", where the host reads what was copied."""
    found = said(open_made(_copied("DtoH (Device -> Pageable)"), tmp_path), "sync_stalls")
    assert "every N steps" in found.fix


def test_a_first_step_as_slow_as_a_later_one_is_not_cold(tmp_path: Path) -> None:
    """A DataLoader that is late every other step: "The first step takes 84.75x"."""
    sketch = Sketch()
    for us in (3000, 40, 3100, 36):
        sketch.step().op("aten::add", kernel(ADD, 5), us=us)
    assert said(open_made(sketch, tmp_path), "cold_start").state == "clear"


def test_layers_of_one_grid_are_no_varying_kernel(tmp_path: Path) -> None:
    """V100 without shapes: "use the median", of four layers that take the same time every step."""
    sketch = Sketch()
    for _ in range(4):
        sketch.step()
        for us in (300, 600, 305, 300):
            sketch.op("aten::mm", kernel(GEMM, us, grid=[8, 8, 1]))
    assert said(open_made(sketch, tmp_path), "varying_kernels").state == "skipped"


def test_collectives_of_unstated_sizes_are_no_varying_kernel(tmp_path: Path) -> None:
    """DLRM: "nccl SendRecv: median 24.1 ms, longest 47.7 ms", of all-to-alls of tensor lists."""
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    for dims, state in ([[], []], "clear"), ([[4096], []], "found"):
        sketch = Sketch()
        for _ in range(4):
            sketch.step()
            for us in (300, 600, 305, 300):
                sketch.op("record_param_comms", kernel(name, us, grid=[16, 1, 1]), dims=dims)
            sketch.op("aten::add", kernel(ADD, 5), dims=[[64], [64]])
        assert said(open_made(sketch, tmp_path), "varying_kernels").state == state


def test_a_kernel_that_reads_the_same_is_the_same(tmp_path: Path) -> None:
    """MI300: "on 2 different kernels: ... tensile 256x192x64; ... tensile 256x192x64"."""
    name = (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_ULSGRO{}_WG32_8_1"
    )
    sketch = Sketch().step()
    for number in (0, 0, 1):
        dims = [[4096, 4096], [4096, 4096]]
        sketch.op("aten::mm", kernel(name.format(number), 1800), dims=dims)
    assert said(open_made(sketch, tmp_path), "gemm_choice").state == "clear"


def test_a_range_inside_one_of_its_name_is_no_second_call(tmp_path: Path) -> None:
    """AlexNet: "medians of 2 calls", of one forward pass in two ranges of one name."""
    sketch = Sketch().step().region("forward").region("forward").op("aten::add", kernel(ADD, 5))
    assert [span.name for span in open_made(sketch, tmp_path).spans.regions] == ["forward"]


def test_two_distances_of_launches_have_no_usual_one(tmp_path: Path) -> None:
    """A100: "3 launches, one every 9.68 ms", 0.41 and 18.95 ms apart."""
    sketch = Sketch().op("aten::add", kernel(ADD, 5)).op("aten::add", kernel(ADD, 5))
    sketch.pause(18_000).op("aten::add", kernel(ADD, 5))
    unit = measured(open_made(sketch, tmp_path))
    assert unit is not None
    assert (unit.launches, unit.apart_ns) == (3, None)


def test_two_halves_of_one_tensor_are_copied_apart() -> None:
    """The first copy's result has no gaps, the second one's source has: they are two tensors."""
    trace = opened(LADDER / f"mlp_liger_packed_{MLP}_bf16.json.gz")
    assert said(trace, "fusable_pointwise").state == "clear"
    (cause,) = said(trace, "hidden_copies").evidence["causes"]
    assert (cause["cause"], cause["bytes"]) == ("contiguous", 201_326_592)


SGEMM, SCONV = "ampere_sgemm_128x64_tn", "ampere_scudnn_128x64_relu_medium_nn_v1"


@pytest.mark.parametrize(
    ("names", "title"),
    [
        ([SGEMM] * 2, "2 float32 matmuls per step without tensor cores"),
        ([SCONV], "1 float32 convolution per step without tensor cores"),
        ([SGEMM, SCONV], "2 float32 matmuls and convolutions per step without tensor cores"),
    ],
)
def test_a_convolution_is_no_matmul(names: list[str], title: str, tmp_path: Path) -> None:
    """V100: "161 float32 matmuls" and "355 kernels of matmuls and attention" of a ResNet."""
    sketch = Sketch("NVIDIA A100-SXM4-80GB", (8, 0), 108).step()
    for name in names:
        op = "aten::mm" if name == SGEMM else "aten::cudnn_convolution"
        sketch.op(op, kernel(name, 30)).op("aten::add", kernel(ADD, 5), us=300)
    trace, convolves = open_made(sketch, tmp_path), ", convolutions" * (SCONV in names)
    assert said(trace, "float32_matmuls").title == title
    assert f"of matmuls{convolves} and attention" in said(trace, "compile_triage").detail


def test_a_split_convolution_without_an_op_is_one(tmp_path: Path) -> None:
    """MI210: "50 matmuls split along K", all kernels of MIOpen's weight gradients."""
    name = "igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt256x128x16_wt32x32x8_ws2x2_wr1x1_ta1x1_gkgs"
    sketch = Sketch("AMD Instinct MI210", (9, 0), 104).stray(kernel(name, 30))
    title = said(open_made(sketch, tmp_path), "split_k").title
    assert title == "1 convolution in the whole recording split along K"


def test_two_causes_in_the_same_words_are_one(tmp_path: Path) -> None:
    """MI210: "473 us before the next operation was launched, 109 us before the next …"."""
    sketch = Sketch()
    for pause in (300, 300, 0):
        sketch.host("cuda_runtime", "cudaStreamIsCapturing", 40).pause(pause)
        sketch.graph(kernel(GEMM, 20))
    detail = said(open_made(sketch, tmp_path), "idle_gaps").detail
    assert detail.count("before the next operation was launched") == 1


def test_an_empty_step_does_not_halve_the_time_of_views(tmp_path: Path) -> None:
    """MI250: "16 op calls per step … took 0 ns of host time": the second step was empty."""
    sketch = Sketch().step().op("aten::view", us=40).op("aten::add", kernel(ADD, 5))
    finding = said(open_made(sketch.step().pause(30), tmp_path), "metadata_only")
    assert finding.evidence == {"calls": {"aten::view": 1}, "host_ns": 40_000}


def test_a_recording_that_sets_up_the_gpu_predicts_no_fix(tmp_path: Path) -> None:
    """MI250: "DO FIRST CUDA graph: 8.98 ms to about 6.69 ms", 6.54 ms of it one first launch."""
    sketch = Sketch().step()
    for number in range(12):
        sketch.op("aten::add", kernel(ADD, 5), us=50)
        if not number:
            sketch.host("cuda_runtime", "cudaLaunchKernel", 6500)
    found = summarize(open_made(sketch, tmp_path))
    first = "run the step once before the recording: 1 runtime call takes 6.50 ms of the step's 7.10 ms, "
    assert (found.look.verdict.first, found.look.verdict.then) == (f"{first}with the GPU idle", "")
    assert not [line for line in found.lines if line.label == "COMPILE"]


def test_an_op_inside_one_of_its_name_counts_once(tmp_path: Path) -> None:
    """`aten::mean` calls itself: 8.68 ms of a recording of 4.35 ms, and each kernel twice."""
    sketch = Sketch().step().op("aten::mean > aten::mean", kernel(ADD, 5), us=100)
    (row,) = summarize(open_made(sketch, tmp_path)).look.ops
    assert (row.count, row.kernels, row.gpu_ns) == (2, 1, 5_000)
    assert (row.total_cpu_ns, row.self_cpu_ns) == (100_000, 99_000)  # 1 us is the launch
