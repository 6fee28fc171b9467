"""Why a shape gets its kernel: its tiles, waves and roofs, other tiles on the same shape, and the
same work with N and K exchanged, as in the two halves of an MLP. And the plane of M and N.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Any

import polars as pl
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.base.units import bytes_text, flops_text, percent_text, plural, time_text
from foretrace.work.gemms.documents import (
    LOAD_BYTES,
    NARROW,
    HeatCell,
    HeatPlane,
    KernelRange,
    MatmulSize,
    NearAnswer,
    TileChoice,
)
from foretrace.work.gemms.table import GemmMap, entry, point_of, tile_text

Row = dict[str, Any]
NEIGHBOURS = 40  # whose tiles are tried on the shape
OTHERS = 4  # tiles beside the one that was chosen
WORSE = 2  # tiles that are worse and have a sentence; `--all` lists the others
AS_GOOD = 1.0  # percent of all that the waves compute: smaller differences decide nothing
EQUAL = 0.02  # of the arithmetic of one multiprocessor
NOTICED = 0.02  # of a time: repeats differ by as much
CONFIRMED = 2  # times: what an end costs at other rows, to count as the same
LARGEST = 1 << 24  # of one size: the longest vocabulary has 2^18 words


def parse_size(text: str, kind: MatmulSize) -> MatmulSize:
    """`8192x3072x768`: M rows, N output features, K summed; all else as `kind` has it."""
    sizes = re.fullmatch(r"(\d{1,9})[x,*](\d{1,9})[x,*](\d{1,9})", text.strip().lower())
    if not sizes:
        raise UsageError(f"{text!r} is no size: give MxNxK, for example 8192x3072x768")
    m, n, k = map(int, sizes.groups())
    if not all(0 < size <= LARGEST for size in (m, n, k)):
        raise UsageError(f"{text!r}: each size is from 1 to {LARGEST}")
    return replace(kind, m=m, n=n, k=k)


def explain_shape(known: GemmMap, point: MatmulSize) -> NearAnswer:
    """What the map says about a matmul, or about the nearest one that it holds."""
    rows, away = known.nearest(point, NEIGHBOURS)
    around = known.frame[rows].to_dicts()
    held = known.rows.get(point)
    row = around[0] if held is None else known.frame.row(held, named=True)
    here = point_of(row)
    turned = known.rows.get(replace(here, n=here.k, k=here.n)) if here.n != here.k else None
    partner = None if turned is None else known.frame.row(turned, named=True)
    choices = _tiles(row, [*([partner] if partner else []), *around], known.facts.sms)
    ranges: list[KernelRange] = []  # sizes by kernel, in order of M
    columns = known.along(here).select("m", "short", "cluster", "kernel")
    for m, short, cluster, kernel in columns.iter_rows():
        first = ranges.pop().first_m if ranges and ranges[-1].kernel == kernel else m
        ranges.append(KernelRange(first, m, short, cluster or "", kernel))
    return NearAnswer(
        point,
        held is not None,
        float(away[0]),
        entry(row),
        list(_why(row, choices, known.facts.sms)),
        choices,
        None if partner is None else entry(partner),
        [] if partner is None else list(_against_partner(known, row, partner)),
        ranges,
    )


def _tiles(row: Row, around: list[Row], sms: int) -> list[TileChoice]:
    """The chosen tile first, then those of similar matmuls of the same kind of kernel."""
    if not row["tile_n"] or row["splits"]:
        return []
    names = ("tile_n", "tile_m", "per_sm")
    same = [
        tuple(other[name] for name in names)
        for other in around
        if other["family"] == row["family"] and not other["splits"]
    ]
    # the same work the other way round comes first
    common = dict.fromkeys([*same[:1], *(tile for tile, _ in Counter(same[1:]).most_common())])
    blocks = {(row["tile_n"], row["tile_m"]): row["per_sm"]}
    for wide, high, per_sm in common:
        blocks.setdefault((wide, high), per_sm)
    choices = []
    for (wide, high), per_sm in list(blocks.items())[: OTHERS + 1]:
        tiles, at_once = ceil(row["n"] / wide) * ceil(row["m"] / high), sms * per_sm
        waves = tiles / at_once
        used = row["m"] * row["n"] / (ceil(waves) * at_once * wide * high)
        waste, reuse = 1 - waves / ceil(waves), 2 * wide * high / (wide + high)
        name, chosen = f"{wide}x{high}", (wide, high) == (row["tile_n"], row["tile_m"])
        choices.append(TileChoice(name, chosen, tiles, waves, waste, 100 * used, reuse))
    return choices


def _why(row: Row, choices: list[TileChoice], sms: int) -> Iterator[str]:
    point = point_of(row)
    if not point.aligned:
        along = (
            "M" if point.layout in ("nt", "tt") and point.m > 1 else "K",
            "K" if point.layout in ("tn", "tt") else "N",
            "N",
        )
        sizes = [
            f"{name} = {size}"
            for name, size in zip(along, point.contiguous, strict=True)
            if size * point.bytes_each % LOAD_BYTES
        ]
        begin = f"rows begin at multiples of {plural(point.load_bytes, 'byte')}, not of 16"
        arch = f", written for {row['arch']}" if row["arch"] else ""
        taken = f"No nvjet kernel takes that. {row['short']} does{arch}."
        if point.dtype not in NARROW:
            taken = f"The map has no nvjet kernel for {point.dtype}, aligned or not."
        yield f"{', '.join(dict.fromkeys(sizes))}: {begin}. {taken}"
    places = sms * row["per_sm"]
    if row["tile_n"]:
        across, down = ceil(row["n"] / row["tile_n"]), ceil(row["m"] / row["tile_m"])
        counted = f"Tiles of {tile_text(row)} (output features x rows): {across} x {down} = "
        counted += f"{row['tiles']} tiles on {sms} multiprocessors"
        if row["per_sm"] > 1:
            counted += f" with {row['per_sm']} blocks each"
        if not row["splits"] and row["waves"] is not None:
            empty = percent_text(row["waste"])
            counted += f": {_waves(row['waves'])}; {empty} of their room is empty"
        yield f"{counted}."
    if row["splits"]:
        # nvjet does not state in how many parts; the grid does, unless it fills the card
        parts = f"{row['split']} parts" if row["split"] else "parts (how many is not known)"
        room = f"The tiles alone fill {row['tiles']} of {places} places"
        if row["tiles"] is None:
            room = "The kernel's name states no tile"
        elif places <= row["tiles"]:
            room = "The tiles alone fill the card, and the map does not say why K is cut"
        added = (
            f", which another kernel adds ({row['others']})" if "reduce" in row["others"] else ""
        )
        yield f"{room}. K = {row['k']} is cut into {parts}{added}."
    elif choices and row["roof"] == "compute":
        yield from _against_other_tiles(choices)
    share, least = percent_text(row["roof_us"] / row["cold_us"]), time_text(row["roof_us"] * 1e3)
    roof, work = "The tensor cores are the roof", flops_text(point.flops)
    if row["roof"] == "memory":
        roof, work = "Memory is the roof", bytes_text(point.bytes)
    elif point.dtype == "fp32":
        roof = "The arithmetic is the roof"
    yield (
        f"{roof} ({point.intensity:.0f} FLOP per byte): {work} take at least {least}. "
        f"{time_text(row['cold_us'] * 1e3)} were measured, {share} of the roof."
    )


def _waves(waves: float) -> str:
    return f"{waves:.2f} waves, so {plural(ceil(waves), 'whole one')}"


def _against_other_tiles(choices: list[TileChoice]) -> Iterator[str]:
    """What speaks for the chosen tile against those beside it, and what speaks against it."""
    mine, *others = choices
    worse = [other for other in others if other.used_percent < mine.used_percent - AS_GOOD]
    for other in worse[:WORSE]:
        spare = percent_text(other.waste)
        yield (
            f"{other.tile} would need {_waves(other.waves)}, with {spare} empty: "
            f"{other.used_percent:.0f}% of what they compute is part of the result, with "
            f"{mine.tile} {mine.used_percent:.0f}%."
        )
    smaller = [
        other
        for other in others
        if abs(other.used_percent - mine.used_percent) <= AS_GOOD and other.reuse < mine.reuse
    ]
    if smaller:
        yield (
            f"{' and '.join(other.tile for other in smaller)} would fill the card as well. "
            f"{mine.tile} is larger: {mine.reuse:.0f} FLOP for each element that a tile loads, "
            f"against {max(other.reuse for other in smaller):.0f}."
        )
    better = [
        other.tile
        for other in others
        if other.used_percent > mine.used_percent + AS_GOOD and other.reuse >= mine.reuse
    ]
    if better:
        reason = "the map does not say why it is not taken"
        yield f"{' and '.join(better)} would do better by this count: {reason}."


def _against_partner(known: GemmMap, row: Row, partner: Row) -> Iterator[str]:
    """How the times of two matmuls of the same FLOP come about."""
    flops = point_of(row).flops
    rates = [flops / side["cold_us"] / 1e6 for side in (row, partner)]
    yield (
        f"{point_of(partner).size} has as many FLOP ({flops_text(flops)}): "
        f"{partner['cold_us']:.1f} us ({rates[1]:.3g} TFLOP/s) on {partner['short']}, against "
        f"{row['cold_us']:.1f} us ({rates[0]:.3g} TFLOP/s) on {row['short']}."
    )
    if not (_counted(row) and _counted(partner)):
        return
    here, there = (
        f"{plural(ceil(side['waves']), 'tile')} of {tile_text(side)} with "
        f"{plural(ceil(side['k'] / side['tile_k']), 'step')} along K"
        for side in (row, partner)
    )
    ratio = _multiply_adds(row) / _multiply_adds(partner)
    equal = abs(ratio - 1) <= EQUAL
    same = "the same arithmetic" if equal else f"{ratio:.2f} times the arithmetic"
    yield f"One multiprocessor computes {here}, there {there}: {same}."
    ends = ceil(row["waves"]), ceil(partner["waves"])
    spent = row["kernel_us"] - partner["kernel_us"]
    if not equal or ends[0] == ends[1]:
        return
    if abs(spent) > NOTICED * row["kernel_us"] and (spent > 0) == (ends[0] > ends[1]):
        end_us = spent / (ends[0] - ends[1])
        yield (
            f"The arithmetic is equal, the ends of tiles are not: {ends[0]} against {ends[1]}. At "
            f"an end the result is written and the next tile begins. {abs(spent):.1f} us for "
            f"{plural(abs(ends[0] - ends[1]), 'more end')} are {end_us:.1f} us each."
        )
        yield from _on_one_kernel(known, row, partner, end_us)


def _on_one_kernel(known: GemmMap, row: Row, partner: Row, end_us: float) -> Iterator[str]:
    """Rows for which both run on one kernel show whether its tile is the cause."""
    rows = known.like(point_of(row))
    both = rows.filter(n=row["n"], k=row["k"]).join(
        rows.filter(n=partner["n"], k=partner["k"]), on=["m", "kernel"], suffix="_there"
    )
    for here in both.filter(pl.col("m") != row["m"]).sort("m", descending=True).to_dicts():
        there = {name: here.get(f"{name}_there", here[name]) for name in row}
        if not (_counted(here) and _counted(there)):
            continue
        ends = ceil(here["waves"]), ceil(there["waves"])
        if abs(_multiply_adds(here) / _multiply_adds(there) - 1) > EQUAL or ends[0] == ends[1]:
            continue
        taken = f"{here['kernel_us']:.1f} and {there['kernel_us']:.1f} us"
        own = (here["kernel_us"] - there["kernel_us"]) / (ends[0] - ends[1])
        kernel = f"At M = {here['m']} both run on one kernel ({here['short']})"
        counts = f"with {ends[0]} and {ends[1]} ends of tiles"
        if own > 0 and max(own / end_us, end_us / own) <= CONFIRMED:
            yield f"{kernel}, so the tile is not the cause: {taken} {counts}, {own:.1f} us each."
        else:
            yield f"{kernel} and take {taken} {counts}: there the ends do not explain the times."
        return


def _counted(row: Row) -> bool:
    """Whether waves say what a multiprocessor computes: one block of it, and K in one part."""
    return bool(row["waves"]) and not row["splits"] and row["per_sm"] == 1 and bool(row["tile_k"])


def _multiply_adds(row: Row) -> int:
    """Of one multiprocessor."""
    return int(ceil(row["waves"]) * row["tile_n"] * row["tile_m"] * row["k"])


def plane(known: GemmMap, kind: MatmulSize) -> HeatPlane:
    """Cells of one type, layout and epilogue, all K together; each begins at a power of two.

    Where the map has aligned matmuls, the others are left out: they run on slower kernels.
    """
    rows = known.like(kind)
    aligned = [point_of(row).aligned for row in rows.iter_rows(named=True)]
    rows = rows.filter(pl.Series(aligned, dtype=pl.Boolean)) if any(aligned) else rows
    if rows.is_empty():
        what = f"{kind.dtype} {kind.layout} {kind.epilogue}"
        raise UsageError(f"the map has no matmul {what}: choose another type, layout or epilogue")
    octaves = [(pl.lit(2) ** pl.col(name).log(2).floor()).cast(pl.Int32) for name in ("m", "n")]
    flops = 2 * pl.col("m").cast(pl.Float64) * pl.col("n") * pl.col("k")
    tile = pl.format("{}x{}", "tile_n", "tile_m")
    cells = (
        rows.with_columns(
            low_m=octaves[0], low_n=octaves[1], tile=tile, tflops=flops / pl.col("cold_us") / 1e6
        )
        .group_by("low_m", "low_n")
        .agg(
            pl.len(),
            (100 * pl.col("roof_us") / pl.col("cold_us")).median().alias("percent"),
            pl.col("tflops").median(),
            pl.col("tile").drop_nulls().sort().mode(maintain_order=True).first(),
        )
        .sort("low_m", "low_n")
    )
    made = [
        HeatCell(m, n, count, percent, tflops, tile or "")
        for m, n, count, percent, tflops, tile in cells.iter_rows()
    ]
    return HeatPlane(kind.dtype, kind.layout, kind.epilogue, made)
