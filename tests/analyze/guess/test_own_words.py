"""Sentences in an engineer's own words, each on a trace where it holds and on one where it does not.

One made-up training loop is what nobody wants: a slow loader, pageable copies, syncs, fp64. The
other one is what it should be.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace as ft
from analyze.rules.sketch import ADD, GELU, GEMM, MUL, Sketch, kernel, memcpy, memset
from corpus.builder import TraceBuilder
from corpus.places import PUBLIC
from foretrace.analyze.guess import check
from foretrace.analyze.guess.questions import questions
from foretrace.analyze.guess.suggesting import shorter
from foretrace.model.trace import Trace
from opened_traces import open_made, opened

X = [4, 512, 768]
IMAGE, FILTER = [8, 64, 56, 56], [64, 1, 3, 3]
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_stage4_warpsize2x2x1_tensor16x8x8_kernel"
MEAN = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
    "float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, "
    "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>)"
)
RMS_NORM = "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, float)"
DOUBLE = ADD.replace("c10::BFloat16", "double")
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<1>, at::native::(anonymous "
    "namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>()"
)
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
    "namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float>()"
)
CONVERSION = (
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, "
    "(cudnnKernelDataType_t)0>(cudnn::ops::nchw2nhwc_params_t<float>)"
)
DEPTHWISE = (
    "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>()"
)
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t>, false, true, false, false, true, true, false, false>()"
)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
NODE = "autograd::engine::evaluate_function: MmBackward0 > aten::mm"


def _slow() -> dict[str, object]:
    sketch = Sketch()
    for step in (1, 2):
        sketch.step().host("user_annotation", LOADER, 400 * step)
        pageable = memcpy("Memcpy HtoD (Pageable -> Device)", 5000, 4096)
        sketch.op("aten::to > aten::copy_", pageable, dims=[X, X])
        sketch.op("aten::add", kernel(DOUBLE, 4), dims=[X, X], types=["double", "double"])
        sketch.op("aten::linear > aten::mm", kernel(TF32, 20), dims=[X, X], types=["float"] * 2)
        sketch.op("aten::_conv_depthwise2d", kernel(DEPTHWISE, 5), dims=[IMAGE, FILTER])
        sketch.op("aten::cudnn_convolution", kernel(CONVERSION, 5), dims=[IMAGE, FILTER])
        for word in ("pow", "mean", "add", "rsqrt", "mul", "mul"):
            sketch.op(f"aten::{word}", kernel(MEAN if word == "mean" else MUL, 2), dims=[X, X])
        sketch.op(NODE, kernel(TF32, 10), dims=[X, X], types=["float", "float"])
        sketch.host("cuda_runtime", "cudaMalloc", 5)
        for _ in range(3):
            sketch.sync("cudaStreamSynchronize", inside="aten::item")
        sketch.region("Optimizer.step#AdamW.step").op("aten::_foreach_mul_", kernel(FOREACH, 4))
    return sketch.document()


def _fast() -> dict[str, object]:
    sketch = Sketch()
    for step in (1, 2):
        sketch.step().host("user_annotation", LOADER, 1)
        pinned = memcpy("Memcpy HtoD (Pinned -> Device)", 5, 4096)
        sketch.op("aten::to > aten::copy_", pinned, dims=[X, X])
        sketch.op(
            "aten::linear > aten::_int_mm", kernel(GEMM, 30), dims=[X, X], types=["signed char"] * 2
        )
        sketch.op("aten::gelu", kernel(GELU, 3), dims=[X])
        sketch.op("aten::scaled_dot_product_attention", kernel(FLASH, 3), dims=[X, X, X])
        sketch.op("vllm::rms_norm", kernel(RMS_NORM, 3), dims=[X])
        sketch.op(NODE, kernel(GEMM, 900), dims=[X, X])
        sketch.pause(900 if step == 1 else 0)
        sketch.region("Optimizer.step#AdamW.step").op("aten::_fused_adamw_", kernel(FUSED, 9))
        sketch.op("aten::_foreach_add_", kernel(FOREACH, 1))
    document = sketch.document()
    gelu = [event for event in sketch.events if event["name"] == GELU]
    for event in gelu:  # on a stream of its own, beside the matmul
        event["tid"] = event["args"]["stream"] = 13
        event["ts"] -= 10
    return document


# of the slow and of the fast trace
SAID = """
fp64 is used | hit | miss
nothing runs in fp64 | miss | hit
tensor cores used | hit | hit
gemms run in tf32 | hit | miss
gemms run in fp32 | miss | miss
AdamW is fused | miss | hit
the optimizer is fused | miss | hit
the optimizer is not fused | hit | miss
SGD is used | miss | miss
attention is fused | unknown | hit
RMSNorm is fused | miss | hit
gelu is used in step 1 | miss | hit
sdpa is used | miss | hit
copies from pageable memory | hit | miss
no pageable memcpy | miss | hit
pinned memcpy is used | miss | hit
more than 90% of gpu time is memcpy | hit | miss
most time is in matmul | miss | hit
the gpu waits for the data loader | hit | miss
the two streams overlap | miss | hit
depthwise conv takes 77% of the gpu time | miss | miss
depthwise conv takes less than 1% of the gpu time | hit | unknown
there are layout conversions | hit | miss
rmsnorm is one fused kernel | miss | hit
cudaMalloc is called in every step | hit | miss
cudaMalloc is never called | miss | hit
.item() syncs 3 times per step | hit | miss
.item() syncs | hit | miss
weights are int8 | miss | hit
weights are not int8 | hit | miss
step 2 is slower than step 1 | hit | miss
the first step is slower than the last step | miss | hit
step 7 is slower than step 1 | unknown | unknown
step 2 is the slowest step | hit | miss
dataloader < 10% | miss | hit
dataloader takes more than 5% of the step | hit | miss
backward takes longer than forward | miss | hit
backward takes 2x longer than forward | miss | hit
gelu is called once per step | miss | hit
gelu is called twice | miss | hit
aten::mm is the slowest op | miss | hit
aten::to is the slowest op | unknown | miss
step 1 is the fastest step | hit | miss
foreach is used by the optimizer | hit | hit
almost all the time is a copy to the host | miss | miss
no data is copied to the host | hit | hit
nothing is copied from pageable memory | miss | hit
copies use pinned memory | miss | hit
matmuls take most of the time | miss | hit
batch norm takes 20% of the time | miss | miss
backward takes twice as long as forward | miss | miss
backward is at least 3x as long as forward | miss | hit
everything runs on one stream | hit | miss
2 streams are used | miss | hit
.item() syncs with the GPU | hit | miss
the gpu is idle most of the time | miss | miss
torch.compile is used | miss | miss
the GPU spends more time copying than computing | hit | miss
copies are the bottleneck | hit | miss
matmuls are the most expensive thing | miss | hit
copies come from pageable memory | hit | miss
AdamW is foreach, not fused | hit | miss
the trainer calls .item() each step | hit | miss
there's a .item() somewhere that makes the CPU wait for the GPU | hit | miss
backward is cheaper than forward on the GPU | hit | miss
no memcpys between host and device | miss | miss
attention does not take more than 50% of the GPU time | hit | hit
rmsnorm is fast, SGD is used | miss | miss
some copies come from pageable memory | hit | miss
the matmul takes more time than the copy | miss | hit
steps take less than 3 ms | miss | hit
RMSNorm runs in fp32 | hit | miss
"""
ROWS = [[part.strip() for part in line.split("|")] for line in SAID.strip().splitlines()]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    folder: Path = tmp_path_factory.mktemp("own_words")
    for name, document in (("slow", _slow()), ("fast", _fast())):
        (folder / f"{name}.json").write_text(json.dumps(document))
    slow, fast = (ft.open(folder / f"{name}.json", cache=False) for name in ("slow", "fast"))
    return slow, fast


@pytest.mark.parametrize("at", [0, 1], ids=["slow", "fast"])
def test_own_words_are_judged(traces: tuple[Trace, Trace], at: int) -> None:
    found = check(traces[at], [row[0] for row in ROWS])
    wrong = [
        f"{each.text}: {each.verdict} {each.measured} {each.why}"
        for each, row in zip(found, ROWS, strict=True)
        if each.verdict != row[1 + at]
    ]
    assert wrong == []


# Of public traces: what raw events say (times of kernels and ranges, counts of names).
PUBLIC_SAID = {
    "a100_alexnet": """
        most of the GPU time is memcpy | hit
        H2D copies take about 84% of the gpu time | hit
        less than 5% of the gpu time is gemm | hit
        tf32 is used by the convolutions | hit
        cudaMalloc is called 24 times | hit
        relu is called 13 times | miss
        no device to host copies | hit
        Convolutions take longer on the GPU than the fully connected layers | hit
        """,
    "v100_ns_resolution": """
        the backward of the convolutions is the top consumer of the GPU | unknown
        convolutions take less than 55% of gpu time | unknown
        convolutions take less than 15% of gpu time | miss
        """,
    "b200_eager": """
        The mixture-of-experts layers take the biggest chunk of the GPU time | hit
        """,
    "a100_nccl": """
        The SGD update costs less than 5% of the GPU time | hit
        The SGD update costs more than 5% of the GPU time | miss
        """,
    "ranks_0": """
        All kernels run on one and the same stream | miss
        Data loading accounts for at least 10% of each step | miss
        data loading takes less than 5% of the step | hit
        """,
    "mi300_qwen": """
        peak memory is 2.22 GB | hit
        allocated GPU memory peaks above 8 GB | miss
        """,
    "h100_qwen": """
        The GPU rather than Python is what limits this step | hit
        Python rather than the GPU is what limits this step | miss
        """,
    "sglang_decode": """
        GPU > 90% busy during decode | unknown
        GPU > 99% busy during decode | miss
        """,
    "ranks_1": """
        allreduce is the most expensive collective | miss
        """,
    "vllm_decode": """
        memory copies add up to more than 5% of the GPU time | miss
        """,
    "event_sync_multi_stream": """
        everything runs on one stream | miss
        3 streams are used | hit
        the streams run concurrently | miss
        aten::mm is called three times | hit
        cudaStreamSynchronize is called | miss
        each mm launches one kernel | hit
        three matmuls, each on its own stream | hit
        the work is spread over three streams | hit
        the work is spread over two streams | miss
        cudaMalloc is called inside every mm | hit
        the GPU is idle nearly all the time | hit
        the matmuls overlap each other on the GPU | miss
        """,
    "mi250_minitoy": """
        the optimizer is SGD | hit
        SGD is fused | miss
        step 1 takes longer than step 2 | hit
        backward takes longer than forward | miss
        mse_loss is called once | hit
        hipDeviceSynchronize is called twice | miss
        one training step is about 14 kernels | hit
        14 kernels per step | hit
        SGD is the optimizer and it isn't fused | hit
        the backward pass has 2 GEMMs | miss
        some kernel launch blocks for more than 5 ms | hit
        """,
    "cpu_only": """
        this trace has no GPU activity at all | hit
        there are 10 gloo all-reduces | hit
        allreduce takes under 100 ms on average | miss
        aten::empty is called more often than all_reduce | miss
        """,
    "torch_compile_triton": """
        silu is fused with mul | hit
        torch.compile fuses silu and mul | hit
        rmsnorm is fused | hit
        add is fused into the matmul | miss
        sdpa is used | hit
        flash attention is used | hit
        gemms take more than 60% of the GPU time | hit
        attention takes less than 29% of the gpu time | miss
        """,
}


@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
@pytest.mark.parametrize("name", PUBLIC_SAID)
def test_own_words_about_public_traces(name: str) -> None:
    rows = [line.split(" | ") for line in PUBLIC_SAID[name].strip().splitlines()]
    trace = ft.open(Path(PUBLIC) / f"{name}.json.gz", cache=False)
    found = check(trace, [text.strip() for text, _ in rows])
    assert [each.verdict for each in found] == [verdict for _, verdict in rows]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("MemcpyAsync is called 3 times", "`cudaMemcpyAsync is called 3 times`"),
        ("everything got fused somehow", "are fused`"),
        ("dw_fprop kernels use tensor cores", "`gemm uses bf16`"),
    ],
)
def test_a_refusal_offers_a_sentence_about_this_trace(
    traces: tuple[Trace, Trace], text: str, offered: str
) -> None:
    [found] = check(traces[0], text)
    assert found.verdict == "error"
    assert offered in found.why
    [again] = check(traces[0], found.why.split("`")[-2])
    assert again.verdict != "error"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("we never wait for the gpu in the middle of a step", "`per step: no sync`? That is a"),
        (
            "gemms eat up more than half of whatever the gpu does",
            "more than 50% of gpu time`? That",
        ),
    ],
)
def test_a_refusal_judges_the_sentence_without_the_words_that_it_lacks(
    traces: tuple[Trace, Trace], text: str, said: str
) -> None:
    [found] = check(traces[0], text)
    assert found.verdict == "error"
    assert said in found.why


def test_a_refusal_says_what_the_trace_has_of_its_nouns(traces: tuple[Trace, Trace]) -> None:
    text = "cudaMalloc swallows transposes and the rsqrt, and tiny pageable memory the kernel"
    [found] = check(traces[0], text)  # no transpose ran, by that name
    assert found.verdict == "error"
    assert found.why.partition(". ")[2] == (
        "In the whole trace, `cudaMalloc`: 2, `rsqrt`: 2 (4.00 us, <0.1% of GPU time), `pageable`: 2 (10.0 ms, 98.8% of GPU time)"
    )


def test_nothing_that_claims_is_left_out() -> None:
    """Without `not`, a number, a bound or a noun a sentence says something else."""
    text = "gelu does not really take more than 5% of between 3 and 9 steps"
    for short in shorter(text):
        assert {"gelu", "not", "more", "than", "5%", "between", "3", "and", "9"} <= {*short.split()}
    assert "gelu does not take more than 5% of between 3 and 9 steps" in shorter(text)
    assert "the linear layers" not in shorter("the linear layers carry a bias")  # a count of them
    for short in shorter("layernorm forward and backward guzzle more than 20% of gpu time"):
        assert "layernorm" in short
    # `spread over three streams` is no bound
    assert not [
        short for short in shorter("work is spread over three streams") if "spread" not in short
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [  # each was offered without the word, and judged: a wrong answer to what was written
        ("matmuls are Triton generated too", "triton"),
        ("first convolution call takes over ten seconds on cpu", "cpu"),
        ("waiting on the stream eats over half of every step", "waiting"),
        ("everything trains in full fp32 precision", "everything"),
    ],
)
def test_who_computes_and_who_waits_is_not_left_out(text: str, word: str) -> None:
    assert all(word in short.lower().split() for short in shorter(text))


def test_calls_of_an_op_are_no_kernels(tmp_path: Path) -> None:
    """Two kernels of one call: "122 conv2d calls" were counted where a step made 53."""
    sketch = Sketch().step()
    sketch.op("aten::conv2d", kernel(DEPTHWISE, 5), kernel(DEPTHWISE, 5), dims=[IMAGE, FILTER])
    trace = open_made(sketch, tmp_path)
    for text in ("1 conv2d calls per training step", "1 conv2d ops per training step"):
        [found] = check(trace, text)
        assert (found.verdict, found.expected) == ("hit", "per step: 1 aten::conv2d")


@pytest.mark.parametrize(
    ("said", "verdict", "measured"),
    [
        ("a tiny memset goes before every matmul", "hit", "memset right before 2 of 2"),
        ("every gelu is preceded by memset", "unknown", "memset right before 0 of 1"),
        ("every matmul is preceded by gelu", "miss", "gelu right before 0 of 2"),
        ("no memset is preceded by a matmul", "unknown", "matmul right before 0 of 2"),
        ("every matmul is preceded by cudaMemsetAsync", "miss", "no call"),
        ("every matmul is preceded by .item()", "unknown", ""),
    ],
)
def test_what_comes_before_each_kernel(
    said: str, verdict: str, measured: str, tmp_path: Path
) -> None:
    """ "every matmul is preceded by memset" looked for a call of this name, and was a miss."""
    sketch = Sketch().step()
    for op in (("aten::gelu", kernel(GELU, 5)), ("aten::item",)):
        sketch.op("aten::zeros", memset(2)).op("aten::mm", kernel(GEMM, 20)).op(*op)
    [found] = check(open_made(sketch, tmp_path), [said])
    assert (found.verdict, measured in found.measured) == (verdict, True), found


@pytest.mark.parametrize(
    ("also", "verdict"), [("", "hit"), ("aten::addmm", "unknown"), ("aten::mm", "hit")]
)
def test_an_op_that_only_calls_the_slowest_one_is_it(
    also: str, verdict: str, tmp_path: Path
) -> None:
    """ "max pooling is the slowest op" was a miss, for `aten::max_pool2d_with_indices`."""
    built = TraceBuilder(header={"deviceProperties": []}).step(1, 0, 90_000)
    built.op("aten::linear", 1_000, 60_000).op("aten::addmm", 2_000, 58_000)
    if also:
        built.op(also, 62_000, 9_000)
    [found] = check(open_made(built, tmp_path), ["linear is the slowest op"])
    assert found.verdict == verdict


def test_the_slowest_op_of_a_cpu_may_call_a_cast_first(tmp_path: Path) -> None:
    """`look` had "most self time in aten::mul_", and check another op, which calls none."""
    built = TraceBuilder(header={"deviceProperties": []}).step(1, 0, 90_000)
    built.region("Optimizer.step#AdamW.step", 0, 61_500).op("aten::mul_", 1_000, 60_000)
    built.op("aten::to", 2_000, 1_000).op("aten::gelu", 62_000, 9_000)
    trace = open_made(built, tmp_path)
    first, second = check(trace, ["aten::mul_ is the slowest op", "aten::gelu is the slowest op"])
    assert (first.verdict, second.verdict) == ("hit", "miss")
    assert second.measured == "aten::mul_: 59.0 us, 85.5% of op time"
    assert "aten::mul_ (85.5%)" in ft.look(trace).verdict.text
    asked = questions(trace)
    assert asked
    assert all("one step" in each.text for each in asked)  # and no range of torch


def test_cpu_time_decides_where_no_gpu_is_meant(tmp_path: Path) -> None:
    """A step of 100 us: 30 us of matmuls, 5 us of gelu, 20 us backward, 10 us in the optimizer."""
    said = """
    matmul takes 30% of the time = hit
    most time is in matmul = miss
    matmul takes 30% of the gpu time = unknown
    most gpu time is in matmul = unknown
    backward takes longer than forward = miss
    the optimizer takes less than 15% of the time = hit
    SGD takes more than 15% of the time = miss
    gelu takes more than 4% of the time = hit
    the optimizer is fused = hit
    kernels == 2 = unknown
    """
    wanted = dict(line.strip().split(" = ") for line in said.strip().splitlines())
    built = TraceBuilder(header={"deviceProperties": []}).step(1, 0, 100_000)
    built.op("aten::linear", 0, 25_000).op("aten::addmm", 1_000, 20_000)
    built.op("aten::gelu", 30_000, 5_000)
    built.op("autograd::engine::evaluate_function: AddmmBackward0", 50_000, 20_000)
    built.op("aten::mm", 51_000, 10_000)
    built.region("Optimizer.step#SGD.step", 80_000, 10_000).op("aten::_fused_sgd_", 81_000, 8_000)
    found = check(open_made(built, tmp_path), list(wanted))
    assert {each.text: each.verdict for each in found} == wanted


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("one kernel alone eats more than half of the GPU time", "miss"),  # all kernels do
        ("a single kernel dominates the gpu time", "miss"),
        ("no single kernel takes more than 50% of gpu time", "hit"),
        ("no kernel takes more than 20% of gpu time", "miss"),
        ("the top kernel takes 21.5% of gpu time", "hit"),
        ("421 kernels a decode call", "hit"),  # 1,263 in each step
        ("421 kernels a decode call, mostly matmuls", "miss"),
        ("a decode step launches 1263 kernels", "miss"),
    ],
)
def test_one_kernel_is_no_sum_and_a_decode_no_step(text: str, verdict: str) -> None:
    [found] = check(opened(Path(__file__).parents[2] / "recorded/graph_eager.json.gz"), [text])
    assert found.verdict == verdict, found


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("2 addmm per step", "hit"),
        ("at least 1 gelu", "hit"),
        ("there is a backward pass", "hit"),
        ("3 backward per step", "unknown"),  # nodes, and ops below them
        ("one convolution per step", "hit"),  # its backward is none
        ("there is no optimizer", "hit"),
        ("adamw is used", "miss"),
        ("no attention", "unknown"),  # by hand it is matmuls and a softmax
        ("3 kernels per step", "unknown"),
    ],
)
def test_on_a_cpu_ops_are_counted(text: str, verdict: str, tmp_path: Path) -> None:
    """They were unknown: "record with ProfilerActivity.CUDA on a machine with a GPU"."""
    built = TraceBuilder(header={"deviceProperties": []})
    for step in (1, 2):
        at = 200_000 * step
        built.step(step, at, 190_000)
        for place, op in enumerate(("aten::linear", "aten::linear", "aten::gelu")):
            built.op(op, at + 10_000 * place, 9_000)
            if op == "aten::linear":
                built.op("aten::addmm", at + 10_000 * place + 100, 8_000)
        built.op("aten::conv2d", at + 40_000, 9_000)
        built.op("aten::mkldnn_convolution", at + 40_100, 8_000)
        built.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 60_000, 9_000)
        built.op("aten::convolution_backward", at + 60_100, 8_000)
    [found] = check(open_made(built, tmp_path), [text])
    assert found.verdict == verdict, found


H200 = Path(ft.__file__).parent / "read/recordings/h200/ladder"
ATTENTION = Path(__file__).parents[2] / "recorded/attention_train_cudnn.json.gz"
TRAINING = H200 / "train_step_foreach_4x512x4x768x12x3072x32000_bf16.json.gz"
ADDMM = H200 / "matmul_add_addmm_64_bf16.json.gz"


@pytest.mark.parametrize(
    ("path", "text", "verdict"),
    [
        (ATTENTION, "attention runs in fp16", "miss"),  # its name says `16-bit float`
        (ATTENTION, "the attention backward takes more than half of the GPU time", "hit"),
        (ATTENTION, "attention backward is slower than its forward", "hit"),
        (TRAINING, "on the CPU side, backward takes twice as long as forward", "hit"),
        (TRAINING, "backward takes more CPU time than the optimizer", "hit"),
        (TRAINING, "aten::mm is the most expensive CPU op", "hit"),
        (TRAINING, "aten::add_ is the most expensive CPU op", "miss"),
        (ADDMM, "the add is folded into the matmul, no separate add kernel", "hit"),
        (ADDMM, "cudaMemcpyAsync is the most expensive runtime call", "hit"),
        (ADDMM, "the slowest CUDA call is cudaLaunchKernel", "miss"),
    ],
)
def test_own_words_about_recordings(path: Path, text: str, verdict: str) -> None:
    [found] = check(opened(path), [text])
    assert found.verdict == verdict, found


@pytest.mark.parametrize(("clips", "verdict"), [(True, "miss"), (False, "hit")])
def test_clipping_is_no_part_of_the_optimizer(clips: bool, verdict: str, tmp_path: Path) -> None:
    """`look` had 39% in the optimizer, `check` 47%: clipping uses foreach kernels too."""
    sketch = Sketch().step().op("aten::mm", kernel(GEMM, 50), dims=[X, X])
    if clips:
        sketch.op("aten::_foreach_norm", kernel(FOREACH, 50))
    sketch.region("Optimizer.step#AdamW.step").op("aten::_foreach_mul_", kernel(FOREACH, 50))
    [found] = check(open_made(sketch, tmp_path), ["the optimizer takes 50% of the GPU time"])
    assert found.verdict == verdict, found


BATCH_NORM = "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>()"
SECOND_SET = """
2 kernels per step belong to the optimizer | hit
9 kernels per step belong to the optimizer | miss
trained with cross entropy | miss
batch_norm_backward is the costliest kernel | hit
2 conv2d per step | hit
5 conv2d per step | miss
kv cache in bf16 | unknown
hidden size expands from 768 to 3072 | unknown
the loader has 8 workers | unknown
theres a backward pass | hit
gpu time goes over 20 ms per step | miss
"""


def test_sentences_of_a_second_set(tmp_path: Path) -> None:
    """Each was refused or wrong as somebody without sight of the grammar wrote it."""
    sketch = Sketch()
    for _ in range(2):
        sketch.step()
        for _ in range(2):
            convolution = kernel(GEMM, 5, grid=[1, 1, 1])
            sketch.op("aten::conv2d > aten::cudnn_convolution", convolution, dims=[IMAGE, FILTER])
        sketch.op("aten::mse_loss", kernel(MUL, 2), dims=[X, X])
        node = "autograd::engine::evaluate_function: CudnnBatchNormBackward0"
        path = f"{node} > CudnnBatchNormBackward0 > aten::cudnn_batch_norm_backward"
        sketch.op(path, kernel(BATCH_NORM, 40), dims=[IMAGE])
        sketch.region("Optimizer.step#SGD.step")
        sketch.op("aten::_foreach_mul_", kernel(FOREACH, 4))
        sketch.op("aten::_foreach_add_", kernel(FOREACH, 4))
    trace = open_made(sketch, tmp_path)
    rows = [line.split(" | ") for line in SECOND_SET.strip().splitlines()]
    found = check(trace, [text for text, _ in rows])
    assert [(each.text, each.verdict) for each in found] == [tuple(row) for row in rows]
