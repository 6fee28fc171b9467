"""Sentences of an engineer, and what each becomes: claims in the words of the language."""

from __future__ import annotations

import pytest

from analyze.guess.conftest import recorded
from foretrace.analyze.guess import Guess, check, parse, parsing
from foretrace.analyze.guess.kinds.top import _name
from foretrace.analyze.guess.reading import ClaimReader
from foretrace.analyze.guess.windows import named
from foretrace.analyze.guess.words import Selector
from foretrace.base.errors import UsageError
from foretrace.schema.finding import Verdict
from sweep import looped

# written = its claims
SAID = """
this trace has no GPU activity at all = gpu-work == 0
the GPU spends more time copying than computing = copying gpu time is more than computing gpu time
layernorm takes more GPU time than the gemms = layernorm gpu time is more than gemms gpu time
backward is cheaper than forward on the GPU = backward gpu time is less than forward gpu time
aten::empty is called more often than all_reduce = aten::empty > all_reduce
the bottleneck is the gemm = gemm is bottleneck
attention is the most expensive thing in the decode = in decode: attention is top thing
at least one of the allreduces took longer than 350 ms = some allreduces takes more than 350 ms
some kernel launch blocks for more than 5 ms = some launches takes more than 5 ms
allreduce takes under 100 ms on average = average allreduce takes less than 100 ms
gemms usually take less than 5 ms = median gemms takes less than 5 ms
the GPU is idle nearly all the time = gpu idle more than 90%
the GPU sits waiting about 70% of the time = gpu idle about 70%
GPU has practically no bubbles, less than 1% idle = gpu idle less than 2% ; gpu idle less than 1%
this is launch bound: the GPU sits idle over 90% of the time = bound is host ; gpu idle more than 90%
one training step is about 14 kernels = per pass: about 14 kernel
the backward pass has 2 GEMMs = in backward: 2 GEMMs
three matmuls, each on its own stream = three matmuls ; each matmul on own-stream
nccl runs on a separate stream from compute = nccl on own-stream compute
communication is almost entirely hidden behind the backward compute = communication hides more than 90% behind backward compute
AdamW is foreach, not fused = AdamW is foreach ; AdamW is not fused
attention goes through flash attention, one kernel per layer, so 4 in total = attention uses flash ; 4 attention
cudnn keeps transposing between nchw and nhwc, about a quarter of the kernel time = layout conversions are used ; layout-conversions takes about 25% of kernel time
the copies are mostly host to device = htod copies > 50% of copies || htod copies time > 50% of copies time
MoE matmuls eat roughly two thirds of the GPU time = MoE matmuls takes about 67% of gpu time
there's a .item() somewhere that makes the CPU wait for the GPU = .item() syncs
the trainer calls .item() each step = per step: at least 1 .item()
weights are quantized to fp8 = weights are fp8
gradients are reduced in bf16 = comms uses bf16 || all_reduce uses bf16
there isn't a single memcpy = no memcpy
memcpy takes practically no time = memcpy takes less than 2% of time
the syncs cost more CPU time than the launches = syncs cpu time is more than launches cpu time
backward takes about twice as long as forward on the GPU = backward gpu time takes about 2x as long as forward gpu time
attention does not take more than 5% of the GPU time = not: attention takes more than 5% of gpu time
attention doesn't use flash = attention uses no flash
the CPU blocks in hipDeviceSynchronize once = hipDeviceSynchronize is called once
the host waits for the GPU in every step = per step: at least 1 sync
weights are copied in every step, 8 H2D copies per step = weights are copied in every step ; 8 H2D copies per step
almost all of the GPU time is spent copying to the host = copying to host takes more than 90% of gpu time
half of the kernels are matmuls = matmuls is about 50% of kernel
most H2D copies are pageable = pageable H2D copies more than 50% of H2D copies || pageable H2D copies time more than 50% of H2D copies time
gelu costs about as much as layernorm = gelu time takes about 1.00x as long as layernorm time
GPU time is dominated by the matmuls = matmuls dominates
the GEMMs aren't running in bf16 = GEMMs uses no bf16
the GPU is busy only a quarter of the time = gpu busy about 25%
copies take about five times as long as the kernels = copies time takes about 5x as long as kernel time
gelu and the multiply run as a single kernel = gelu and multiply are fused
each step replays three graphs = per step: 3 graphs
attention goes through flash, not the math fallback = attention uses flash
SDPA dispatches to the cuDNN backend = SDPA uses cuDNN
elementwise stuff eats more time than the matmuls = pointwise time is more than matmuls time
gelu is still a bit cheaper than layernorm = gelu time is less than layernorm time
practically no gaps between kernels = gpu idle less than 2%
there are memcpys in the forward pass = in forward: at least 1 memcpys
we never copy from pageable memory = no copies from pageable memory
all kernels come out of CUDA graph replays = every kernel is launched by *GraphLaunch*
gemms take between 40 and 50% of GPU time = gemms takes at least 40% of gpu time ; gemms takes at most 50% of gpu time
gelu is not cheaper than mul = not: gelu time is less than mul time
GPU utilization hovers around 15% = gpu busy about 15%
the GPU is idle 85 to 90% of the time = gpu idle at least 85% ; gpu idle at most 90%
every step launches exactly 3 matmuls and 1 pointwise kernel = per step: exactly 3 matmuls ; per step: 1 pointwise kernel
three matmuls per step, one forward and two backward = three matmuls per step ; per step: 1 forward matmul ; per step: 2 backward matmul
gemms and convolutions together take over half of the GPU time = gemms plus convolutions time is more than 50% of gpu time
forward and backward together take over 90% of GPU time = forward plus backward time is more than 90% of gpu time
most kernels are tiny, below 5 us = more than 50% of kernel takes less than 5 us
90% of kernels are shorter than 20 us = 90% of kernel takes less than 20 us
the attention kernel is slower than any single matmul = shortest attention kernel time > longest matmul time || longest attention kernel time > longest matmul time
pageable copies are slower than 10 GB/s = pageable copies reaches less than 10 GB/s
matmuls are in bf16 while the softmax of the loss runs in fp32 = matmuls uses bf16 ; loss softmax uses fp32
cudaLaunchKernel gets called once per kernel = cudaLaunchKernel is 1.00x of kernel
host can't keep up with the GPU = bound is host
hundreds of small elementwise kernels per step = per step: at least 200 pointwise ; per step: at most 2000 pointwise
nccl takes half a second per step = nccl takes 500 ms per step
the optimizer (SGD) takes less than 2% of the GPU time = optimizer takes less than 2% of GPU time ; SGD is used
no elementwise ATen kernels left = no ATen pointwise
each iteration launches the same number of kernels = per step: constant kernel
the first step is noticeably slower than the others = first step is top step
convs run in bf16, without layout conversions = convs uses bf16 ; no layout conversions
kernels are mostly memory bound = memory-bound kernel > 50% of kernel || memory-bound kernel time > 50% of kernel time
the GPU is idle for at least 20 ms per step = per step: gpu idle at least 20 ms
4 bytes are copied back to the host per step = per step: dtoh memcpy bytes is 4 B
two of the gemms are fp32 = 2 fp32 gemms
no gemm ends up in fp32 = no gemm uses fp32
GPU mostly idle, about 80% = gpu idle about 80%
all kernels together take 12 ms = total kernel takes 12 ms
kernels take only 8% of the time = gpu busy about 8%
30 copies, all H2D = 30 copies ; no dtoh memcpy ; no dtod memcpy ; at least 1 htod memcpy
5 all-reduces per step, all in fp32 = 5 all-reduces per step ; per step: all_reduce uses fp32
backward is 60% of GPU time, forward 30% = backward is 60% of GPU time ; forward takes 30% of time
send/recv kernels take the most time = send/recv kernels is top thing
the GPU never stalls for more than 100 us = not: longest gap more than 100 us
every step does one D2H copy of 4 bytes = per step: 1 D2H copy ; per step: D2H copy bytes is 4 B each
one step costs around 25 ms of wall time = per pass: step time is about 25 ms
exp and sigmoid run as two separate kernels = exp and sigmoid are not fused
sin, cos and add end up in the same kernel = sin, cos and add are fused
the sort isn't handled by triton = sort uses no triton
the GPU spends most of its time waiting for the CPU = gpu idle more than 50%
one triton kernel, nothing else = 1 triton kernel ; 1 kernel
twice as many mul ops as add ops = aten::mul is 2x of aten::add
layout conversions eat a good 10% of the GPU time = layout-conversions takes at least 10% of gpu time
I bet the matmuls eat well over 50% of the GPU time = matmuls takes more than 50% of gpu time || matmuls takes more than 55% of gpu time
attention is slower than the seven matmuls combined = attention time is more than matmuls time
no gap on the GPU is longer than 100 us = not: longest gap more than 100 us
more than three quarters of the kernels are shorter than 5 microseconds = more than 75% of kernel takes less than 5 us
the matmul goes through cublas, not cutlass = matmul uses cublas ; matmul uses no cutlass
kernels run on two or more streams = at least 2 streams
nobody calls .item() in the step = per step: no .item()
gelu or sigmoid is used = at least 1 gelu ?? at least 1 sigmoid
neither cudaMalloc nor cudaFree is called = no cudaMalloc ; no cudaFree is called
it ran on an H200 = card is h200
gemms: more than half of the GPU time = gemms takes more than 50% of gpu time
gelu kernels are shorter than 40 us = gelu kernels takes less than 40 us each
bf16 is the dtype used by the gemms = bf16 is used by gemms
the dtype of the gemms is bf16 = gemms is bf16
nccl is what takes most of the time = nccl takes more than 50% of time
several hundred kernels per step = per step: at least 200 kernel ; per step: at most 1000 kernel || per step: at most 2000 kernel
gelu and mul run in bf16 = gelu uses bf16 ; mul uses bf16
nothing runs on a second stream = streams == 1
the GPU is almost always idle = gpu idle more than 90%
comm kernels run longer than compute kernels = comm kernels time is more than compute time
comm kernels run more often than compute kernels = comm kernels > compute
the backward has twice the gemms of the forward = backward gemms is 2x of forward gemms
gelu backward is slower than its forward = gelu backward is slower than gelu forward
the optimizer doesn't use a fused kernel = not: optimizer is fused
on average kernels are shorter than 20 us = average kernel takes less than 20 us
allreduce is the most expensive collective = allreduce is top of collective
attention is causal and uses flash = attention is causal ; attention uses flash
NCCL has a stream of its own = NCCL on own-stream
the geglu kernel takes longer than any one of the gemms = shortest geglu kernel time > longest gemms time || longest geglu kernel time > longest gemms time
softmax became a triton kernel = softmax uses triton
the GPU sits idle a third of the time or more = gpu idle at least 33%
PCIe does more than 20 GB/s = host-device memcpy reaches more than 20 GB/s
copying the inputs over PCIe takes most of the GPU time = htod memcpy takes more than 50% of gpu time
attention runs with a fused sdpa kernel = attention uses sdpa
I'd guess the GPU sits idle less than a quarter of the time between its first and last kernel = gpu idle less than 25%
biggest kernel by total time: the NCCL all-reduce = NCCL all-reduce is top kernel
every allreduce is done within 200 ms = every allreduce takes at most 200 ms
GPU utilisation lands somewhere in 65-80% = gpu busy at least 65% ; gpu busy at most 80%
host-to-device copies dwarf everything = host-to-device copies takes more than 50% of time
kernels keep the GPU busy for at least 80% of the captured window = gpu is busy at least 80% of time
memory allocated on the GPU never goes above 150 MB = peak memory is at most 150 MB
nothing is ever copied from the device back to the host = no dtoh memcpy
between 20 and 30% of kernel time goes into nchwToNhwc / nhwcToNchw conversions = layout-conversions takes at least 20% of kernel time ; layout-conversions takes at most 30% of kernel time
the all-reduces are well hidden, over 80% of their time overlaps with compute kernels = all-reduces hides more than 50% behind compute || all-reduces hides more than 80% behind compute ; all_reduce hides more than 80% behind compute
we'll see a handful of kernels from the embedding lookups = at least 2 embedding ; at most 12 embedding || at most 40 embedding
batchnorm kernels fwd+bwd: noticeable, but less than a quarter of the kernel time = batchnorm kernels takes less than 25% of kernel time
each of the five profiled steps takes about 95 ms = each step takes about 95 ms
layout shuffling costs over 10% of GPU time = layout-conversions takes more than 10% of gpu time
step times are stable = steps time varies by less than 10%
there'll be hundreds of aten::item calls = at least 200 aten::item ; at most 2000 aten::item
attention kernels take more GPU time than the linear layers' GEMMs = attention kernels gpu time is more than linear gpu time
attention costs less than half of what the GEMMs cost = attention time takes less than 0.5x as long as GEMMs time
GPU is busy at least 80% of the time here, big enough model to hide the launch overhead = gpu busy at least 80%
one step calls gelu twice = per pass: gelu is called twice
each step calls softmax twice = per step: softmax is called twice
the step waits for the GPU once = per pass: sync is called once
the host waits for the GPU three times = sync is called 3 times
the optimizer is fused AdamW = AdamW is fused
AllReduce is the no. 1 kernel by total time, over a quarter of all kernel time = AllReduce is top kernel ; top kernel takes more than 25%
the backward part takes clearly more GPU time than the forward part, like in most CNNs I have seen = backward gpu time is more than forward gpu time
attention takes more GPU time than the GEMMs, typical for decode with long context = attention gpu time is more than GEMMs gpu time
aten::gelu and aten::gelu_backward have exactly the same number of calls = aten::gelu is 1.00x of aten::gelu_backward
launch bound. gpu active <10% of the step = bound is host ; per pass: gpu busy less than 10%
D2H copies are ~all of the GPU time = D2H copies takes more than 90% of gpu time
the host is stuck in one hipMemcpyWithStream for over 400 ms = some hipMemcpyWithStream takes more than 400 ms
most kernels run longer than 50 us each = more than 50% of kernel takes more than 50 us
everything is on stream 7 = every kernel has stream 7
gpu busy over 80% from first to last kernel = gpu busy over 80%
there are graph breaks = at least one graph break
graph breaks happen = at least one graph break
all five profiled steps have nearly the same duration, within 10% of each other = steps time varies by less than 10%
most of the GPU time is launched from the autograd thread = backward takes more than 50% of gpu time
no idle gaps between the kernels = gpu idle less than 1%
exactly one .item() on the host = exactly one .item()
the five steps all take about the same time, give or take 10% = steps time varies by less than 10%
all of the kernels are on the default stream 7 = every kernel has stream 7
matmuls (the nvjet kernels) take more than half of all kernel time = matmuls takes more than 50% of kernel time ; nvjet kernels is used
inference run, so I don't expect to see a single dropout kernel = no dropout kernel
no cudaLaunchKernel at all, only cudaGraphLaunch = no cudaLaunchKernel ; every kernel is launched by *cudaGraphLaunch*
over a thousand kernels per step, and half of them shorter than 5us = per step: more than 1000 kernel ; per step: at least 50% of kernel takes less than 5 us
forward only, never a backward op in sight = no backward ; no backward
GPU well fed, busy more than 85% of the time = GPU is busy more than 85% of time
I bet there is at least one hole of 1 ms or longer between two GPU events = longest gap at least 1 ms
kernels are tiny: the median one is below 3 microseconds = median kernel takes less than 3 us
even on an H100 the matmuls account for less than half of the kernel time here = matmuls takes less than 50% of kernel time
convs run in bf16 mixed precision = convs uses bf16
aten::nonzero gets called twice as often as aten::matmul = aten::nonzero is 2x of aten::matmul
copying weights to the card costs more GPU time than all kernels put together = htod memcpy gpu time is more than kernel gpu time
eager mode on vLLM, so I guess the GPU is idle more than 70% of the time = GPU is idle more than 70% of time
GPU idle for more than 80% of the traced steps = gpu idle more than 80%
from the first kernel to the last the GPU is more than 95% busy = gpu busy more than 95%
no backward pass and no optimizer step, this is pure inference = no backward pass ; no optimizer step ; no backward
gelu is the top kernel by total GPU time = gelu is top kernel
even in backward the GPU is idle more than half of the time = in backward: gpu idle more than 50%
each of the profiled steps takes about 95 ms = each step takes about 95 ms
the first of the recorded steps is the slowest = first step is top step
the GPU is never a bottleneck = bound is not gpu
"""
PAIRS = [line.split(" = ", 1) for line in SAID.strip().splitlines()]
# A dropped word would change what these mean, or they say too little, or make no sense.
UNREAD = """
not every gemm is bf16
no gemm except the first is fp32
gemms are bf16 or fp16
if the batch is large, there are 5 kernels
only the gemms take more than 5% of the time
after the first step, there is no cudaMalloc
no kernel doesn't use bf16
the last step has 5 kernels
all but one kernel is bf16
at least one gemm is not bf16
the loss isn't read back every step
AdamW is neither fused nor foreach
the kernels are tiny
not every gemm ends up in bf16
the copies run while the GPU is idle
a single big H2D copy per step
the second most expensive op is attention
gelu or mul takes more than 5% of the time
every gemm but the last is bf16
all gemms except one are bf16
kernels are launched faster than they execute
more than one NCCL stream
all gemm kernels are cutlass or nvjet
no fusion at all
gemms are bf16 or fp16 kernels
all gemms but one are bf16
no gemm or conv is fp32
kernels in the backward take longer than kernels in the forward
LlamaAttention forward is over 30% of the forward GPU time
the GPU is busy (but only 5%)
log softmax forward and backward take around 15% together
kernels ==
in mlp_fwd:
in mlp_fwd kernels
in : kernels == 5
!
"open
kernels == 5.5
==
every
gate,
in step x: kernels == 1
three CUDA graphs are captured, for batch sizes 1, 8 and 32
"""


