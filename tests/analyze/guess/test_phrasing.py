"""What people write who know PyTorch and not the grammar: read, or answered with what to write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyze.guess.conftest import recorded
from analyze.rules.sketch import COPY, GEMM, MUL, Sketch, kernel, memcpy
from foretrace.analyze.guess import Guess, GuessError, check, parse
from foretrace.analyze.guess.suggesting import suggestion
from sweep import looped

# written -> how the language says it
SAID = """
kernels per step > 500 = per step: kernels > 500
kernels == 5 in mlp_fwd = in mlp_fwd: kernels == 5
exactly 5 kernels in each call of mlp_fwd = in mlp_fwd: kernels == 5
IN mlp_fwd: FIVE Kernels = in mlp_fwd: kernels == 5
at most 5 kernels per step = per step: kernels <= 5
in every step: kernels is at most five = per step: kernels <= 5
in mlp_fwd: no memcpy = in mlp_fwd: memcpy == 0
in mlp_fwd: gemm time about 160us = in mlp_fwd: gemm time == 160 us +- 10%
all gemms have shared_memory > 100000 = every gemm has shared memory > 100 kB
there are no syncs in the step = per step: sync == 0
no .item() calls per step = per step: item == 0
each step launches more than 100 kernels = per step: kernels > 100
I expect 5 kernels per step = per step: kernels == 5
exactly 3 matmuls in mlp_fwd = in mlp_fwd: matmul == 3
elementwise kernels == 2 per step = per step: pointwise == 2
number of kernels is 15 = kernels == 15
kernels == 52,856 = kernels == 52856
at most 3 streams = streams <= 3
dtype casts < 10 = casts < 10
h2d copies == 0 = htod memcpy == 0
memcpy HtoD == 1 = htod memcpy == 1
memory copies < 5 per step = per step: memcpy < 5
uses cuda graphs = graphs >= 1
mlp_fwd: kernels == 5 = in mlp_fwd: kernels == 5
kernels in mlp_fwd == 5 = in mlp_fwd: kernels == 5
the step is host-bound = bound is host
it is memory bound = bound is memory
is it memory bound? = bound is memory
launch bound = bound is host
bound is overhead = bound is host
the model is not compute bound = bound is not compute
data loading is the bottleneck = gpu waits for dataloader
the GPU is idle more than 50% = gpu idle > 50%
gpu utilization > 90% = gpu busy > 90%
the GPU sits idle 30% of the time = gpu idle == 30%
softmax is memory-bound = every softmax is memory-bound
layernorm is memory bound = every layer_norm is memory-bound
gemms run in bf16 = every gemm is bf16
gemms are in bf16 = every gemm is bf16
all matmuls use tensor cores = every matmul is tensor-core
nothing runs in fp32 = no kernel is fp32
attention uses flash attention = every attention is flash
attention backend is cudnn = every attention is cudnn
attention is causal = every attention has causal
head dim is 128 = every attention has head_dim == 128
gemm reaches 60% of peak = every gemm has roof >= 60
gemm is at the roof = every gemm has roof >= 70
relu is fused into the gemm = relu and gemm are fused
gelu and mul get fused = gelu and mul are fused
are gelu and mul fused? = gelu and mul are fused
silu and mul are in one kernel = silu and mul are fused
gelu is not fused with mul = gelu and mul are not fused
bias add is fused into the matmul = add and matmul are fused
nccl overlaps with compute = comms and compute overlap
gemm and add do not overlap = gemm and add not overlap
attention takes 20% of the time = attention time == 20% of gpu time
optimizer takes < 10% of gpu time = optimizer time < 10% of gpu time
matmuls take more than half of the time = matmul time > 50% of gpu time
gemm share > 40% = gemm time > 40% of gpu time
most of the time is spent in gemm = gemm time > 50% of gpu time
gemm dominates = gemm time > 50% of gpu time
each iteration takes less than 10 ms = per step: step time < 10 ms
the average gemm takes 50 us = average gemm time == 50 us
longest kernel < 100 us = longest kernel time < 100 us
gemm achieves at least 500 TFLOPS = gemm rate >= 500 TFLOP/s each
fewer kernels than A = kernels < A
it is faster than A = gpu time < A
vram < 6 GB = peak memory < 6 GB
there are no graph breaks = graph breaks == 0
has no recompilations = recompiles == 0
exactly 1 compiled graph = compiled graphs == 1
compilation time under 30 s = compile time < 30 s
we spend less than 5% on softmax = softmax time < 5% of gpu time
backward eats more than forward = backward time > forward time
no memcpys between host and device = host-device memcpy == 0
no kernel from model.py:41 = kernels from model.py:41 == 0
"""
PAIRS = [tuple(line.rsplit(" = ", 1)) for line in SAID.strip().splitlines()]
# What the language cannot say -> what the answer must be about.
UNSAID = {
    "fused": "are fused",
    "triton fuses silu and mul": "silu and mul are fused",
    "dynamo breaks the graph twice": "graph breaks",
    "guards fail twice": "recompiles",
    "line 41 launches one": "kernels from model.py:41",
    "memory-bound softmax please": "bound",
    "pointwise saturates bandwidth": "bandwidth",
    "throughput > 1000 tokens/s": "step time",
    "sdpa has the math backend": "attention uses",
    "who in the world waits on the GPU": "sync",
    "how many kernels?": "kernels",
    "allreduce hides nothing": "comms",
}


@looped(("written", "said"), PAIRS, ids=[written for written, _ in PAIRS])
def test_two_wordings_mean_the_same(written: str, said: str) -> None:
    assert parse(written).scope == parse(said).scope
    one, other = check(recorded("mlp_eager"), [written, said], recorded("mlp_compiled"))
    assert (one.verdict, one.measured) == (other.verdict, other.measured)
    assert one.verdict != "error"


@looped(("text", "about"), UNSAID.items(), ids=list(UNSAID))
def test_a_suggestion_is_about_the_same_matter_and_can_be_parsed(text: str, about: str) -> None:
    with pytest.raises(GuessError) as caught:
        parse(text)
    assert not caught.value.nearest
    assert about in caught.value.example
    assert isinstance(parse(caught.value.example), Guess)


def test_a_suggestion_names_two_kernels_where_the_trace_has_one_of_its_own() -> None:
    ran = suggestion("comms overlap nothing", ["comms"])
    assert ran == "comms and gemm overlap"
    assert suggestion("it fuses gelu", ["gelu"]) == "gelu and mul are fused"


def test_elementwise_copies_decide_nothing_alone(tmp_path: Path) -> None:
    """ATen's copies are `elementwise_kernel`s: the verdict must be one with and without them."""
    sketch = Sketch().step()
    sketch.op("aten::copy_", kernel(COPY, 6)).op("aten::mul", kernel(MUL, 3))
    sketch.op("aten::mm", kernel(GEMM, 4))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(sketch.document()))
    said = [f"elementwise ops take more than {share}% of kernel time" for share in (10, 50, 90)]
    assert [each.verdict for each in check(path, said)] == ["hit", "unknown", "miss"]


