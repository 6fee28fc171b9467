"""What a map answers: the document of `foretrace lab gemms`, and the sizes that a user writes.

Why a shape gets its kernel: its tiles, waves and roofs, other tiles on the same shape, and the
same work with N and K exchanged, as in the two halves of an MLP.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import polars as pl

from foretrace.base.errors import UsageError
from foretrace.base.units import bytes_text, flops_text, percent_text, plural, time_text
from foretrace.names.gemms.distance import Nearest
from foretrace.names.gemms.table import GemmMap, entry, point_of, tile_text
from foretrace.names.gemms.tiling import tiled, used
from foretrace.schema.documents import gemms
from foretrace.schema.documents.gemms import KernelRange, MatmulSize, NearAnswer, TileChoice
from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS, LOAD_BYTES, NARROW, GemmPoint

Row = dict[str, Any]
NEIGHBOURS = 40  # whose tiles are tried on the shape
OTHERS = 4  # tiles beside the one that was chosen
WORSE = 2  # tiles that are worse and have a sentence; `--all` lists the others
AS_GOOD = 0.01  # of all that the waves compute: smaller differences decide nothing
EQUAL = 0.02  # of the arithmetic of one multiprocessor
NOTICED = 0.02  # of a time: repeats differ by as much
CONFIRMED = 2  # times: what an end costs at other rows, to count as the same


def explain_shape(found: GemmMap, point: GemmPoint) -> NearAnswer:
    """What the map says about a matmul, or about the nearest one that it holds."""
    rows, away = Nearest(found).nearest(point, NEIGHBOURS)
    around = found.frame[rows].to_dicts()
    held = found.rows.get(point)
    row = around[0] if held is None else found.frame.row(held, named=True)
    here = point_of(row)
    turned = found.rows.get(here._replace(n=here.k, k=here.n)) if here.n != here.k else None
    partner = None if turned is None else found.frame.row(turned, named=True)
    choices = _choices(row, [*([partner] if partner else []), *around], found.facts.sms)
    return NearAnswer(
        MatmulSize(*point),
        held is not None,
        float(away[0]),
        entry(row),
        list(_why(row, choices, found)),
        choices,
        None if partner is None else entry(partner),
        [] if partner is None else list(_against_partner(found, row, partner)),
        _ranges(found.along(here)),
    )


def _choices(row: Row, around: list[Row], sms: int) -> list[TileChoice]:
    """The chosen tile first, then those of similar matmuls of the same kind of kernel."""
    if not row["tile_n"] or row["splits"]:
        return []
    same = [each for each in around if each["family"] == row["family"] and not each["splits"]]
    # the same work the other way round comes first
    tiles = Counter((each["tile_n"], each["tile_m"], each["per_sm"]) for each in same[1:])
    common = dict.fromkeys([*map(_tile, same[:1]), *(tile for tile, _ in tiles.most_common())])
    mine = _tile(row)
    blocks: dict[tuple[int, int], int] = {mine[:2]: mine[2]}
    for wide, high, per_sm in common:
        blocks.setdefault((wide, high), per_sm)
    chosen = list(blocks.items())[: OTHERS + 1]
    return [_choice(point_of(row), *each, each[0] == mine[:2], sms) for each in chosen]


def _tile(row: Row) -> tuple[int, int, int]:
    return row["tile_n"], row["tile_m"], row["per_sm"]


def _choice(
    point: GemmPoint, tile: tuple[int, int], per_sm: int, chosen: bool, sms: int
) -> TileChoice:
    cut = tiled(point, tile, sms * per_sm)
    return TileChoice(
        f"{tile[0]}x{tile[1]}",
        chosen,
        cut.tiles,
        cut.waves,
        cut.waste,
        100 * used(point, cut),
        cut.reuse,
    )


def _why(row: Row, choices: list[TileChoice], found: GemmMap) -> Iterator[str]:
    point = point_of(row)
    if not point.aligned:
        yield _misaligned(point, row)
    if row["tile_n"]:
        yield _tiles(row, found.facts.sms)
    if row["splits"]:
        yield _split(row, found.facts.sms)
    elif choices and row["roof"] == "compute":
        yield from _chosen(choices)
    yield _roof(row, point)


def _misaligned(point: GemmPoint, row: Row) -> str:
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
    named = ", ".join(dict.fromkeys(sizes))
    if point.dtype not in NARROW:
        return f"{named}: {begin}. The map has no nvjet kernel for {point.dtype}, aligned or not."
    return f"{named}: {begin}. No nvjet kernel takes that. {row['short']} does{arch}."


def _tiles(row: Row, sms: int) -> str:
    across, down = ceil(row["n"] / row["tile_n"]), ceil(row["m"] / row["tile_m"])
    counted = f"Tiles of {tile_text(row)} (output features x rows): {across} x {down} = "
    counted += f"{row['tiles']} tiles on {sms} multiprocessors"
    if row["per_sm"] > 1:
        counted += f" with {row['per_sm']} blocks each"
    if row["splits"] or row["waves"] is None:
        return f"{counted}."
    empty = percent_text(row["waste"])
    return f"{counted}: {_waves(row['waves'])}; {empty} of their room is empty."


def _waves(waves: float) -> str:
    return f"{waves:.2f} waves, so {plural(ceil(waves), 'whole one')}"


def _split(row: Row, sms: int) -> str:
    """nvjet does not state in how many parts; the grid does, unless it fills the card."""
    parts = f"{row['split']} parts" if row["split"] else "parts (how many is not known)"
    idle = sms * row["per_sm"] - row["tiles"]
    room = f"The tiles alone fill {row['tiles']} of {sms * row['per_sm']} places"
    if idle <= 0:
        room = "The tiles alone fill the card, and the map does not say why K is cut"
    added = f", which another kernel adds ({row['others']})" if "reduce" in row["others"] else ""
    return f"{room}. K = {row['k']} is cut into {parts}{added}."


def _chosen(choices: list[TileChoice]) -> Iterator[str]:
    """What speaks for the chosen tile against those beside it, and what speaks against it."""
    mine, *others = choices
    worse = [each for each in others if each.used_percent < mine.used_percent - 100 * AS_GOOD]
    for other in worse[:WORSE]:
        spare = percent_text(other.waste)
        yield (
            f"{other.tile} would need {_waves(other.waves)}, with {spare} empty: "
            f"{other.used_percent:.0f}% of what they compute is part of the result, with "
            f"{mine.tile} {mine.used_percent:.0f}%."
        )
    equal = [each for each in others if abs(each.used_percent - mine.used_percent) <= 100 * AS_GOOD]
    smaller = [each.tile for each in equal if each.reuse < mine.reuse]
    if smaller:
        yield (
            f"{' and '.join(smaller)} would fill the card as well. {mine.tile} is larger: "
            f"{mine.reuse:.0f} FLOP for each element that a tile loads, against "
            f"{max(each.reuse for each in equal if each.reuse < mine.reuse):.0f}."
        )
    better = [
        each.tile
        for each in others
        if each.used_percent > mine.used_percent + 100 * AS_GOOD and each.reuse >= mine.reuse
    ]
    if better:
        reason = "the map does not say why it is not taken"
        yield f"{' and '.join(better)} would do better by this count: {reason}."


def _roof(row: Row, point: GemmPoint) -> str:
    share = percent_text(row["roof_us"] / row["cold_us"])
    least = time_text(row["roof_us"] * 1e3)
    took = f"{time_text(row['cold_us'] * 1e3)} were measured, {share} of the roof"
    rate = f"{point.intensity:.0f} FLOP per byte"
    if row["roof"] == "memory":
        return (
            f"Memory is the roof ({rate}): {bytes_text(point.bytes)} take at least {least}. {took}."
        )
    units = "The arithmetic is" if point.dtype == "fp32" else "The tensor cores are"
    return f"{units} the roof ({rate}): {flops_text(point.flops)} take at least {least}. {took}."


def _ranges(rows: pl.DataFrame) -> list[KernelRange]:
    """Sizes by kernel, in order of M."""
    made: list[KernelRange] = []
    for m, short, cluster, kernel in rows.select("m", "short", "cluster", "kernel").iter_rows():
        first = made.pop().first_m if made and made[-1].kernel == kernel else m
        made.append(KernelRange(first, m, short, cluster or "", kernel))
    return made


def _against_partner(found: GemmMap, row: Row, partner: Row) -> Iterator[str]:
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


SCHEMA = 1
_KINDS = {"layout": LAYOUTS, "dtype": DTYPES, "epilogue": EPILOGUES}
LARGEST = 1 << 24  # of one size: the longest vocabulary has 2^18 words


def parse_size(
    text: str, dtype: str = "bf16", layout: str = "tn", epilogue: str = "none"
) -> GemmPoint:
    """`8192x3072x768`: M rows, N output features, K summed."""
    found = re.fullmatch(r"(\d{1,9})[x,*](\d{1,9})[x,*](\d{1,9})", text.strip().lower())
    if not found:
        raise UsageError(f"{text!r} is no size: give MxNxK, for example 8192x3072x768")
    m, n, k = (int(each) for each in found.groups())
    if not all(0 < each <= LARGEST for each in (m, n, k)):
        raise UsageError(f"{text!r}: each size is from 1 to {LARGEST}")
    for value, known in ((dtype, DTYPES), (layout, LAYOUTS), (epilogue, EPILOGUES)):
        if value not in known:
            raise UsageError(f"{value!r} is unknown: choose from {', '.join(known)}")
    return GemmPoint(m, n, k, layout, dtype, epilogue)


def parse_points(path: Path) -> list[GemmPoint]:
    """Matmuls from a file, one on a line: `64x4096x4096 nn fp16 bias+gelu`, kinds as needed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: not a list of matmuls: {problem}") from None
    texts = (line.partition("#")[0].split() for line in lines)
    found = dict.fromkeys(_parse_words(*words) for words in texts if words)
    if not found:
        raise UsageError(f"{path}: no matmul in it: give one MxNxK on each line")
    return list(found)


