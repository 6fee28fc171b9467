"""Sentences of an engineer, and what each becomes: claims in the words of the language."""

from __future__ import annotations

import pytest

from analyze.guess.conftest import recorded
from foretrace.analyze.guess import Guess, GuessError, check, parse
from foretrace.analyze.guess.clauses import spoken
from foretrace.analyze.guess.kinds.top import _name
from foretrace.analyze.guess.windows import named
from foretrace.analyze.guess.words import Selector

# written = its claims
SAID = """
this trace has no GPU activity at all = gpu-work == 0
the GPU spends more time copying than computing = memcpy gpu time > compute gpu time
layernorm takes more GPU time than the gemms = layernorm GPU time > gemms GPU time
backward is cheaper than forward on the GPU = backward gpu time < forward gpu time
aten::empty is called more often than all_reduce = aten::empty > all_reduce
the bottleneck is the gemm = gemm is bottleneck
attention is the most expensive thing in the decode = attention is top thing
at least one of the allreduces took longer than 350 ms = some allreduces takes more than 350 ms
some kernel launch blocks for more than 5 ms = some launch takes more than 5 ms
allreduce takes under 100 ms on average = average allreduce takes under 100 ms
gemms usually take less than 5 ms = median gemms takes less than 5 ms
the GPU is idle nearly all the time = gpu idle more than 90%
the GPU sits waiting about 70% of the time = gpu idle about 70%
GPU has practically no bubbles, less than 1% idle = gpu idle less than 2% ; gpu idle less than 1%
this is launch bound: the GPU sits idle over 90% of the time = it is launch-bound ; gpu idle over 90% of time
one training step is about 14 kernels = about 14 kernels per pass
the backward pass has 2 GEMMs = 2 GEMMs in backward
three matmuls, each on its own stream = three matmuls ; each matmul on own-stream
nccl runs on a separate stream from compute = nccl on own-stream compute
communication is almost entirely hidden behind the backward compute = communication hides more than 90% behind backward compute
AdamW is foreach, not fused = AdamW is foreach ; AdamW is not fused
attention goes through flash attention, one kernel per layer, so 4 in total = attention uses flash attention ; 4 attention
cudnn keeps transposing between nchw and nhwc, about a quarter of the kernel time = layout conversions are used ; layout-conversions takes about 25% of kernel time
the copies are mostly host to device = htod copies > 50% of copies || htod copies time > 50% of copies time
no memcpys between host and device = no host-device memcpy
MoE matmuls eat roughly two thirds of the GPU time = MoE matmuls takes about 67% of GPU time
there's a .item() somewhere that makes the CPU wait for the GPU = .item() syncs
the trainer calls .item() each step = .item() is called per step
weights are quantized to fp8 = weights are fp8
gradients are reduced in bf16 = comms uses bf16
there isn't a single memcpy = no memcpy
memcpy takes practically no time = memcpy takes less than 2% of time
the syncs cost more CPU time than the launches = syncs CPU time > launches CPU time
backward takes about twice as long as forward on the GPU = backward gpu time takes about twice as long as forward gpu time
attention does not take more than 5% of the GPU time = not: attention takes more than 5% of GPU time
attention doesn't use flash = attention uses no flash
the CPU blocks in hipDeviceSynchronize once = hipDeviceSynchronize is called once
the host waits for the GPU in every step = at least 1 sync in every step
weights are copied in every step, 8 H2D copies per step = weights are copied in every step ; 8 H2D memcpy per step
almost all of the GPU time is spent copying to the host = dtoh memcpy takes more than 90% of GPU time
half of the kernels are matmuls = matmuls ~ 50% of kernel
most H2D copies are pageable = pageable H2D memcpy > 50% of H2D memcpy || pageable H2D memcpy time > 50% of H2D memcpy time
gelu costs about as much as layernorm = gelu takes about 1x as long as layernorm
GPU time is dominated by the matmuls = matmuls dominates
the GEMMs aren't running in bf16 = GEMMs uses no bf16
the GPU is busy only a quarter of the time = gpu busy about 25%
copies take about five times as long as the kernels = copies take about 5x as long as kernels
gelu and the multiply run as a single kernel = gelu and mul are fused
each step replays three graphs = three graphs per pass
attention goes through flash, not the math fallback = attention uses flash
SDPA dispatches to the cuDNN backend = SDPA uses cuDNN
elementwise stuff eats more time than the matmuls = elementwise time > matmuls time
gelu is still a bit cheaper than layernorm = gelu time < layernorm time
practically no gaps between kernels = gpu idle less than 2%
there are memcpys in the forward pass = at least 1 memcpy in forward
we never copy from pageable memory = no copies from pageable memory
all kernels come out of CUDA graph replays = every kernel is launched by *GraphLaunch*
gemms take between 40 and 50% of GPU time = gemms takes at least 40% of GPU time ; gemms takes at most 50% of GPU time
gelu is not cheaper than mul = not: gelu time < mul time
"""
PAIRS = [line.split(" = ", 1) for line in SAID.strip().splitlines()]
# A dropped word would change what these mean, or they say too little.
UNREAD = """
not every gemm is bf16
no gemm except the first is fp32
gemms are bf16 or fp16
if the batch is large, there are 5 kernels
only the gemms take more than 5% of the time
after the first step, there is no cudaMalloc
no kernel doesn't use bf16
the last step has 5 kernels
two of the gemms are fp32
all but one kernel is bf16
at least one gemm is not bf16
the loss isn't read back every step
AdamW is neither fused nor foreach
the kernels are tiny
kernels run on only one stream
no gemm ends up in fp32
not every gemm ends up in bf16
the copies run while the GPU is idle
attention is slower than any single matmul
"""


