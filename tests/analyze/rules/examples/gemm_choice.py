"""Worked examples of `gemm_choice`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel


def _sketch(last: str) -> dict[str, Any]:
    sketch = Sketch().step()
    for _ in range(2):
        sketch.op("aten::mm", kernel(GEMM, 56), dims=[[8192, 768], [768, 3072]])
    return sketch.op("aten::mm", kernel(last, 51), dims=[[8192, 3072], [3072, 768]]).document()


EXAMPLES = (
    Example(
        "gate and up share a kernel, down has another",
        lambda: _sketch("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT"),
        {
            "groups": [
                {
                    "flops": 38_654_705_664,
                    "kernels": [
                        {
                            "kernel": "nvjet 256x128x64 tn bf16",
                            "name": GEMM,
                            "shapes": "[8192, 768] x [768, 3072]",
                            "count": 2,
                            "median_ns": 56000.0,
                            "tflops": 690.3,
                        },
                        {
                            "kernel": "nvjet 192x128x64 tn bf16",
                            "name": "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT",
                            "shapes": "[8192, 3072] x [3072, 768]",
                            "count": 1,
                            "median_ns": 51000.0,
                            "tflops": 757.9,
                        },
                    ],
                }
            ]
        },
    ),
    Example("one kernel for all three", lambda: _sketch(GEMM), None),
)
