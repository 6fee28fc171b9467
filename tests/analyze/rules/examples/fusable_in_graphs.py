"""Worked examples of `fusable_in_graphs`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, COPY, GEMM, MUL, Example, Sketch, kernel

TRITON = "triton_poi_fused_add_mul_0"

EXAMPLES = (
    Example(
        "three kernels after a matmul",
        lambda: (
            Sketch()
            .step()
            .graph(kernel(GEMM, 50), kernel(MUL, 4), kernel(ADD, 3), kernel(COPY, 5))
            .document()
        ),
        {"kernels": 3, "runs": 1, "ns": 12000},
    ),
    Example(
        "a matmul between them",
        lambda: Sketch().step().graph(kernel(MUL, 4), kernel(GEMM, 50), kernel(ADD, 3)).document(),
        None,
    ),
    Example("only copies", lambda: Sketch().step().graph(*[kernel(COPY, 5)] * 2).document(), None),
    Example(
        "compiled already",
        lambda: Sketch().step().graph(*[kernel(TRITON, 5)] * 2).document(),
        None,
    ),
)