def _parse_words(size: str, *words: str) -> GemmPoint:
    kind = {}
    for word in words:
        value = word.replace("+", "_")
        name = next((name for name, known in _KINDS.items() if value in known), None)
        if name is None:
            known = ", ".join(each for values in _KINDS.values() for each in values)
            raise UsageError(f"{word!r} is unknown: choose from {known}")
        kind[name] = value
    return parse_size(size, **kind)


def mapped(found: GemmMap, kind: GemmPoint) -> gemms.GemmsDocument:
    """The map: how good its predictions are, and a plane of it."""
    return document(found, accuracy=found.facts.held_out, heat=plane(found, kind))


def plane(found: GemmMap, kind: GemmPoint) -> gemms.HeatPlane:
    """Cells of one type, layout and epilogue, all K together; each begins at a power of two.

    Where the map has aligned matmuls, the others are left out: they run on slower kernels.
    """
    rows = found.like(kind)
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
        gemms.HeatCell(m, n, count, percent, tflops, tile or "")
        for m, n, count, percent, tflops, tile in cells.iter_rows()
    ]
    return gemms.HeatPlane(kind.dtype, kind.layout, kind.epilogue, made)


def document(found: GemmMap, **parts: object) -> gemms.GemmsDocument:
    """The document of a map, with what was asked of it."""
    facts = found.facts
    head = (SCHEMA, facts.device, facts.command, facts.environment, found.frame.height)
    return gemms.GemmsDocument(*head, **parts)  # type: ignore[arg-type]
