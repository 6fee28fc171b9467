"""Worked examples of `launch_bound`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, GEMM, Example, Sketch, kernel


def _sketch(us: float, name: str) -> Sketch:
    sketch = Sketch().step()
    for _ in range(6):
        sketch.op("aten::add", kernel(name, us), us=40)
    return sketch


EXAMPLES = (
    Example(
        "2 us kernels from ops of 40 us",
        lambda: _sketch(2, ADD).document(),
        {
            "launches": 6,
            "kernels": 6,
            "launch_interval_ns": 40000,
            "kernel_ns": 2000,
            "busy_ns": 12000,
        },
    ),
    Example("200 us kernels from the same ops", lambda: _sketch(200, GEMM).document(), None),
)
