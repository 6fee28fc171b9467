"""Worked examples of `low_occupancy`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import ADD, GEMM, Example, Sketch, kernel


def _sketch(name: str, **footprint: Any) -> dict[str, Any]:
    return (
        Sketch()
        .step()
        .op("aten::mm", kernel(name, 200, **footprint), dims=[[4096, 4096], [4096, 4096]])
        .document()
    )


EXAMPLES = (
    Example(
        "a GEMM whose occupancy was not measured",
        lambda: _sketch(
            GEMM,
            registers_per_thread=168,
            shared_memory=213188,
            block=[384, 1, 1],
            grid=[2, 66, 1],
            **{"est._achieved_occupancy_%": 0},
        ),
        {"unmeasured": 1},
    ),
    Example(
        "an addition at full occupancy",
        lambda: _sketch(
            ADD,
            registers_per_thread=32,
            shared_memory=0,
            block=[128, 1, 1],
            grid=[1000, 1, 1],
            **{"est._achieved_occupancy_%": 100},
        ),
        None,
    ),
)
