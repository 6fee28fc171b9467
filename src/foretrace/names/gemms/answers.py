"""What a map answers: the document of `foretrace gemms`, and the sizes that a user writes."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from foretrace.base.errors import UsageError
from foretrace.names.gemms.distance import Nearest, kind_of
from foretrace.names.gemms.explain_shape import explain_shape
from foretrace.names.gemms.table import GemmMap, point_of
from foretrace.schema.documents import gemms
from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS, GemmPoint

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
    return _document(found, accuracy=found.facts.held_out, heat=plane(found, kind))


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


def near_to(found: GemmMap, point: GemmPoint) -> gemms.GemmsDocument:
    """Why a shape gets its kernel."""
    return _document(found, near=explain_shape(found, point))


def predicted(found: GemmMap, point: GemmPoint) -> gemms.GemmsDocument:
    """The kernel and the time of a shape, by the nearest matmuls of the map."""
    made = Nearest(found).predict(point)
    nearest = [
        gemms.NearMatmul(gemms.MatmulSize(*near.point), *near[1:]) for near in made.neighbours
    ]
    answer = gemms.PredictAnswer(
        matmul=gemms.MatmulSize(*point),
        measured=made.measured,
        inconclusive=made.far,
        family=made.family,
        kernel=made.kernel,
        short=made.short,
        kind=kind_of(point),
        agreement=made.agreement,
        us=made.us,
        low_us=made.low_us,
        high_us=made.high_us,
        tflops=point.flops / made.us / 1e6,
        roof_percent=100 * found.facts.roof_us(point) / made.us,
        nearest=nearest,
    )
    return _document(found, accuracy=found.facts.held_out, predict=answer)


def _document(found: GemmMap, **parts: object) -> gemms.GemmsDocument:
    facts = found.facts
    head = (SCHEMA, facts.device, facts.command, facts.environment, found.frame.height)
    return gemms.GemmsDocument(*head, **parts)  # type: ignore[arg-type]
