"""Sentences in any order of words, with asides, topics and names, each on a recording that decides it.

Raw events of the eager MLP: in each step three nvjet matmuls (163 us), a gelu of 33 us and a multiply
of 36 us in bf16, on one stream of an H200; no copy, no `.item()`.
"""

from __future__ import annotations

import pytest

from analyze.guess.conftest import recorded
from foretrace.analyze.guess import check

SAID = {
    "mlp_eager": """
        basically the GPU time is the matmul, > 60% | hit
        the matmul goes through cublas (nvjet kernels), not cutlass | hit
        the matmul goes through cutlass (an older library), not cublas | miss
        gelu shows up as its own kernel | hit
        there is some NCCL in it | miss
        all kernels run on a single CUDA stream | hit
        kernels run on two or more streams | miss
        nothing runs on a second stream | hit
        nobody calls .item() in the step | hit
        gelu or sigmoid is used | hit
        softmax or sigmoid is used | miss
        neither cudaMalloc nor cudaFree is called | hit
        this was recorded on an AMD card | miss
        it ran on an H200 | hit
        gemms: more than half of the GPU time | hit
        GPU more than half busy inside each mlp_fwd region | hit
        gelu kernels are shorter than 40 us | hit
        gelu kernels are longer than 40 us | miss
        nvjet is what runs the matmuls | hit
        fp32 is the dtype used by the gemms | miss
        the GPU never copies anything back to the CPU | hit
        several hundred kernels per step | miss
        gelu and mul run as separate kernels | hit
        the GPU is nearly always idle | miss
        fewer elementwise kernels than gemms | hit
        elementwise kernels outnumber the gemms | miss
        aten::gelu is called 3 times (one per step) | hit
        aten::gelu is called 5 times (one per step) | miss
        nvjet is the most expensive gemm | hit
        cutlass is the most expensive gemm | miss
        """,
    "mlp_eager_train": """
        gelu backward shows up as its own kernel | hit
        the backward has twice the gemms of the forward | hit
        the backward has three times the gemms of the forward | miss
        gelu backward is slower than its forward | hit
        fewer kernels in the backward than in the forward | miss
        """,
    "mlp_compiled": """
        gelu shows up as its own kernel | miss
        gelu and mul have one fused kernel | hit
        """,
    "llama_train_eager": """
        the optimizer does not use a fused kernel | hit
        AdamW: foreach | hit
        attention is causal and uses triton | miss
        no cudaMalloc during the profiled steps | hit
        a big part of the GPU time goes to elementwise kernels | unknown
        backward kernels take longer than the forward ones | hit
        allreduce is the most expensive collective | unknown
        """,
}


@pytest.mark.parametrize("name", SAID)
def test_free_words_are_judged(name: str) -> None:
    rows = [line.strip().rsplit(" | ", 1) for line in SAID[name].strip().splitlines()]
    found = check(recorded(name), [text for text, _ in rows])
    assert [(one.text, one.verdict) for one in found] == [tuple(row) for row in rows]


def test_an_aside_that_is_not_judged_is_named() -> None:
    [found] = check(recorded("mlp_eager"), "gemms dominate (cuBLAS, that is)")
    assert (found.verdict, found.why) == ("hit", "`(cuBLAS, that is)` is not judged")
