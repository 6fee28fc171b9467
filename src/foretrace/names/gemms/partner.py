"""The same work the other way round: N and K exchanged, as in the two halves of an MLP."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import polars as pl

from foretrace.base.units import flops_text, plural
from foretrace.names.gemms.entries import point_of, tile_text
from foretrace.names.gemms.table import GemmMap

Row = dict[str, Any]
EQUAL = 0.02  # of the arithmetic of one multiprocessor
NOTICED = 0.02  # of a time: repeats differ by as much
CONFIRMED = 2  # times: what an end costs at other rows, to count as the same


def compared(found: GemmMap, row: Row, partner: Row) -> Iterator[str]:
    """How the times of two matmuls of the same FLOP come about."""
    point, other = point_of(row), point_of(partner)
    rates = [point.flops / each["cold_us"] / 1e6 for each in (row, partner)]
    yield (
        f"{other.size} has as many FLOP ({flops_text(point.flops)}): {partner['cold_us']:.1f} us "
        f"({rates[1]:.3g} TFLOP/s) on {partner['short']}, against {row['cold_us']:.1f} us "
        f"({rates[0]:.3g} TFLOP/s) on {row['short']}."
    )
    if not (_counted(row) and _counted(partner)):
        return
    yield _work(row, partner)
    ends = ceil(row["waves"]), ceil(partner["waves"])
    spent = row["kernel_us"] - partner["kernel_us"]
    if not _equal(row, partner) or ends[0] == ends[1]:
        return
    if abs(spent) > NOTICED * row["kernel_us"] and (spent > 0) == (ends[0] > ends[1]):
        each = spent / (ends[0] - ends[1])
        yield (
            f"The arithmetic is equal, the ends of tiles are not: {ends[0]} against {ends[1]}. At "
            f"an end the result is written and the next tile begins. {abs(spent):.1f} us for "
            f"{plural(abs(ends[0] - ends[1]), 'more end')} are {each:.1f} us each."
        )
        yield from _same_kernel(found, row, partner, each)


def _counted(row: Row) -> bool:
    """Whether waves say what a multiprocessor computes: one block of it, and K in one part."""
    return bool(row["waves"]) and not row["splits"] and row["per_sm"] == 1 and bool(row["tile_k"])


def _each(row: Row) -> int:
    """Multiply-adds of one multiprocessor."""
    return int(ceil(row["waves"]) * row["tile_n"] * row["tile_m"] * row["k"])


def _equal(row: Row, partner: Row) -> bool:
    return abs(_each(row) / _each(partner) - 1) <= EQUAL


def _work(row: Row, partner: Row) -> str:
    said = [
        f"{plural(ceil(each['waves']), 'tile')} of {tile_text(each)} with "
        f"{plural(ceil(each['k'] / each['tile_k']), 'step')} along K"
        for each in (row, partner)
    ]
    ratio = _each(row) / _each(partner)
    same = "the same arithmetic" if _equal(row, partner) else f"{ratio:.2f} times the arithmetic"
    return f"One multiprocessor computes {said[0]}, there {said[1]}: {same}."


def _same_kernel(found: GemmMap, row: Row, partner: Row, end_us: float) -> Iterator[str]:
    """Rows for which both run on one kernel show whether its tile is the cause."""
    rows = found.like(point_of(row))
    both = rows.filter(n=row["n"], k=row["k"]).join(
        rows.filter(n=partner["n"], k=partner["k"]), on=["m", "kernel"], suffix="_there"
    )
    for each in both.filter(pl.col("m") != row["m"]).sort("m", descending=True).to_dicts():
        there = {name: each.get(f"{name}_there", each[name]) for name in row}
        if not (_counted(each) and _counted(there) and _equal(each, there)):
            continue
        ends = ceil(each["waves"]), ceil(there["waves"])
        if ends[0] != ends[1]:
            yield _control(each, there, ends, end_us)
            return


def _control(each: Row, there: Row, ends: tuple[int, int], end_us: float) -> str:
    taken = f"{each['kernel_us']:.1f} and {there['kernel_us']:.1f} us"
    own = (each["kernel_us"] - there["kernel_us"]) / (ends[0] - ends[1])
    both = f"At M = {each['m']} both run on one kernel ({each['short']})"
    counts = f"with {ends[0]} and {ends[1]} ends of tiles"
    if own > 0 and max(own / end_us, end_us / own) <= CONFIRMED:
        return f"{both}, so the tile is not the cause: {taken} {counts}, {own:.1f} us each."
    return f"{both} and take {taken} {counts}: there the ends do not explain the times."
