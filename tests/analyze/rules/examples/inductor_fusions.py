"""Worked examples of `inductor_fusions`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel

EXAMPLES = (
    Example(
        "a compiled gated MLP",
        lambda: (
            Sketch()
            .step()
            .op(
                "triton_poi_fused__unsafe_view_gelu_mul_0",
                kernel("triton_poi_fused__unsafe_view_gelu_mul_0", 37),
            )
            .document()
        ),
        {
            "launches": 1,
            "kernels": [
                {
                    "kernel": "triton_poi_fused__unsafe_view_gelu_mul_0",
                    "kind": "pointwise",
                    "ops": ["gelu", "mul"],
                    "views": ["_unsafe_view"],
                    "run_by_a_library": [],
                    "count": 1,
                    "median_ns": 37000.0,
                }
            ],
        },
    ),
    Example(
        "an eager addition",
        lambda: Sketch().step().op("aten::add", kernel(ADD, 6)).document(),
        None,
    ),
)
