"""Worked examples of `float32_matmuls`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import Example, Sketch, kernel

TF32 = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(int)"


def _sketch(*names: str) -> dict[str, Any]:
    sketch = Sketch("NVIDIA A100-SXM4-80GB", (8, 0), 108).step()
    for name in names:
        work, types = kernel(name, 30), ["float", "float"]
        sketch.op("aten::mm", work, dims=[[512, 512], [512, 512]], types=types)
    return sketch.document()


EXAMPLES = (
    Example(
        "sgemm on an A100", lambda: _sketch("ampere_sgemm_128x64_tn"), {"count": 1, "ns": 30000}
    ),
    Example("TF32 on an A100", lambda: _sketch(TF32), None),
)