def test_a_statistic_is_not_the_op_of_its_name() -> None:
    guess = parse("median kernel time < 5 us")
    assert (guess.kind.name, str(guess.args["longest"])) == ("time", "median")
    assert guess.args["what"] == parse("kernel time < 5 us").args["what"]


def test_a_trace_without_backward_does_not_say_what_forward_is() -> None:
    [found] = check(recorded("mlp_eager"), ["15 forward kernels"])
    assert (found.verdict, found.why) == (
        "unknown",
        "the trace does not say whether 15 kernels are `forward`",
    )


def test_how_often_is_no_ratio_of_times() -> None:
    said = "attention runs on the cuDNN SDPA backend, 12 times forward in each step"
    [found] = check(recorded("llama_train_eager"), [said])
    assert (found.verdict, "12 times forward" in found.why) == ("error", True)


def test_a_part_of_a_name_may_be_the_top_kernel_where_it_is_one_name() -> None:
    said = ["_geglu_tanh_forward_kernel is the longest kernel", "nvjet_sm90 is the longest kernel"]
    assert [one.verdict for one in check(recorded("mlp_liger"), said)] == ["miss", "error"]


def test_a_call_of_what_was_said_is_not_every_call() -> None:
    said = "AdamW is fused, one call per step, and it costs less than 90% of the GPU time"
    [found] = check(recorded("llama_train_eager"), [said])
    assert "call" not in found.measured


def test_halves_are_no_order() -> None:
    with pytest.raises(GuessError):
        parse("48 kernels per step, half gemm, half triton")


def test_the_wait_of_the_profiler_itself_is_not_the_programs() -> None:
    found = check(recorded("linear_eager"), ["no sync", "per step: no sync", "sync == 0"])
    assert [one.verdict for one in found] == ["unknown", "hit", "miss"]
    assert "the profiler's own" in found[0].why


def test_pytorchs_own_attention_in_triton_is_triton_to_few(tmp_path: Path) -> None:
    sketch = Sketch().step()
    sketch.op("aten::_scaled_dot_product_flash_attention", kernel("attn_fwd", 6))
    sketch.op("CompiledFxGraph", kernel("triton_poi_fused_add_0", 3))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(sketch.document()))
    said = ["1 triton kernel", "3 triton kernels", "attention uses triton"]
    assert [each.verdict for each in check(path, said)] == ["unknown", "miss", "hit"]


def test_the_copies_between_host_and_gpu_may_be_meant_alone(tmp_path: Path) -> None:
    sketch = Sketch().step()
    sketch.op("aten::copy_", memcpy("Memcpy DtoD (Device -> Device)", 10, 10_000_000))
    sketch.op("aten::copy_", memcpy("Memcpy DtoH (Device -> Pinned)", 10_000, 10_000_000))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(sketch.document()))
    found = check(path, ["copies reach less than 2 GB/s", "copies reach less than 0.5 GB/s"])
    assert [each.verdict for each in found] == ["unknown", "miss"]
    sketch = Sketch().step()
    sketch.op("aten::copy_", memcpy("Memcpy DtoD (Device -> Device)", 10, 10_000_000))
    path.write_text(json.dumps(sketch.document()))
    assert check(path, ["copies reach less than 2 GB/s"])[0].verdict == "miss"
