"""The roofline in a terminal: kernels under the slopes of HBM and L2 and the roof of arithmetic.

Both axes are logarithmic: FLOP per byte to the right, TFLOP/s upwards. A kernel between the two
slopes found part of its bytes in L2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.base.units import percent_text
from foretrace.schema.documents.look import KernelRow, RoofsEntry
from foretrace.show.overview.roof_words import unit_of

KERNELS, ABOVE = 8, 2  # that get a letter: by time, and at least these many from L2
ROWS, COLUMNS = 13, 64
HBM, L2, ROOF = "/", ".", "-"


def roofline(kernels: Sequence[KernelRow], roofs: RoofsEntry) -> tuple[str, list[list[str]]]:
    """The plot, and a row for each kernel in it; both empty where no cost is known."""
    known = [row for row in kernels if row.flops and row.bytes and row.median_ns]
    unit = unit_of(roofs)
    if not known or not unit:
        return "", []
    shown, peak = _lettered(known), roofs.tflops[unit]
    plot = _Plot([_place(row) for row in shown], roofs.hbm_gbps, peak)
    if roofs.l2_gbps:
        plot.slope(roofs.l2_gbps, peak, L2)
    plot.slope(roofs.hbm_gbps, peak, HBM)
    marks = [chr(ord("A") + at) for at in range(len(shown))]
    for mark, row in reversed(list(zip(marks, shown, strict=True))):  # A hides what lies below it
        plot.put(*_place(row), mark)
    slopes = f"{HBM} HBM" + (f"   {L2} L2" if roofs.l2_gbps else "")
    key = f"{slopes}   {ROOF} {unit}"
    return "\n".join([*plot.lines(), key]), _rows(shown, marks, kernels)


def _rows(
    shown: Sequence[KernelRow], marks: Sequence[str], kernels: Sequence[KernelRow]
) -> list[list[str]]:
    whole = sum(row.total_ns or 0 for row in kernels) or 1
    return [
        [mark, row.short or row.name, percent_text((row.total_ns or 0) / whole), row.limited_by]
        for mark, row in zip(marks, shown, strict=True)
    ]


def _lettered(known: list[KernelRow]) -> list[KernelRow]:
    """The kernels with most time, and those above HBM where there are any."""
    ranked = sorted(known, key=lambda row: -(row.total_ns or 0))
    above = [row for row in ranked if row.bound == "l2"][:ABOVE]
    most = [row for row in ranked if row not in above][: KERNELS - len(above)]
    return sorted([*most, *above], key=lambda row: -(row.total_ns or 0))


def _place(row: KernelRow) -> tuple[float, float]:
    """FLOP per byte, and TFLOP/s."""
    flops = float(row.flops or 0)
    return flops / (row.bytes or 1), flops / (row.median_ns or 1) / 1e3


class _Plot:
    """A grid of characters with whole powers of ten around the points and the ridge."""

    def __init__(self, points: Sequence[tuple[float, float]], gbps: float, peak: float) -> None:
        ridge = (peak * 1e3 / gbps, peak)
        self.x, self.y = (_powers([point[axis] for point in (*points, ridge)]) for axis in (0, 1))
        self.cells = [[" "] * COLUMNS for _ in range(ROWS)]

    def put(self, intensity: float, tflops: float, mark: str) -> None:
        """A mark at this place; outside of the grid there is none."""
        column = _scaled(intensity, self.x, COLUMNS)
        row = _scaled(tflops, self.y, ROWS)
        if 0 <= column < COLUMNS and 0 <= row < ROWS:
            self.cells[ROWS - 1 - row][column] = mark

    def slope(self, gbps: float, peak: float, mark: str) -> None:
        """What this many 10^9 bytes per second allow, up to the peak."""
        low, high = self.x
        for column in range(COLUMNS):
            intensity = 10 ** (low + (column + 0.5) / COLUMNS * (high - low))
            allowed = intensity * gbps / 1e3
            self.put(intensity, min(allowed, peak), mark if allowed < peak else ROOF)

    def lines(self) -> list[str]:
        """The grid with its axes."""
        low, high = self.y
        heights = {ROWS - 1 - _scaled(10**power, self.y, ROWS): power for power in range(low, high)}
        rows = [
            f"{_power(heights[at]) if at in heights else '':>7} |{''.join(cells)}".rstrip()
            for at, cells in enumerate(self.cells)
        ]
        left, right = self.x
        places = [(_scaled(10**power, self.x, COLUMNS), power) for power in range(left, right)]
        ticks = [" "] * (COLUMNS + 8)
        for column, power in places:
            ticks[column : column + len(_power(power))] = _power(power)
        return [
            "TFLOP/s",
            *rows,
            f"{'':>7} +{'-' * COLUMNS}",
            f"{'':>9}{''.join(ticks)}".rstrip(),
            f"{'FLOP per byte':>73}",
        ]


def _powers(values: Sequence[float]) -> tuple[int, int]:
    logs = [math.log10(value) for value in values if value > 0]
    return math.floor(min(logs)), math.floor(max(logs)) + 1


def _scaled(value: float, powers: tuple[int, int], cells: int) -> int:
    low, high = powers
    return math.floor((math.log10(value) - low) / (high - low) * cells)


def _power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
