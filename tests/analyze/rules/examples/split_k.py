"""Worked examples of `split_k`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel

REDUCE = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, "
    "true, false, false>"
    "(cublasLt::cublasSplitKParams<float>, float const*, __nv_bfloat16 const*, __nv_bfloat16*, "
    "float const*)"
)


def _sketch(*kernels: dict[str, Any]) -> dict[str, Any]:
    return Sketch().step().op("aten::mm", *kernels, dims=[[8, 4096], [4096, 4096]]).document()


EXAMPLES = (
    Example(
        "eight rows against a 4096 x 4096 weight",
        lambda: _sketch(
            kernel("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_splitK_TNT", 12), kernel(REDUCE, 2)
        ),
        {"count": 1, "reduce_ns": 2000},
    ),
    Example("a whole matmul", lambda: _sketch(kernel(GEMM, 12)), None),
)
