"""The plane of M and N: how near to its roof a matmul of each octave comes, and its usual tile."""

from __future__ import annotations

import polars as pl

from foretrace.base.errors import UsageError
from foretrace.names.gemms.entries import point_of
from foretrace.names.gemms.table import GemmMap
from foretrace.schema.documents.gemms import HeatCell, HeatPlane
from foretrace.schema.gemms import GemmPoint


def plane(found: GemmMap, kind: GemmPoint) -> HeatPlane:
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
        HeatCell(m, n, count, percent, tflops, tile or "")
        for m, n, count, percent, tflops, tile in cells.iter_rows()
    ]
    return HeatPlane(kind.dtype, kind.layout, kind.epilogue, made)
