"""The map of a card: `maps/NAME.parquet` has one row for each matmul, `NAME.json` the card, the
roofs and how both were measured (`tools/gemm_map.py`).

The distance between two matmuls is octaves of M, N and K, and a price for another type, layout,
epilogue or alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.work import families
from foretrace.work.gemms.documents import MappedMatmul, MatmulSize

SHIPPED = Path(__file__).with_name("maps")
CARD = "NVIDIA H200"  # that was measured
KEY = MatmulSize.__struct_fields__
SIZES = ("m", "n", "k")
_TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "c10::Float8_e4m3fn": "fp8"}
_FIRST_FACTOR = {"aten::mm": 0, "aten::addmm": 1}
Array = np.ndarray[Any, np.dtype[Any]]
# What another type, layout, epilogue, width of loads, or one row only costs, in octaves: chosen by
# leaving out matmuls of the H200's map.
PRICES = np.array((5.0, 2.0, 2.0, 3.0, 2.0))
FAR = 3.0  # octaves, the price of other alignment: a third of such matmuls took 15% more or less


class MapFacts(Struct, frozen=True):
    """Where a map comes from. Rates are FLOP/s by data type, and bytes per second of the memory."""

    device: str
    sms: int
    command: str
    environment: dict[str, str]
    flops: dict[str, float]
    bytes_per_s: float


class GemmMap:
    """A map: `frame` has the matmuls."""

    def __init__(self, facts: MapFacts, frame: pl.DataFrame) -> None:
        self.facts, self.frame = facts, frame

    @cached_property
    def rows(self) -> dict[MatmulSize, int]:
        """The row of each matmul."""
        return {MatmulSize(*row): at for at, row in enumerate(self.frame.select(KEY).iter_rows())}

    def like(self, point: MatmulSize) -> pl.DataFrame:
        """Matmuls of the same type, layout and epilogue."""
        return self.frame.filter(
            pl.col("dtype") == point.dtype,
            pl.col("layout") == point.layout,
            pl.col("epilogue") == point.epilogue,
        )

    def along(self, point: MatmulSize, name: str = "m") -> pl.DataFrame:
        """Matmuls that differ from this one in one size alone, in order of it."""
        fixed = [pl.col(each) == getattr(point, each) for each in SIZES if each != name]
        return self.like(point).filter(*fixed).sort(name)

    def ran_on(self, point: MatmulSize, kernel: str) -> bool:
        """Whether the map holds this matmul with exactly this kernel."""
        at = self.rows.get(point)
        return at is not None and self.frame["kernel"][at] == kernel

    def nearest(self, point: MatmulSize, count: int) -> tuple[Array, Array]:
        """The rows of the nearest matmuls, and how many octaves they are away."""
        octaves, traits = self._places
        away = np.abs(octaves - np.log2(np.array(_sizes(point)))).sum(axis=1)
        away += (traits != _traits(point)) @ PRICES
        rows = np.argsort(away, kind="stable")[:count]
        return rows, away[rows]

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        octaves = np.log2(np.array([_sizes(point) for point in self.rows]))
        return octaves, np.array([_traits(point) for point in self.rows])


def _sizes(point: MatmulSize) -> tuple[float, float, float]:
    return float(point.m), float(point.n), float(point.k)


def _traits(point: MatmulSize) -> list[int]:
    """What has a price, in the order of `PRICES`; the library sees no order in one row of x."""
    vector = point.m == 1
    layout = {"nt": "nn", "tt": "tn"}.get(point.layout, point.layout) if vector else point.layout
    kinds = DTYPES.index(point.dtype), LAYOUTS.index(layout), EPILOGUES.index(point.epilogue)
    return [*kinds, point.load_bytes, int(vector)]


@cache
def shipped() -> GemmMap:
    """The map that ships."""
    place = SHIPPED / f"{CARD.lower().replace(' ', '-')}.parquet"
    facts = msgspec.json.decode(place.with_suffix(".json").read_bytes(), type=MapFacts)
    return GemmMap(facts, pl.read_parquet(place))


def of_device(device: str | None) -> GemmMap | None:
    """The map that was measured on this device; None for any other card."""
    return shipped() if device == CARD else None


# Rows of a map as entries of a document.


def point_of(row: Mapping[str, Any]) -> MatmulSize:
    """The matmul of a row."""
    return MatmulSize(*(row[name] for name in KEY))


def tile_text(row: Mapping[str, Any]) -> str:
    """`256x128`: output features x rows; empty where the name states no tile."""
    return f"{row['tile_n']}x{row['tile_m']}" if row["tile_n"] else ""


def entry(row: Mapping[str, Any]) -> MappedMatmul:
    """A row of the map."""
    point = point_of(row)
    same = ("kernel", "short", "family", "stages", "tiles", "waves", "waste", "intensity")
    times = ("cold_us", "warm_us", "kernel_us", "roof", "others")
    return MappedMatmul(
        matmul=point,
        tile=tile_text(row),
        cluster=row["cluster"] or "",
        split=row["splits"],
        parts=row["split"],
        tflops=point.flops / row["cold_us"] / 1e6,
        roof_percent=100 * row["roof_us"] / row["cold_us"],
        **{name: row[name] for name in (*same, *times)},
    )


# Matmuls of a trace, and where the map changes the kernel between two of them.


def gemm_point(
    op: str | None, dims: Sequence[Sequence[int]], types: Sequence[str], kernel: str
) -> MatmulSize | None:
    """The matmul that an op's call computed on this kernel.

    None where the call is not a plain matmul, or the kernel's name has no layout.
    """
    first = _FIRST_FACTOR.get(op or "")
    if first is None or len(dims) < first + 2 or len(types) < first + 2:
        return None
    left, right = dims[first : first + 2]
    if len(left) != 2 or len(right) != 2 or (first and len(dims[0]) != 1):
        return None  # a batch; or a whole matrix is added, which no map holds
    (m, k), (depth, n) = left, right
    decoded = families.decode(kernel)
    layout, math = str(decoded.get("layout"))[:2], decoded.get("math_dtype")
    dtype = _TYPES.get(types[first])
    if types[first] == "float":
        dtype = "tf32" if math == "tf32" else "fp32"
    if k != depth or layout not in LAYOUTS or dtype is None or min(m, n, k) < 1:
        return None
    return MatmulSize(m, n, k, layout, dtype, "bias" if first else "none")


class Boundary(NamedTuple):
    """The sizes between which the kernel changes, as near as the map has measured."""

    last: int
    first: int


def differing(a: MatmulSize, b: MatmulSize) -> str | None:
    """The one size in which two matmuls differ; None where they differ in more or in none."""
    different = [name for name in KEY if getattr(a, name) != getattr(b, name)]
    return different[0] if len(different) == 1 and different[0] in SIZES else None


def crossed(
    found: GemmMap, a: tuple[MatmulSize, str], b: tuple[MatmulSize, str]
) -> list[Boundary] | None:
    """The boundaries between two matmuls that ran on these kernels.

    None unless the map holds both matmuls, gives them exactly these kernels, and the matmuls
    differ in one size alone.
    """
    name = differing(a[0], b[0])
    if name is None or not (found.ran_on(*a) and found.ran_on(*b)):
        return None
    low, high = sorted(getattr(each[0], name) for each in (a, b))
    rows = found.along(a[0], name).filter(pl.col(name).is_between(low, high))
    pairs = pairwise(rows.select(name, "kernel").rows())
    return [Boundary(before[0], after[0]) for before, after in pairs if before[1] != after[1]]


# What a recorded matmul can be; here, since the help of a command must not load the documents.
LAYOUTS = ("tn", "nn", "nt", "tt")
DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")
EPILOGUES = ("none", "bias", "bias_gelu", "bias_relu")
