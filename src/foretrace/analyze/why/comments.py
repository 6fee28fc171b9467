"""The comments that Inductor writes above a call: its provenance handle and the nodes behind it."""

from __future__ import annotations

HANDLE = "[Provenance debug handles] "
ORIGINS = "Topologically Sorted Source Nodes: ["


def listed(text: str) -> tuple[str, ...]:
    """`linear, gelu]` as names."""
    return tuple(word for part in text.strip("[]").split(",") if (word := part.strip()))