def _texts(guess: Guess) -> list[str]:
    return [part.text for part in guess.parts]


@looped(("written", "said"), PAIRS, ids=[written for written, _ in PAIRS])
def test_a_sentence_becomes_claims_of_the_language(written: str, said: str) -> None:
    assert _texts(parse(written)) == said.split(" ; ")


@looped("text", ["", "   ", "a" * 5000, *UNREAD.strip().splitlines()])
def test_a_word_that_matters_is_never_dropped(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def judged(said: str) -> list[Verdict]:
    """What is said of the eager MLP, each sentence with the verdict that it must get."""
    wanted = dict(line.strip().split(" = ") for line in said.strip().splitlines())
    found = check(recorded("mlp_eager"), list(wanted))
    assert {one.text: one.verdict for one in found} == wanted
    return found


def test_two_times_are_compared_on_one_clock() -> None:
    """aten::gelu takes the host longer than aten::mul, and the GPU less long."""
    said = """
    aten::gelu takes more GPU time than aten::mul = miss
    aten::gelu takes longer than aten::mul on the GPU = miss
    aten::gelu takes longer than mul = miss
    mul takes longer than aten::gelu = hit
    aten::gelu takes more CPU time than aten::mul = hit
    aten::gelu takes longer than aten::mul = hit
    cuLaunchKernelEx takes longer than mul = unknown
    mul takes longer than cuLaunchKernelEx = unknown
    mul takes more CPU time than aten::gelu = miss
    cuLaunchKernelEx takes more than 1% of the GPU time = unknown
    aten::gelu takes more than 10% of the GPU time = hit
    aten::gelu takes more than 10% of the step = miss
    """
    found = judged(said)
    unknown = [one for one in found if one.verdict == "unknown"]
    assert all("alone, not on the" in one.why for one in unknown)
    assert found[0].measured == "32.7 us, aten::mul kernels time: 36.4 us (0.90x)"


def test_a_part_of_kernel_names_means_those_kernels() -> None:
    """Not where it has to be one name, and not where no kernel has it."""
    said = [
        "elementwise_kernel kernels take less than 99% of GPU time",
        "no elementwise_kernel",
        "elementwise_kernel is the most expensive kernel",
        "elementwise_kernels_of_mine take less than 99% of GPU time",
    ]
    found = check(recorded("mlp_eager"), said)
    assert [one.verdict for one in found] == ["hit", "miss", "error", "error"]
    assert [one.text for one in found] == said


def test_names_of_the_trace_are_nouns() -> None:
    said = """
    mlp_fwd takes more GPU time than gelu = hit
    every call of mlp_fwd launches 5 kernels = hit
    gelu takes more GPU time than mlp_fwd = miss
    vectorized elementwise kernels take less than half of the GPU time = hit
    """
    judged(said)


def test_quantities_that_a_sentence_can_speak_of() -> None:
    """Raw events: matmuls of 50 to 60 us, gelu 33 us, mul 37 us, 5 kernels in each step."""
    said = """
    gelu and mul together take about 30% of the GPU time = hit
    gelu plus mul time > 200 us = error
    the slowest gelu is faster than any matmul = error
    gelu is faster than any single matmul = hit
    most kernels take more than 45 us = hit
    80% of the kernels take less than 45 us = miss
    each step launches the same number of kernels = hit
    the GPU is idle for at least 1 s = miss
    the matmul takes about 55 us = unknown
    each matmul takes about 55 us = hit
    gelu takes 100 us in total = unknown
    gelu takes about 99 us in total = hit
    mul takes 60% of the step = miss
    mul takes 16% of the step = unknown
    data loading is the bottleneck = unknown
    nothing is copied from the host = hit
    the kernels use 300 W of power = unknown
    all gemms come from cuBLAS = hit
    gelu is fused = unknown
    aten::gelu and aten::mul are fused = miss
    gelu and mul are fused, = miss
    longest gemm bytes > 5 MB = error
    aten::mul is 2x of aten::sort = unknown
    aten::mul > aten::sort = hit
    """
    found = judged(said)
    assert found[0].why == "read as: gelu plus mul time is about 30% of gpu time"
    assert "no power" in found[-8].why


def test_a_word_that_narrows_decides_what_no_part_can_change() -> None:
    """No part of gelu takes more than all of it, and nobody knows what a paged one is."""
    said = """
    paged gelu takes more than 90% of the GPU time = miss
    paged gelu takes less than 90% of the GPU time = hit
    paged gelu takes more than 1% of the GPU time = unknown
    there are 3 paged gelu kernels = unknown
    """
    judged(said)


def test_the_backward_of_gelu_is_no_gelu() -> None:
    said = ["gelu backward takes longer than gelu forward", "no gelu backward", "2 gelu backward"]
    found = check(recorded("mlp_eager_train"), said)
    assert [one.verdict for one in found] == ["hit", "miss", "miss"]


def test_a_count_with_its_reason_is_refuted_by_the_count_alone() -> None:
    found = check(
        recorded("mlp_eager"), ["there are 99 syncs, one per layer", "1 sync, one per layer"]
    )
    assert [one.verdict for one in found] == ["miss", "unknown"]
    assert "does not mark layers" in found[1].why


def test_the_backward_of_an_op_is_an_op() -> None:
    """A word that is no name of an op is never taken for one that did not run."""
    said = ["mm is the most expensive op on the GPU", "bf16 gemm is the most expensive op"]
    found = check(recorded("mlp_eager"), [*said, "gelu backward is the most expensive op"])
    assert [one.verdict for one in found] == ["hit", "unknown", "miss"]
    trait = parse("convolution backward is the most expensive op").args["trait"]
    assert isinstance(trait, Selector)
    assert named(_name(trait), "aten::convolution_backward")


@pytest.mark.parametrize("joint", [", ", " and ", "; but "])
def test_a_long_sentence_is_read_in_few_parts(joint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to split ten clauses took 23 s."""
    seen: list[str] = []

    def unread(part: str) -> None:
        seen.append(part)
        raise UsageError("not a prediction")

    monkeypatch.setattr(parsing, "_parse", unread)
    parsing._readable.cache_clear()
    for clauses in (8, 40):
        text = joint.join(["foo bars baz"] * clauses)
        assert parsing.spoken(text, ClaimReader(lambda _: None)) is None
    assert 0 < len(seen) == len({*seen}) < 100
