"""Worked examples of `compile_triage`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import ADD, GEMM, MUL, Example, Sketch, kernel

TRITON = "triton_poi_fused_add_mul_0"


def _sketch(matmul: float, small: float, pause: float = 0) -> dict[str, Any]:
    sketch = Sketch()
    for _ in range(2):
        sketch.step().op("aten::mm", kernel(GEMM, matmul)).pause(pause)
        sketch.op("aten::mul", kernel(MUL, small)).pause(pause)
        sketch.op("aten::add", kernel(ADD, small)).pause(pause)
        sketch.sync()
    return sketch.document()


EXAMPLES = (
    Example(
        "dispatch",
        lambda: _sketch(20, 5, pause=200),
        {"small_kernels": 2, "small_ns": 10000, "matmuls": 1, "matmul_ns": 20000},
    ),
    Example(
        "kernels that fuse",
        lambda: _sketch(300, 400),
        {"small_ns": 800000, "matmul_ns": 300000, "busy_ns": 1100000},
    ),
    Example("one large kernel", lambda: _sketch(9000, 5), {"small_ns": 10000}),
    Example(
        "compiled already",
        lambda: Sketch().step().op(TRITON, kernel(TRITON, 400)).document(),
        None,
    ),
    Example(
        "a graph already",
        lambda: Sketch().step().op("aten::t").graph(kernel(GEMM, 400)).document(),
        None,
    ),
)
