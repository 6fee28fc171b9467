"""Each quantity on a recording: one hit, one near miss, and unknown where its data is not there.

Also what chooses kernels: groups, roles, types, ops, names, modules, lines, and absent data.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from check.conftest import H200, recorded, without
from corpus.builder import TraceBuilder
from foretrace.check import check
from foretrace.check.language import Quantity
from foretrace.check.marking import read
from foretrace.check.quantities import QUANTITIES, quantities
from foretrace.check.snapshot import check_snapshot
from foretrace.cli import main
from foretrace.read.compiler.records import (
    Compilation,
    CompiledLaunch,
    CompilerRun,
    FxGraph,
    GraphNode,
    KernelCall,
    SourceLine,
)
from foretrace.read.ledger import Ledger
from foretrace.read.recordings import snapshots
from foretrace.trace.allocator.view import MemoryView, view_of
from foretrace.trace.trace import Trace
from look.rules.sketch import ADD, GEMM, Sketch, kernel, memcpy
from opened_traces import open_made, opened, recording
from sweep import looped

TESTS = Path(__file__).parents[1]
COMPILED = TESTS / "data" / "compile"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
SHAPES = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")

# recording | hit | near miss | without what the hit is unknown: the GPU, calls, shapes, ops, or
# what the recording does not have (-: nothing can be missing)
TABLE = """
mlp_eager | kernels == 5 | kernels == 4 | gpu
mlp_eager | count(gemm) == 3 | count(gemm) == 2 | gpu
mlp_eager | memcpys == 0 | memcpys == 1 | gpu
mlp_eager | memsets == 2 | memsets == 0 | gpu
mlp_eager | launches == 5 | launches == 7 | calls
mlp_eager | launches(aten::mm) == 5 | launches(aten::mm) == 3 | gpu
mlp_eager | launches(aten::t, aten::reshape) == 0 | launches(aten::t, aten::reshape) == 1 | gpu
graph_replay | graph_launches == 3 | graph_launches == 1 | calls
mlp_eager | waits == 0 | waits == 1 | calls
llama | waits(item) == 1 | waits(item) == 0 | calls
mlp_eager | calls(aten::linear) == 3 | calls(aten::linear) == 9 | ops
mlp_eager | calls(cudaLaunchKernel) == 2 | calls(cudaLaunchKernel) == 5 | calls
mlp_eager | distinct(op) == 11 | distinct(op) == 29 | ops
mlp_eager | ops == 29 | ops == 11 | ops
mlp_eager | names == 4 | names == 5 | gpu
mlp_eager | names(gemm) == 2 | names(gemm) == 3 | gpu
streams_overlap | streams == 2 | streams == 1 | gpu
mlp_eager | steps == 3 | steps == 4 | steps
mlp_eager | time(gemm) == 164 us | time(gemm) == 165 us | gpu
mlp_eager | bytes(gemm) == 202.9 MB | bytes(gemm) == 203.1 MB | shapes
mlp_eager | flops(gemm) == 116 GFLOP | flops(gemm) == 117 GFLOP | shapes
mlp_eager | bandwidth(gemm) == 1.24 TB/s | bandwidth(gemm) == 1.25 TB/s | shapes
mlp_eager | rate(gemm) == 708 TFLOP/s | rate(gemm) == 709 TFLOP/s | shapes
mlp_eager | share(gemm) == 69.9% | share(gemm) == 69.8% | gpu
mlp_eager | total.max(time(gemm)) < 60 us | total.max(time(gemm)) < 55 us | gpu
mlp_eager | total.min(time(gemm)) > 50 us | total.min(time(gemm)) > 52 us | gpu
mlp_eager | total.mean(time(gemm)) ~ 54.5 us (± 1%) | total.mean(time(gemm)) ~ 58 us (± 1%) | gpu
mlp_eager | total.median(time(gemm)) ~ 55.7 us (± 1%) | total.median(time(gemm)) < 54 us | gpu
mlp_eager | spread(time(gemm)) < 20% | spread(time(gemm)) < 3% | gpu
mlp_eager | each(flops(gemm)) == 38.65 GFLOP | each(flops(gemm)) == 38.64 GFLOP | shapes
mlp_eager | some(tile(gemm)) == 192x128 | some(tile(gemm)) == 192x256 | gpu
mlp_eager | step.time == 253 us | step.time == 327 us | gpu
mlp_eager | step.recorded == 327 us | step.recorded == 253 us | gpu
mlp_eager | host.time == 317 us | host.time == 253 us | no steps
mlp_eager | host.time(aten::mm) == 114 us | host.time(aten::mm) == 38 us | ops
mlp_eager | gpu.time == 234 us | gpu.time == 253 us | gpu
mlp_eager | gpu.busy == 92.6% | gpu.busy == 72.2% | gpu
mlp_eager | gpu.idle == 7.4% | gpu.idle == 27.8% | gpu
mlp_eager | idle.launch > 10% | idle.launch > 20% | gpu
mlp_eager | idle.host == 10.0% | idle.host == 9.0% | gpu
mlp_eager | idle.queue < 7% | idle.queue < 5% | gpu
mlp_eager | idle.sync == 0% | idle.sync > 1% | gpu
mlp_eager | idle.copy == 0% | idle.copy > 1% | gpu
mlp_eager | idle.capture == 0% | idle.capture > 1% | gpu
mlp_eager | idle.profiler == 0% | idle.profiler > 1% | gpu
mlp_eager | idle.unknown == 0% | idle.unknown > 1% | gpu
llama | idle.inside(aten::item) == 0.4% | idle.inside(aten::item) == 4% | ops
mlp_eager | gap.longest == 84.4 us | gap.longest == 8.44 us | gpu
mlp_eager | gap.cause == launch | gap.cause == host | gpu
mlp_eager | bound == compute | bound == host | gpu
mlp_eager | mfu == 34.6% | mfu == 50.0% | shapes
mlp_eager | mbu == 27.9% | mbu == 40.4% | shapes
mlp_eager | gpu.mfu == 50.0% | gpu.mfu == 34.6% | shapes
mlp_eager | gpu.mbu == 40.4% | gpu.mbu == 27.9% | shapes
mlp_eager | card == H200 | card == H100 | header
llama | speedup(compile) == 3.69 | speedup(compile) > 4 | gpu
llama | after(compile).step == 1.95 ms | after(compile).step < 1.9 ms | gpu
llama | predicted.step(compile) == 1.95 ms | predicted.step(compile) == 7.19 ms | gpu
mlp_compiled | fused(gelu, mul) | not fused(gelu, mul) | gpu
mlp_eager | not fused(gelu, mul) | fused(gelu, mul) | gpu
mlp_eager | not epilogue(gemm, gelu) | epilogue(gemm, gelu) | gpu
mlp_eager | tensor_cores(gemm) | not tensor_cores(gemm) | gpu
mlp_eager | order(gate, gelu, up, mul, down) | order(gate, up, gelu, mul, down) | gpu
mlp_eager | order(gemm, gelu, gemm, mul, gemm) | order(gemm, gelu, gemm, mul) | gpu
mlp_eager | before(gelu, mul) | before(mul, gelu) | gpu
mlp_eager | under(gemm, aten::linear, aten::mm) | under(gemm, aten::mm, aten::linear) | gpu
mlp_eager | preceded(gemm, memset) == 2 | preceded(gemm, memset) == 3 | gpu
streams_overlap | in step 2: overlap(stream 13, stream 17) == 77.9% | in step 2: overlap(stream 13, stream 17) > 90% | gpu
mlp_eager | dtype(gemm) == bf16 | dtype(gemm) == fp32 | gpu
mlp_eager | dtype(gemm) in (bf16, fp32) | dtype(gemm) in (fp16, fp32) | gpu
mlp_eager | library(gemm) == cublas | library(gemm) == cutlass | gpu
mlp_eager | template(gelu) == vectorized_elementwise_kernel | template(gelu) == "unrolled*" | gpu
mlp_eager | functor(gelu) == "Gelu*" | functor(gelu) == "Silu*" | gpu
mlp_eager | arch(gemm) == sm90 | arch(gemm) == sm80 | gpu
mlp_eager | family(gemm) == nvjet | family(gemm) == cutlass3 | gpu
mlp_eager | layout(gemm) == tn | layout(gemm) == nn | gpu
mlp_eager | some(tile(gemm)) == 256x128 | tile(gemm) == 256x128 | gpu
mlp_eager | registers(gemm) == 168 | registers(gemm) >= 169 | gpu
mlp_eager | shared_memory(gemm) > 200000 | shared_memory(gemm) < 220000 | gpu
mlp_eager | occupancy(gelu) == 100 | occupancy(gelu) < 100 | gpu
mlp_eager | grid(gemm) == 2x66 | grid(gemm) == 66x2 | gpu
mlp_eager | block(gemm) == 384x1x1 | block(gemm) == 256 | gpu
mlp_eager | vec(gelu) == 8 | vec(gelu) == 4 | gpu
mlp_eager | splitk(gemm) == no | splitk(gemm) == yes | gpu
mlp_eager | stages(gemm) >= 4 | stages(gemm) > 4 | gpu
attention_train_flash | some(causal(attention)) == yes | causal(attention) == no | gpu
attention_train_flash | some(head_dim(attention)) == 128 | some(head_dim(attention)) == 64 | gpu
mlp_eager | roof(gemm) > 77 | roof(gemm) > 80 | shapes
mlp_eager | limited(gemm) == compute | limited(gemm) == memory | shapes
mlp_eager | launcher(gemm) == cuLaunchKernelEx | launcher(gemm) == cudaLaunchKernel | gpu
mlp_eager | caller(gemm) == aten::mm | caller(gemm) == aten::linear | gpu
mlp_compiled | category(pointwise) == pointwise | category(pointwise) == reduction | gpu
mlp_eager | epilogue(gemm) == none | epilogue(gemm) == bias | gpu
mlp_eager | in mlp_fwd: name(first gemm) == name(second gemm) | in mlp_fwd: name(first gemm) == name(last gemm) | gpu
mlp_eager | shapes(aten::gelu) == 64x128x3072 | shapes(aten::gelu) == 64x128x768 | shapes
mlp_eager | some(strides(aten::mm)) == "768x1, 1x768" | strides(aten::mm) == "768x1, 1x768" | shapes
mlp | graph_breaks == 0 | graph_breaks == 1 | mlp_eager
unfusable | graph_breaks == 1 | graph_breaks == 0 | mlp_eager
recompiles | recompiles == 1 | recompiles == 0 | mlp_eager
mlp | graphs == 1 | graphs == 2 | mlp_eager
mlp | compile.time < 4 s | compile.time < 3 s | mlp_eager
mlp | separated(matmul, gelu) == extern | separated(matmul, gelu) == sizes | mlp_eager
mlp | separated(gelu, mul) == fused | separated(gelu, mul) == extern | mlp_eager
unfusable | separated(softmax, sort) == graph_break | separated(softmax, sort) == extern | mlp_eager
unfusable | separated(sum, amax) == sizes | separated(sum, amax) == extern | mlp_eager
mlp | kernels("record.py:27") == 4 | kernels("record.py:27") == 1 | mlp_eager
mlp | each(bytes(pointwise)) == 151 MB | each(bytes(pointwise)) == 150 MB | -
unfusable | kernels("record.py:53") == 5 | kernels("record.py:53") == 4 | mlp_eager
"""
ROWS = [[part.strip() for part in line.split(" | ")] for line in TABLE.strip().splitlines()]
ELSEWHERE = {"same", "peak", "peak.reserved", "peak.held", "growth"}  # below


@cache
def _opened(name: str) -> Trace:
    if (COMPILED / name).is_dir():
        return ft.open(COMPILED / name / "trace.json.gz", cache=False)
    return opened(recording(name))


@looped(("name", "hit", "miss"), [row[:3] for row in ROWS])
def test_a_hit_and_a_near_miss(name: str, hit: str, miss: str) -> None:
    found, near = check(_opened(name), [hit, miss])
    assert found.verdict == "hit", found
    assert near.verdict == "miss", near
    assert near.measured or near.why


def test_each_quantity_is_tried() -> None:
    named = {
        node.name
        for row in ROWS
        for text in row[1:3]
        for node in read(text).walk()
        if isinstance(node, Quantity)
    }
    assert {"after"} | set(QUANTITIES) == {"after"} | named - {"step"} | ELSEWHERE


def test_each_quantity_has_a_manual() -> None:
    for each in quantities():
        assert each.manual.endswith((".", ")", ":", "`")) or len(each.manual) > 10, each.name


def _lacking(folder: Path, name: str, what: str) -> Trace:
    drops: dict[str, Callable[[dict[str, Any]], bool]] = {
        "gpu": lambda event: event.get("cat") in GPU,
        "calls": lambda event: event.get("cat") in CALLS,
        "ops": lambda event: event.get("cat") in ("cpu_op", *CALLS, "user_annotation"),
        "steps": lambda event: "ProfilerStep" in str(event.get("name")),
        "no steps": lambda event: "ProfilerStep" in str(event.get("name")),
    }
    path = recording(name)
    document = json.loads(gzip.decompress(path.read_bytes()))
    drop = drops.get(what, lambda event: False)
    events = [event for event in document["traceEvents"] if not drop(event)]
    for event in events if what == "shapes" else ():
        for key in SHAPES:
            event.get("args", {}).pop(key, None)
    if what == "header":
        document["deviceProperties"] = []
    return open_made({**document, "traceEvents": events}, folder, f"{name}_{what}")


def test_without_its_data_each_is_unknown(tmp_path: Path) -> None:
    wrong, traces = [], dict[tuple[str, str], Trace]()
    for name, hit, _, what in ROWS:
        if what == "-":
            continue
        if what == "mlp_eager":
            trace = recorded(what)
        else:
            if (name, what) not in traces:
                traces[name, what] = _lacking(tmp_path, name, what)
            trace = traces[name, what]
        [found] = check(trace, hit)
        if found.verdict != "unknown" or not found.why:
            wrong.append(f"{hit} without {what}: {found.verdict} {found.measured} {found.why}")
    assert not wrong, "\n".join(wrong)


def test_a_lost_kernel_leaves_open_what_it_could_overturn(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((H200 / "mlp_eager.json.gz").read_bytes()))
    first = next(event for event in document["traceEvents"] if event.get("cat") == "kernel")
    torn = without(tmp_path, "mlp_eager", drop=lambda event: event == first)
    verdicts = {
        "total.kernels == 15": "unknown",
        "total.kernels == 14": "unknown",
        "total.kernels >= 14": "hit",
        "total.kernels < 14": "miss",
        "total.kernels <= 13": "miss",
        "total.memcpys == 0": "unknown",
        "in step 4: kernels == 5": "hit",
    }
    assert {each.text: each.verdict for each in check(torn, list(verdicts))} == verdicts


@pytest.mark.sweep(3)
@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.999])
def test_what_a_cut_trace_decides_is_decided_as_on_the_whole(tmp_path: Path, share: float) -> None:
    data = gzip.decompress((H200 / "mlp_eager.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(data[: int(len(data) * share)])
    texts = [text for row in ROWS if row[0] == "mlp_eager" for text in row[1:3]]
    texts += ["kernels == 0", "total.kernels <= 15", "steps == 3", "total.calls(aten::mm) != 8"]
    right = {each.text: each.verdict for each in check(recorded("mlp_eager"), texts)}
    for found in check(ft.open(path, cache=False), texts):
        assert found.verdict in ("unknown", right[found.text]) or (
            found.verdict == "error" and "in this trace" in found.why
        ), found


# ---- what a quantity is of


@looped(
    ("text", "verdict"),
    [
        ("time(second) == 30 us", "hit"),
        ("count(aten::mm) == 2", "hit"),
        ("count(mm) == 2", "hit"),
        ("count(matmul) == 2", "hit"),
        ("count(add) == 1", "hit"),
        ("count(pointwise) == 1", "hit"),
        ("count(gemm bf16) == 2", "hit"),
        ("count(gemm fp32) == 0", "hit"),
        ('count("nvjet*") == 2', "hit"),
        ('count("void at::native*") == 1', "hit"),
        ("count(*elementwise*) == 1", "hit"),
        ("count(copy HtoD) == 1", "hit"),
        ("count(copy pinned) == 0", "hit"),
        ("bytes(copy HtoD) == 4096 B", "hit"),
        ("count(kernel stream 7) == 3", "hit"),
        ("count(stream 8) == 0", "hit"),
        ("count(kernel under aten::linear) == 1", "hit"),
        ("in aten::linear: kernels == 1", "hit"),
        ("in part: kernels == 3", "hit"),
        ('in "par*": kernels == 3', "hit"),
        ("in step 1: kernels == 3", "hit"),
        ("time(first gemm) == 50 us", "hit"),
        ("time(last gemm) == 30 us", "hit"),
        ('time("GEMM, M=64") == 80 us', "hit"),
        ('time("GEMM, M=65") == 80 us', "error"),
        ("count(mull) == 0", "error"),
        ("count(gem) == 0", "error"),
        ("in nowhere: kernels == 3", "error"),
        ("in step 7: kernels == 3", "error"),
        ("in module Llama: kernels == 1", "unknown"),
        ('kernels("model.py:3") == 0', "unknown"),
        ("a.kernels == 3", "unknown"),
    ],
)
def test_selectors(text: str, verdict: str) -> None:
    [found] = check(_sketch(), text)
    assert found.verdict == verdict, found


@cache
def _sketch() -> Trace:
    import tempfile

    dims = [[64, 64], [64, 64]]
    made = Sketch()
    for _ in range(2):
        made.step().region("part")
        made.op("aten::copy_", memcpy("Memcpy HtoD (Pageable -> Device)", 5, 4096))
        made.op("aten::linear > aten::mm", kernel(GEMM, 50, stream=7), dims=dims)
        made.op("aten::mm", kernel(GEMM, 30), dims=dims).op("aten::add", kernel(ADD, 5), dims=dims)
        made.sync()
    return open_made(made, Path(tempfile.mkdtemp()))


def test_a_miss_shows_the_kernels_and_their_ops() -> None:
    [verdict] = check(recorded("mlp_eager"), "in mlp_fwd: fused(gelu, mul)")
    assert verdict.verdict == "miss"
    assert verdict.slice == (
        "call 1 of mlp_fwd:",
        " 33.2 us  gelu · cudaLaunchKernel · aten::gelu",
        " 36.7 us  mul bf16 · cudaLaunchKernel · aten::mul",
    )
    kernels = recorded("mlp_eager").kernels
    assert kernels.filter(kernels["id"].is_in(verdict.events))["op_name"].to_list() == [
        "aten::gelu",
        "aten::mul",
    ]


def test_the_same_kernels_in_two_recordings() -> None:
    one, other = recorded("mlp_eager"), recorded("mlp_compiled")
    texts = ["in mlp_fwd: same(gemm)", "same(op)", "same(kernel)", "same(gemm, footprint)"]
    assert [each.verdict for each in check(one, texts, other)] == ["hit", "miss", "miss", "hit"]
    again = opened(TESTS / "recorded" / "mlp_eager_again.json.gz")
    assert [each.verdict for each in check(again, texts, one)] == ["hit"] * 4


# ---- lines of source, by the compiler's records

GATE, DOWN = (SourceLine("/home/me/layers/model.py", line) for line in (41, 42))
GRAPH = FxGraph("dynamo", (GraphNode("gelu", "torch._C._nn.gelu", source=GATE),))
COMPILATION = Compilation("0/0", graphs=(GRAPH,))
RUN = CompilerRun("run.why", (COMPILATION,), Ledger(9, 9, 0, 0))


@cache
def _lines() -> Trace:
    """The compiled MLP: gate, up and the fused kernel from one line, down from another."""
    trace = ft.open(H200 / "mlp_compiled.json.gz", cache=False)
    gpu, host = trace.gpu, trace.host
    events = gpu.id[gpu.launch_order[gpu.is_kernel[gpu.launch_order]]].tolist()
    names = [host.names[host.name[event]] for event in events]
    found = {}
    for at, (event, name) in enumerate(zip(events, names, strict=True)):
        lines = (DOWN,) if at % 4 == 3 else (GATE,)
        call = KernelCall(name, "triton" not in name, sources=lines)
        found[event] = CompiledLaunch(COMPILATION, call)
    trace.compiled = found
    trace.compiler_records.use(RUN)
    return trace


@looped(
    ("text", "verdict"),
    [
        ('kernels("model.py:41") == 3', "hit"),
        ('kernels("model.py:42") == 1', "hit"),
        ('kernels("layers/model.py:42") == 1', "hit"),
        ('kernels("other/model.py:42") == 0', "hit"),
        ('in mlp_fwd: count(pointwise "model.py:41") == 1', "hit"),
        ('in mlp_fwd: count(pointwise "model.py:42") == 0', "hit"),
        ('kernels("model.py") == 4', "hit"),
        ('kernels("model.py:41") == 1', "miss"),
        ('total.count(gemm "model.py:41") == total.count(gemm)', "miss"),
    ],
)
def test_lines_of_compiled_kernels(text: str, verdict: str) -> None:
    [found] = check(_lines(), text)
    assert (found.verdict, found.why) == (verdict, "")


# ---- memory: a snapshot of the allocator alone, and beside a trace

LEAK = snapshots()["gpt_leak"]


@cache
def _leak() -> MemoryView:
    return view_of(str(LEAK))


@looped(
    ("text", "verdict", "said"),
    [
        ("growth(2, 7) <= 0 B", "miss", ""),
        ("growth <= 0 B", "miss", ""),
        ("peak < 3 GB", "hit", "2.38 GB"),
        ("peak.reserved < 2 GB", "miss", "2.43 GB"),
        ("peak.held(activations) < 1 GB", "hit", "596.3 MB"),
        ("peak.held(optimizer_state) < 300 MB", "miss", "335.8 MB"),
        ("growth(2, 90) <= 0 B", "unknown", ""),
        ("kernels == 5", "unknown", ""),
        ("peak.held(activations) < 1 furlong", "error", "furlong"),
    ],
)
def test_what_a_snapshot_decides(text: str, verdict: str, said: str) -> None:
    [found] = check_snapshot(_leak(), text)
    assert found.verdict == verdict, found
    assert said in found.measured + found.why


def test_a_snapshot_beside_a_trace_decides(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TESTS / "recorded" / "sgd_fused.json.gz", tmp_path / "run.json.gz"))
    texts = ["peak.held(gradients) < 1 GB", "peak < 3 GB", "growth <= 0 B", "kernels > 0"]

    def marked() -> list[str]:
        return [each.verdict for each in ft.check(trace, texts)]

    assert marked() == ["unknown"] * 3 + ["hit"]
    (tmp_path / "run.memory.pickle").write_bytes(lzma.decompress(LEAK.read_bytes()))
    assert marked() == ["hit", "hit", "miss", "hit"]
    (tmp_path / "run.memory.pickle").write_bytes(b"not a pickle")
    assert marked() == ["unknown"] * 3 + ["hit"]


def test_hostile_names_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "hostile.json"
    trace.write_bytes(TraceBuilder().kernel("bad\x1b[31mname", 10, 5, correlation=1).bytes())
    assert main(["check", str(trace), "kernels == 0", "--no-cache"]) == 1
    assert "\x1b" not in capsys.readouterr().out
