"""Worked examples of `pageable_copies`."""

from __future__ import annotations

from analyze.rules.sketch import Example, Sketch, memcpy


def _sketch(kind: str) -> dict[str, object]:
    return (
        Sketch()
        .step()
        .op("aten::copy_", memcpy(f"Memcpy HtoD ({kind} -> Device)", 100, 1_000_000), us=20)
        .document()
    )


EXAMPLES = (
    Example(
        "a pageable batch",
        lambda: _sketch("Pageable"),
        {"count": 1, "bytes": 1_000_000, "ns": 100000, "gb_per_s": 10.0},
    ),
    Example("a pinned batch", lambda: _sketch("Pinned"), None),
)
