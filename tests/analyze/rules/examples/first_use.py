"""Worked examples of `first_use`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel


def _sketch(steps: int, first_us: float, busy_us: float = 5) -> dict[str, object]:
    sketch = Sketch()
    for _ in range(steps):
        sketch.step().op("aten::mul", kernel(ADD, busy_us))
        sketch.host("cuda_runtime", "cudaLaunchKernel", first_us)
        sketch.op("aten::add", kernel(ADD, 5), us=100)
    return sketch.document()


EXAMPLES = (
    Example(
        "a launch of 6.5 ms in the only step",
        lambda: _sketch(1, 6500),
        {
            "calls": 1,
            "taken_ns": 6_500_000,
            "recorded_ns": 6_610_000,
            "longest": [{"call": "cudaLaunchKernel", "ns": 6_500_000}],
        },
    ),
    Example("the same in two steps", lambda: _sketch(2, 6500), None),
    Example("a launch that waits for a full queue", lambda: _sketch(1, 6500, 6800), None),
    Example("a launch of 50 us", lambda: _sketch(1, 50), None),
)
