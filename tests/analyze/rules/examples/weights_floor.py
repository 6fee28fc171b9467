"""Worked examples of `weights_floor`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import ADD, GEMM, Example, Sketch, kernel


def _sketch(rows: int, us: float, vocabulary: int = 32000) -> dict[str, Any]:
    weight = [4096, vocabulary]
    return (
        Sketch()
        .step()
        .op("aten::mm", kernel(GEMM, us), dims=[[rows, 4096], weight])
        .op("aten::add", kernel(ADD, 50))
        .document()
    )


def _loop(inner: int, columns: int) -> dict[str, Any]:
    sketch = Sketch().step()
    for _ in range(100):
        sketch.op("aten::mm", kernel(GEMM, 250), dims=[[1, inner], [inner, columns]])
    return sketch.document()


EXAMPLES = (
    Example(
        "one token at a fifth of the bandwidth",
        lambda: _sketch(1, 250),
        {"weight_bytes": 262_144_000, "floor_ns": 54613, "busy_ns": 300000, "matmuls": 1},
    ),
    Example("near the floor", lambda: _sketch(1, 30), None),
    Example("many tokens: arithmetic decides", lambda: _sketch(4096, 2000), None),
    Example("weights that fit the cache", lambda: _sketch(1, 250, 4096), None),
    Example(
        "one weight of 4.2 MB, read 100 times: it stays in L2", lambda: _loop(2048, 1024), None
    ),
    Example(
        "a hundred weights of 33.6 MB: they do not",
        lambda: _loop(4096, 4096),
        {"weight_bytes": 100 * 33_554_432, "matmuls": 100},
    ),
    Example(
        "most matmuls are in a graph",
        lambda: (
            Sketch()
            .step()
            .op("aten::mm", kernel(GEMM, 250), dims=[[1, 4096], [4096, 32000]])
            .graph(kernel(GEMM, 500))
            .document()
        ),
        None,
    ),
)
