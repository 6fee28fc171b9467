"""The table of `docs/counters.md`: each roof beside what the H200's counters say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counter_files import planned
from foretrace.model.counters.traffic import tensor_operations, traffic

PAGE = Path(__file__).parents[3] / "docs" / "counters.md"
ROWS = re.findall(
    r"^\| (HBM|L2|shared|tensor) (\w+) \| (.*?) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$",
    PAGE.read_text(),
    re.MULTILINE,
)


# walks of the sets that L2 holds, by what the page calls them
SETS = {"16.8 MB": 16777216, "25.2 MB": 25165824, "33.6 MB": 33554432}


def _counted(level: str, what: str, size: str) -> tuple[float, float]:
    """What the kernel moves or computes, and what was counted of it."""
    if level == "tensor":
        name = {"fp64": "fp64_matrix"}.get(what, what)
        log = "tensor" if what == "fp8" else "arithmetic"
        launch, expected = planned(log, log)[f"tensor cores {name}"]
        return expected["flops"], tensor_operations(launch.metrics)[what]
    if level == "HBM":
        launch, expected = planned("memory", "memory")[f"{what} 4294967296 4096xNone"]
        moved = traffic(launch.metrics)
        sides = {"read": [moved.hbm_read], "write": [moved.hbm_written]}
        found = sides.get(what, [moved.hbm_read, moved.hbm_written])
        return expected["bytes"], sum(side or 0 for side in found)
    if level == "shared":
        launch, expected = planned("memory_l2", "memory")[f"shared {what}"]
        return expected["shared_bytes"], traffic(launch.metrics).shared or 0
    small = (what, size) == ("copy", "16.8 MB")  # too small for parts of programs' own
    shape = "4096x4 spread" if small else "2048x4 own"
    launch, expected = planned("walks", "walks")[f"{what} {SETS[size]} {shape}"]
    return expected["bytes"], traffic(launch.metrics).l2 or 0


def test_the_table_has_every_roof() -> None:
    assert len(ROWS) == 18


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_each_roof_is_confirmed_within_five_percent(row: tuple[str, ...]) -> None:
    level, what, size, moved, counted, ratio = row
    found = _counted(level, what, size)
    assert (f"{found[0]:,.0f}", f"{found[1]:,.0f}") == (moved, counted)
    assert f"{found[1] / found[0]:.3f}" == ratio
    assert abs(float(ratio) - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("read 16777216 2048x4 own", 0.0),
        ("read 4294967296 2048x4 own", 0.5),
        ("write 16777216 2048x4 own", 0.5),
        ("copy 25165824 2048x4 own", 0.25),
    ],
)
def test_what_passes_between_the_partitions_of_l2(name: str, share: float) -> None:
    launch, expected = planned("fabric", "fabric")[name]
    moved = traffic(launch.metrics)
    assert moved.l2 == pytest.approx(expected["bytes"], rel=0.001)
    assert moved.l2_fabric == pytest.approx(share * expected["bytes"], abs=0.01 * expected["bytes"])
