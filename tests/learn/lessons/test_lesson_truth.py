"""The answers that lessons find, by a second method: plain arithmetic on the raw events."""

from __future__ import annotations

import gzip
import itertools
import json
from functools import cache
from typing import Any, NamedTuple

import foretrace as ft
from foretrace.learn.lessons import lesson
from foretrace.learn.lessons.sitting import Sitting, right_answer
from foretrace.read import recordings

EAGER, COMPILED = "mlp_eager_64x128x768x3072_bf16", "mlp_compiled_64x128x768x3072_bf16"
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


class Call(NamedTuple):
    """One call of a region: GPU events in order of launch, and host ops."""

    work: list[dict[str, Any]]
    ops: list[dict[str, Any]]

    @property
    def kernels(self) -> list[str]:
        return [event["name"] for event in self.work if event["cat"] == "kernel"]

    def time(self, *words: str) -> float:
        return sum(e["dur"] for e in self.work if any(word in e["name"] for word in words))


@cache
def calls(name: str, region: str) -> list[Call]:
    path = recordings.find(name)
    assert path is not None
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    timed = sorted((e for e in events if e.get("ph") == "X"), key=lambda event: event["ts"])
    launched = {
        e["args"]["correlation"]: e["ts"]
        for e in timed
        if e["cat"] in ("cuda_runtime", "cuda_driver")
    }
    # a replay that began before the recording has no launch in it
    work = [e for e in timed if e["cat"] in WORK and e["args"]["correlation"] in launched]
    work.sort(key=lambda e: launched[e["args"]["correlation"]])
    ranges = [e for e in timed if e["name"] == region and e["cat"] == "user_annotation"]
    return [
        Call(
            [e for e in work if _in(launched[e["args"]["correlation"]], each)],
            [e for e in timed if e["cat"] == "cpu_op" and _in(e["ts"], each)],
        )
        for each in ranges
    ]


def _in(moment: float, event: dict[str, Any]) -> bool:
    return bool(event["ts"] <= moment < event["ts"] + event["dur"])


@cache
def opened(path: str) -> ft.Trace:
    return ft.open(path, cache=False)


def wall_us(name: str) -> float:
    path = recordings.find(name)
    assert path is not None
    record = json.loads(path.with_name(f"{name}.run.json").read_text())
    return float(record["timing"]["wall_ns_per_call"]) / 1000


def answers(number: int) -> list[str]:
    played = Sitting(lesson(str(number)), opened)
    return [right_answer(step, played.scene(step)) for step in played.lesson.steps]