def _texts(guess: Guess) -> list[str]:
    return [part.text for part in guess.parts]


@pytest.mark.parametrize(("written", "said"), PAIRS, ids=[written for written, _ in PAIRS])
def test_a_sentence_becomes_claims_of_the_language(written: str, said: str) -> None:
    assert _texts(parse(written)) == said.split(" ; ")


@pytest.mark.parametrize("text", UNREAD.strip().splitlines())
def test_a_word_that_matters_is_never_dropped(text: str) -> None:
    with pytest.raises(GuessError):
        parse(text)


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
    mul takes more CPU time than aten::gelu = unknown
    cuLaunchKernelEx takes more than 1% of the GPU time = unknown
    aten::gelu takes more than 10% of the GPU time = hit
    aten::gelu takes more than 10% of the step = miss
    """
    wanted = dict(line.strip().split(" = ") for line in said.strip().splitlines())
    found = check(recorded("mlp_eager"), list(wanted))
    assert {one.text: one.verdict for one in found} == wanted
    unknown = [one for one in found if one.verdict == "unknown"]
    assert all("alone, not on the" in one.why for one in unknown)
    assert found[0].measured == "98.9 us, aten::mul kernels time: 111 us (0.89x)"


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


def test_a_count_with_its_reason_is_refuted_by_the_count_alone() -> None:
    found = check(
        recorded("mlp_eager"), ["there are 99 syncs, one per layer", "1 sync, one per layer"]
    )
    assert [one.verdict for one in found] == ["miss", "error"]


def test_the_backward_of_an_op_is_an_op() -> None:
    """A word that is no name of an op is never taken for one that did not run."""
    said = ["mm is the most expensive op on the GPU", "bf16 gemm is the most expensive op"]
    found = check(recorded("mlp_eager"), [*said, "gelu backward is the most expensive op"])
    assert [one.verdict for one in found] == ["hit", "unknown", "miss"]
    trait = parse("convolution backward is the most expensive op").args["trait"]
    assert isinstance(trait, Selector)
    assert named(_name(trait), "aten::convolution_backward")


@pytest.mark.parametrize("joint", [", ", " and ", "; but "])
def test_a_long_sentence_is_read_in_few_parts(joint: str) -> None:
    """Every way to split ten clauses took 23 s."""
    seen: list[str] = []
    for clauses in (8, 40):
        assert spoken(joint.join(["foo bars baz"] * clauses), seen.append, str, bool) is None
    assert len(seen) == len({*seen}) < 100
