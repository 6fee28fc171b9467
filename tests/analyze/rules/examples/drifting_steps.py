"""Worked examples of `drifting_steps`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel

CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)"
    "::OpaqueType<2u>, unsigned int, 4, 128, 1>()"
)


def _host(*pauses: float) -> dict[str, Any]:
    sketch = Sketch()
    for us in pauses:
        sketch.step().op("aten::mm", kernel(GEMM, 20)).pause(us)
    return sketch.document()


def _sketch(*lengths: float) -> dict[str, Any]:
    sketch = Sketch()
    for number, us in enumerate(lengths):
        sketch.step().op("aten::mm", kernel(GEMM, 20), dims=[[64, 64], [64, 64]])
        shape = [1, 8, 128 * (number + 1), 64]
        sketch.op("aten::cat", kernel(CAT, us), dims=[[shape, [1, 8, 128, 64]], []])
    return sketch.document()


EXAMPLES = (
    Example(
        "a cache that grows",
        lambda: _sketch(10, 20, 30, 40, 50, 60),
        {"step_ns": [30000, 40000, 50000, 60000, 70000, 80000]},
    ),
    Example(
        "a host that slows down",
        lambda: _host(100, 200, 300, 400, 500, 600),
        {"step_ns": [110000, 210000, 310000, 410000, 510000, 610000], "growing": []},
    ),
    Example("equal steps", lambda: _sketch(10, 11, 10, 11, 10, 11), None),
    Example("too few steps", lambda: _sketch(10, 20, 30), None),
    Example("a slow first step", lambda: _sketch(90, 20, 20, 20, 20, 20), None),
)
