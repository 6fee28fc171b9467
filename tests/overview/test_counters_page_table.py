"""The table of `docs/counters.md`: each roof beside what the H200's counters say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counter_files import planned
from foretrace.model.counters.traffic import tensor_operations, traffic

PAGE = Path(__file__).parents[2] / "docs" / "counters.md"
ROWS = re.findall(
    r"^\| (HBM|L2|shared|tensor) (\w+) \| .*? \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$",
    PAGE.read_text(),
    re.MULTILINE,
)


def _counted(level: str, what: str) -> tuple[float, float]:
    """What the kernel moves or computes, and what was counted of it."""
    if level == "tensor":
        name = {"fp64": "fp64_matrix"}.get(what, what)
        launch, expected = planned("arithmetic", "arithmetic")[f"tensor cores {name}"]
        return expected["flops"], tensor_operations(launch.metrics)[what]
    if level == "HBM":
        launch, expected = planned("memory", "memory")[f"{what} 4294967296 4096xNone"]
        moved = traffic(launch.metrics)
        sides = {"read": [moved.hbm_read], "write": [moved.hbm_written]}
        found = sides.get(what, [moved.hbm_read, moved.hbm_written])
        return expected["bytes"], sum(side or 0 for side in found)
    name = f"shared {what}" if level == "shared" else f"{what} 16777216 4096x4"
    launch, expected = planned("memory_l2", "memory")[name]
    moved = traffic(launch.metrics)
    both = (moved.shared, expected.get("shared_bytes"))
    return (both[1], both[0] or 0) if both[1] else (expected["bytes"], moved.l2 or 0)


def test_the_table_has_every_roof() -> None:
    assert len(ROWS) == 14


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_each_roof_is_confirmed_within_five_percent(row: tuple[str, ...]) -> None:
    level, what, moved, counted, ratio = row
    found = _counted(level, what)
    assert (f"{found[0]:,.0f}", f"{found[1]:,.0f}") == (moved, counted)
    assert f"{found[1] / found[0]:.3f}" == ratio
    assert abs(float(ratio) - 1) < 0.05