def median_call(found: list[Call]) -> Call:
    return sorted(found, key=lambda call: call.time(""))[len(found) // 2]


def test_matmul_add() -> None:
    kernels, busy, bound, compiled = answers(1)
    small = calls("matmul_add_eager_64_bf16", "matmul_add")
    assert {str(len(call.kernels)) for call in small} == {kernels}
    assert small[0].time("") / wall_us("matmul_add_eager_64_bf16") < 0.1
    assert busy == "1"
    large = median_call(calls("matmul_add_eager_4096_bf16", "matmul_add"))
    assert large.time("nvjet") / large.time("") > 0.8
    rate = 2 * 4096**3 / large.time("nvjet") / 1e6  # TFLOP/s
    assert rate > 0.7 * 989
    assert bound == "3"
    for call in calls("matmul_add_compiled_4096_bf16", "matmul_add"):
        assert [e["cat"] for e in call.work] == ["gpu_memcpy", "gpu_memset", "kernel"]
    assert compiled == "2"


def test_linear() -> None:
    kernels, view, ops, deep = answers(2)
    for call in calls("linear_eager_1024x32x64_bf16", "linear_fwd"):
        assert str(len(call.work)) == kernels
        assert "_bias_" in call.kernels[0]
        assert str(len({e["name"] for e in call.ops})) == ops
    assert view == "3"
    for call in calls("linear_eager_8x32x64x128_bf16", "linear_fwd"):
        (addmm,) = [e for e in call.ops if e["name"] == "aten::addmm"]
        assert addmm["args"]["Input Dims"][:3] == [[64], [1024, 32], [32, 64]]
    assert deep == "2"


def test_kernel_names() -> None:
    layout, kernels, vec, _ = answers(3)
    for call in calls(EAGER, "mlp_fwd"):
        gate, up, gelu, _, down = call.kernels
        assert all(name.endswith("_TNT") for name in (gate, up, down))
        assert (gate == up, gate == down) == (True, False)
        assert f"vectorized_elementwise_kernel<{vec}," in gelu
    assert (layout, kernels) == ("2", "2")


def test_bounds() -> None:
    host, gelu, rate, whole = answers(4)
    (linear, *_) = calls("linear_eager_1024x32x64_bf16", "linear_fwd")
    assert linear.time("") / wall_us("linear_eager_1024x32x64_bf16") < 0.15
    times = [call.time("GeluCUDAKernelImpl") for call in calls(EAGER, "mlp_fwd")]
    measured = [2 * 8192 * 3072 * 2 / time / 1e6 for time in times]  # TB/s: it reads and writes
    assert min(measured) - 0.01 <= float(rate) <= max(measured) + 0.01
    assert (host, gelu, whole) == ("2", "2", "3")


def test_mlp() -> None:
    kernels, order, rows, share = answers(5)
    found = calls(EAGER, "mlp_fwd")
    assert {str(len(call.kernels)) for call in found} == {kernels}
    words = [("nvjet", "nvjet", "Gelu", "MulFunctor", "nvjet")]
    assert all(
        word in name for call in found for word, name in zip(words[0], call.kernels, strict=True)
    )
    assert order == "2"
    shapes = {str(e["args"]["Input Dims"][0][0]) for e in found[0].ops if e["name"] == "aten::mm"}
    assert shapes == {rows}
    call = median_call(found)
    assert abs(100 * call.time("elementwise") / call.time("") - float(share)) < 0.1


def test_compile_it() -> None:
    kernels, products, wall, order = answers(6)
    eager, compiled = calls(EAGER, "mlp_fwd"), calls(COMPILED, "mlp_fwd")
    assert {str(len(call.kernels)) for call in compiled} == {kernels}
    names = [[n for n in call.kernels if "nvjet" in n] for call in (*eager, *compiled)]
    assert all(each == names[0] for each in names)
    assert 0.8 < wall_us(COMPILED) / wall_us(EAGER) < 1
    other = median_call(calls("mlp_compiled", "mlp_fwd"))
    assert other.time("triton") / median_call(compiled).time("triton") < 0.75
    assert (products, wall, order) == ("1", "2", "2")


def test_by_hand() -> None:
    kernels, time, launch, ours = answers(7)
    liger = calls("mlp_liger_64x128x768x3072_bf16", "mlp_fwd")
    assert {str(len(call.kernels)) for call in liger} == {kernels}
    ratio = median_call(liger).time("geglu") / median_call(calls(COMPILED, "mlp_fwd")).time(
        "triton"
    )
    assert ratio < 0.9
    fused = calls("mlp_fused_64x128x768x3072_bf16", "mlp_fwd")
    assert {str(len(call.kernels)) for call in fused} == {ours}
    (first, *_) = [e for e in fused[0].ops if e["name"] == "aten::mm"]
    assert first["args"]["Input Dims"][1] == [768, 2 * 3072]
    assert (time, launch) == ("1", "2")


def test_attention() -> None:
    copies, math, flash, cudnn = answers(8)
    naive = calls("attention_naive_8x16x1024x64_bf16", "attn_fwd")
    assert {str(sum(e["cat"] == "gpu_memcpy" for e in call.work)) for call in naive} == {copies}
    found = {
        name: median_call(calls(f"attention_{name}_8x16x1024x64_bf16", "sdpa_fwd"))
        for name in ("math", "flash", "cudnn")
    }
    assert found["math"].time("") / median_call(naive).time("") > 2
    assert all("f32f32_f32" in name for name in found["math"].kernels if "gemm" in name)
    assert str(len(found["flash"].kernels)) == flash
    assert found["cudnn"].time("") / found["flash"].time("") < 0.9
    assert (math, cudnn) == ("3", "3")


def test_decoding() -> None:
    launches, head, graph, copies = answers(10)
    eager, replay, mode = (
        calls(f"llama_decode_{name}", "decode")
        for name in ("eager_2layers", "cuda_graph_2layers", "reduce_overhead")
    )
    assert all(len(call.work) == len(correlations(call)) > 40 for call in eager)
    assert median_call(eager).time("") / wall_us("llama_decode_eager_2layers") < 0.5
    (*_, last, _) = median_call(eager).work  # argmax follows the head
    rate = (768 * 32000 + 768 + 32000) * 2 / last["dur"] / 1e6  # TB/s
    assert 0.6 * 4.8 < rate < 4.8  # memory: an H200 reads 4.8 TB/s
    names = sorted(eager[0].kernels)
    assert all(sorted(call.kernels) == names for call in (*eager, *replay))
    assert all(len(correlations(call)) == 1 for call in replay)
    for call in mode:
        memcpys = [e for e in call.work if e["cat"] == "gpu_memcpy"]
        # token, cosine, sine, keys and values of twelve blocks
        assert len(memcpys) == 3 + 2 * 12
        assert len(correlations(call)) == len(memcpys) + 1
    assert (launches, head, graph, copies) == ("3", "2", "2", "2")


def correlations(call: Call) -> set[int]:
    return {e["args"]["correlation"] for e in call.work}


def test_training() -> None:
    products, loop, wall, fused = answers(9)
    name = "train_step_{}_4x512x4x768x12x3072x32000_bf16".format

    def optimizer(variant: str) -> int:
        return len(calls(name(variant), "optimizer")[0].kernels)

    # cuBLAS names its products nvjet here, and a name of the split-K reduction has another word
    forward, backward = (
        [k for k in calls(name("foreach"), region)[0].kernels if "nvjet" in k]
        for region in ("forward", "backward")
    )
    assert (len(backward), str(len(backward))) == (2 * len(forward), products)
    assert optimizer("forloop") > 4 * optimizer("foreach")
    assert str(optimizer("fused")) == fused
    assert wall_us(name("forloop")) > 1.05 * wall_us(name("foreach"))
    assert (loop, wall) == ("3", "3")


def test_compiler_log() -> None:
    reason, matmuls, tuned, again = answers(11)
    default, autotuned, graph = (
        median_call(calls(name, "mlp_fwd"))
        for name in ("mlp_why", "mlp_max_autotune", "mlp_reduce_overhead")
    )
    gemms = [name for name in default.kernels if name.startswith("nvjet")]
    assert [name for name in autotuned.kernels if name.startswith("nvjet")] == gemms
    assert autotuned.time("triton_poi") < 0.7 * default.time("triton_poi")
    assert wall_us("mlp_max_autotune") > wall_us("mlp_why")
    threads = [
        {e["args"]["block"][0] for e in call.work if e["name"].startswith("triton_poi")}
        for call in (default, autotuned, graph)
    ]
    assert threads == [{256}, {128}, {256}]
    assert (reason, matmuls, tuned, again) == ("1", "2", "2", "1")


def test_what_the_log_of_max_autotune_timed() -> None:
    """cuBLAS against the best Triton template, in the order of the matmuls, us."""
    path = recordings.explained()["mlp_max_autotune"]
    log = gzip.decompress(
        path.with_name("mlp_max_autotune.why").joinpath("torch_trace.log.gz").read_bytes()
    )
    lines = [line for line in log.decode().splitlines() if '"autotune_choices_stats"' in line]
    found = [
        json.loads(json.loads(f"{{{line.strip().rstrip(',')}}}")["autotune_choices_stats"])
        for line in lines
    ]
    assert [each["num_triton_choices"] for each in found] == [19, 20, 19]
    assert {each["best_kernel"] for each in found} == {"mm"}
    timed = [
        (round(each["best_time"] * 1e3, 1), round(each["best_triton_time"] * 1e3, 1))
        for each in found
    ]
    assert timed == [(58.8, 69.0), (59.7, 68.6), (56.2, 61.2)]  # as docs/why.md has them


def test_copies() -> None:
    kernels, gpu, compiled, cached = answers(12)
    name, copy = "mlp_liger_packed_64x128x768x3072_bf16", "direct_copy_kernel"
    packed, liger = (
        median_call(calls(each, "mlp_fwd")) for each in (name, "mlp_liger_64x128x768x3072_bf16")
    )
    assert (str(len(packed.kernels)), len(liger.kernels)) == (kernels, 4)
    assert sum(copy in each for each in packed.kernels) == 2
    assert packed.time(copy) > 2 * packed.time("_geglu")
    assert packed.time("") > 1.5 * liger.time("")
    both = median_call(calls("mlp_packed_why", "mlp_fwd"))
    assert both.time("triton_poi_fused_clone") < 0.5 * packed.time(copy)
    assert both.time("") < 0.8 * packed.time("")
    assert wall_us("mlp_packed_why") > 1.2 * wall_us(name)
    gemma = median_call(calls("model_gemma_4x512x4x768x12x3072x32000_bf16", "model_fwd"))
    mlp = median_call(calls(EAGER, "mlp_fwd"))
    assert abs(gemma.time("GeluCUDA") / mlp.time("GeluCUDA") - 1) < 0.05
    assert (gpu, compiled, cached) == ("3", "2", "2")


def test_memory() -> None:
    """The most that the memory events of each step count, and what a step adds."""
    path = recordings.find("keeps_outputs")
    assert path is not None
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    on_gpu = [
        e for e in events if e.get("name") == "[memory]" and e["args"].get("Device Type") == 1
    ]
    steps = [
        e
        for e in events
        if str(e.get("name")).startswith("ProfilerStep#") and e["cat"] == "user_annotation"
    ]
    steps.sort(key=lambda step: step["ts"])
    peaks, reserved = (
        [max(e["args"][f"Total {word}"] for e in on_gpu if _in(e["ts"], step)) for step in steps]
        for word in ("Allocated", "Reserved")
    )
    output = 512 * 8192 * 4
    assert [after - before for before, after in itertools.pairwise(peaks)] == [output, output]
    weights = 4 * (256 * 1024 + 1024 + 1024 * 8192 + 8192)
    assert 4 * weights < 140e6 < 300e6 < peaks[0]
    assert peaks[-1] < reserved[-1] < 1.1 * peaks[-1]
    assert answers(13) == ["3", "2", "2"]
