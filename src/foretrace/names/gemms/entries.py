"""Rows of a map as entries of the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.names.gemms.table import KEY
from foretrace.schema.documents.gemms import MappedMatmul, MatmulSize
from foretrace.schema.gemms import GemmPoint


def point_of(row: Mapping[str, Any]) -> GemmPoint:
    """The matmul of a row."""
    return GemmPoint(*(row[name] for name in KEY))


def size_of(point: GemmPoint) -> MatmulSize:
    """The matmul as the document has it."""
    return MatmulSize(*point)


def tile_text(row: Mapping[str, Any]) -> str:
    """`256x128`: output features x rows; empty where the name states no tile."""
    return f"{row['tile_n']}x{row['tile_m']}" if row["tile_n"] else ""


def entry(row: Mapping[str, Any]) -> MappedMatmul:
    """A row of the map."""
    point = point_of(row)
    return MappedMatmul(
        size_of(point),
        row["kernel"],
        row["short"],
        row["family"],
        tile_text(row),
        row["cluster"] or "",
        row["stages"],
        row["splits"],
        row["split"],
        row["tiles"],
        row["waves"],
        row["waste"],
        row["intensity"],
        row["cold_us"],
        row["warm_us"],
        row["kernel_us"],
        point.flops / row["cold_us"] / 1e6,
        row["roof"],
        100 * row["roof_us"] / row["cold_us"],
        row["others"],
    )
