"""Sentences and how they are read: as claims of the language, or refused since a part of one says something else."""

from __future__ import annotations

import pytest

from foretrace.base.errors import UsageError
from foretrace.check import parse
from foretrace.check.parsing import parsed

READ = """
softmax is responsible for 30% of the GPU time | softmax takes 30% of gpu time
each step is longer than 30 ms | per step: step time is more than 30 ms
we stay under 30 kernels per step | per step: less than 30 kernel
softmax has disappeared | no softmax
softmax happens every step | per step: at least 1 softmax || per step: softmax is used
softmax is slower than anything else | softmax is top thing || softmax is top kernel
a third of the time is spent in softmax | softmax takes about 33% of time
softmax stays under a tenth | softmax takes less than 10% of time
softmax costs twice as much as the matmuls | softmax time takes 2x as long as matmuls time
softmax is about as expensive as the matmuls | softmax time takes about 1.00x as long as matmuls time
softmax takes longer than the whole backward | softmax time is more than backward time
each step is under 10 ms | per step: step time is less than 10 ms
a step has 10 ms of kernel time | per pass: kernel time is 10 ms
the trace has 3 steps | 3 steps
the GPU is busy all the time | gpu busy more than 95%
the GPU is rarely idle | gpu idle less than 10%
the host sits in cudaDeviceSynchronize for 5 ms | some cudaDeviceSynchronize takes 5 ms || cudaDeviceSynchronize takes 5 ms
no gaps between kernels | gpu idle less than 1%
the tensors are fp32 | fp32 gemm time > 90% of gemm time || fp32 kernel time > 50% of kernel time
the loss runs in fp32 | loss uses fp32
attention is a single kernel | attention is fused
bias add is a separate kernel | add has own-kernel
the backward takes most of the time | backward takes more than 50% of time
most kernels are Triton | Triton kernel more than 50% of kernel || Triton kernel time more than 50% of kernel time
a single stream is used | 1 stream
communication overlaps with compute | communication overlaps compute
nothing gets copied back | no dtoh memcpy
a copy moves 100 MB | copy bytes is 100 MB each || per pass: copy bytes is 100 MB
cudaStreamSynchronize is the slowest CUDA call | cudaStreamSynchronize is top call
peak memory stays below 10 GB | peak memory less than 10 GB
the majority of kernels finish inside 10 us | more than 50% of kernel takes at most 10 us
no kernels were recorded | no kernel
80% of the step is GPU work | per step: gpu busy 80%
NCCL handles communication | communication uses NCCL
communication takes under 10% | communication takes less than 10% of time
causal attention is used | at least 1 attention || attention is used
the forward pass takes less than half of GPU time | forward takes less than 50% of gpu time
the AdamW update takes 10% | adamw takes 10% of time
step time stays under 10 ms | step takes less than 10 ms
the last step is the slowest | last step is top step
a kernel takes 5 us on average | average kernel takes 5 us
a launch costs the host 5 us | some launch takes 5 us || launch takes 5 us
the CPU sits in a sync most of the time | sync takes more than 50% of cpu time
each step makes 4 copies | per step: 4 copies
data movement takes under 5% | memcpy takes less than 5% of time
Triton kernels are the majority | Triton kernels takes more than 50% of time
the forward is compiled | in forward: torch.compile is used
silu and mul are one kernel | silu and mul are fused
the loss takes 10% | loss takes 10% of time
most kernels are elementwise | elementwise kernel more than 50% of kernel || elementwise kernel time more than 50% of kernel time
most kernels are memory-bound | memory-bound kernel more than 50% of kernel || memory-bound kernel time more than 50% of kernel time
convolutions make up most of the time | convolutions takes more than 50% of time
matmuls are in tf32 | matmuls uses tf32
each step calls aten::linear 12 times | per step: aten::linear is called 12 times
there is one device sync for each layer_norm | sync is 1.0x of layer_norm
"""
REFUSED = """
softmax saves 30% of the GPU time
CUDA graphs buy 30%
without softmax the step takes 5 ms
not every step syncs
only softmax is fp32
step 2 has more kernels than step 1
the CPU is busy 90%
attention is slower in fp32
each matmul takes longer than each softmax
the top three kernels take 90%
most matmuls are in backward
no two kernels overlap
memory grows by 1 GB per step
the queue is empty
the GPU idles during the optimizer
matmuls run at half the peak
one triton kernel handles gelu and clamp
"""
NO_CLAIM = """
after the first step, there is no cudaMalloc
no kernel doesn't use bf16
the last step has 5 kernels
all but one kernel is bf16
at least one gemm is not bf16
AdamW is neither fused nor foreach
the kernels are tiny
the second most expensive op is attention
gelu or mul takes more than 5% of the time
no gemm or conv is fp32
kernels ==
in mlp_fwd:
in : kernels == 5
!
"open
kernels == 5.5
every
in step x: kernels == 1
"""


def test_sentences_are_read_as_claims_of_the_language() -> None:
    rows = dict(line.split(" | ") for line in READ.strip().splitlines())
    found = {text: parsed(text) for text in [*rows, *REFUSED.strip().splitlines()]}
    assert {text: guess.expected for text, guess in found.items() if guess} == rows


@pytest.mark.parametrize("text", ["", "   ", "a" * 5000, *NO_CLAIM.strip().splitlines()])
def test_a_word_that_matters_is_never_dropped(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
