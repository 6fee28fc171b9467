"""Worked examples of `varying_kernels`."""

from __future__ import annotations

from analyze.rules.sketch import GEMM, Example, Sketch, kernel


def _sketch(odd: float) -> dict[str, object]:
    sketch = Sketch().step()
    for us in (50, 50, odd, 50, 50):
        sketch.op("aten::mm", kernel(GEMM, us, grid=[2, 66, 1]), dims=[[64, 64], [64, 64]])
    return sketch.document()


EXAMPLES = (
    Example(
        "four launches of 50 us and one of 150",
        lambda: _sketch(150),
        {
            "above_median_ns": 100000,
            "kernels": [
                {
                    "kernel": "nvjet 256x128x64 tn bf16",
                    "name": GEMM,
                    "op": "aten::mm",
                    "role": "gemm",
                    "count": 5,
                    "median_ns": 50000,
                    "mean_ns": 70000,
                    "min_ns": 50000,
                    "max_ns": 150000,
                }
            ],
        },
    ),
    Example("launches of the same length", lambda: _sketch(51), None),
)
