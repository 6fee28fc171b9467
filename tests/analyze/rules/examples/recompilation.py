"""Worked examples of `recompilation`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel


def _sketch(version: int) -> dict[str, object]:
    return (
        Sketch()
        .step()
        .op(f"Torch-Compiled Region: 0/{version} > aten::add", kernel(ADD, 5))
        .document()
    )


EXAMPLES = (
    Example(
        "the second version of frame 0",
        lambda: _sketch(1),
        {"recompilations": 1, "versions": {"0": [1]}, "compile_ns": 0},
    ),
    Example("compiled once", lambda: _sketch(0), None),
    Example(
        "compiled while recording",
        lambda: (
            Sketch()
            .step()
            .host("user_annotation", "_compile.compile_inner (dynamo_timed)", 900)
            .op("aten::add", kernel(ADD, 5))
            .document()
        ),
        {"recompilations": 0, "compile_ns": 900000},
    ),
)
