"""Makes a map from the rows of a sweep: decodes names, counts tiles and waves, compares roofs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.names import devices, families
from foretrace.names.gemms import table
from foretrace.names.gemms.distance import held_out_accuracy
from foretrace.names.gemms.tiling import Launched, Tiling, split_stated, tiling
from foretrace.schema.device import Device, MeasuredRoofs
from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS, GemmPoint
from foretrace.schema.kernel import KernelId

MATMULS = ("gemm", "gemv")
SWEEP = "foretrace lab gemms -o"
_SMALL = {"layout": LAYOUTS, "dtype": DTYPES, "epilogue": EPILOGUES}
SCHEMA: dict[str, Any] = {
    "m": pl.Int32,
    "n": pl.Int32,
    "k": pl.Int32,
    **{name: pl.Enum(values) for name, values in _SMALL.items()},
    **dict.fromkeys(("kernel", "short", "family", "arch"), pl.String),
    **dict.fromkeys(("tile_n", "tile_m", "tile_k"), pl.Int16),
    "cluster": pl.String,
    "stages": pl.Int16,
    "splits": pl.Boolean,
    "split": pl.Int16,
    "blocks": pl.Int32,
    "per_sm": pl.Int16,
    "tiles": pl.Int32,
    **dict.fromkeys(("waves", "waste", "intensity"), pl.Float32),
    "others": pl.String,
    **dict.fromkeys(("cold_us", "warm_us", "kernel_us", "roof_us"), pl.Float32),
    "roof": pl.Enum(("compute", "memory")),
}


def rows_of(path: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The environment of a sweep, and its points, from the file that the sweep wrote."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found = [json.loads(line) for line in lines]
    except (OSError, ValueError, EOFError) as problem:
        raise UsageError(f"{path}: not a file that a sweep wrote: {problem}") from None
    around = next((row["environment"] for row in found if "environment" in row), None)
    if around is None:
        raise UsageError(f"{path}: no environment in it, so its card is unknown")
    return around, [row for row in found if row.get("kernels")]


def make(
    around: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    place: Path,
    heldout: Iterable[Mapping[str, Any]] = (),
    roofs: MeasuredRoofs | None = None,
) -> table.GemmMap:
    """Write a map to `place`; its roofs are measured ones where there are any."""
    name, sms = around["gpu"], int(around["sms"])
    device = devices.find(name, sms=sms)
    if device is None:
        raise UsageError(f"{name}: its peaks are unknown, so matmuls have no roof")
    flops, bytes_per_s = _rates(device, roofs)
    facts = table.MapFacts(name, sms, f"{SWEEP} {place.name}", dict(around), flops, bytes_per_s)
    apart = frame(heldout, sms, flops, bytes_per_s)
    every = frame(rows, sms, flops, bytes_per_s)
    found = table.GemmMap(place, facts, every, apart if apart.height else None)
    found.facts = replace(facts, held_out=held_out_accuracy(found))
    table.save(found)
    return found


def _rates(device: Device, roofs: MeasuredRoofs | None) -> tuple[dict[str, float], float]:
    """FLOP/s by data type and bytes per second: measured on the units alone, else the datasheet."""
    known = dict(device.peak_flops)
    if roofs:
        known |= {name: rate * 1e12 for name, rate in roofs.units_tflops.items()}
    flops = {name: known[name] for name in DTYPES if name in known}
    memory = roofs.memory_gbps(device.cache_bytes or 0) if roofs else None
    return flops, memory * 1e9 if memory else device.bytes_per_s


def frame(
    rows: Iterable[Mapping[str, Any]], sms: int, flops: Mapping[str, float], bytes_per_s: float
) -> pl.DataFrame:
    """One row for each matmul, in order of type, layout, epilogue and size."""
    made = [_row(row, sms, flops, bytes_per_s) for row in rows]
    return pl.DataFrame(made, schema=SCHEMA, orient="row").sort(
        "dtype", "layout", "epilogue", "n", "k", "m"
    )


def _row(
    row: Mapping[str, Any], sms: int, flops: Mapping[str, float], bytes_per_s: float
) -> dict[str, Any]:
    point = GemmPoint(*(row[name] for name in GemmPoint._fields))
    kernels = [families.decode(each["name"]) for each in row["kernels"]]
    # the matmul among the kernels of a call: the longest, should it be cut into several
    matmuls = [at for at, kernel in enumerate(kernels) if kernel.role in MATMULS]
    longest = {at: (run["cold_us"] or 0, -at) for at, run in enumerate(row["kernels"])}
    main = max(matmuls or longest, key=longest.__getitem__)
    kernel, run = kernels[main], row["kernels"][main]
    x, y, z = run["grid"]
    threads = prod(run["block"])
    launch = Launched((x, y, z), threads, run["registers"] or 0, run["shared_memory"] or 0)
    cut = tiling(point, kernel, launch, sms)
    others = [each.short for at, each in enumerate(kernels) if at != main]
    compute = point.flops / flops[point.dtype] * 1e6
    memory = point.bytes / bytes_per_s * 1e6
    return {
        **point._asdict(),
        **_named(kernel),
        **_counted(cut),
        "splits": split_stated(kernels, cut),
        "blocks": launch.blocks,
        "per_sm": launch.per_multiprocessor(),
        "intensity": point.intensity,
        "others": "; ".join(others),
        "cold_us": median(row["cold_us"]),
        "warm_us": median(row["warm_us"]),
        "kernel_us": run["cold_us"],
        "roof_us": max(compute, memory),
        "roof": "compute" if compute >= memory else "memory",
    }


def _named(kernel: KernelId) -> dict[str, Any]:
    tile: list[int] = kernel.get("tile") or []
    cluster = kernel.get("cluster")
    return {
        "kernel": kernel.name,
        "short": kernel.short,
        "family": kernel.family,
        "arch": kernel.get("arch"),
        "tile_k": tile[2] if len(tile) > 2 else None,
        "cluster": "x".join(map(str, cluster)) if cluster else None,
        "stages": kernel.get("stages"),
    }


def _counted(cut: Tiling | None) -> dict[str, Any]:
    if cut is None:
        return dict.fromkeys(("tile_n", "tile_m", "split", "tiles", "waves", "waste"))
    known = cut.split is not None  # without the split, the waves are not known either
    return {
        "tile_n": cut.tile_n,
        "tile_m": cut.tile_m,
        "split": cut.split,
        "tiles": cut.tiles,
        "waves": cut.waves if known else None,
        "waste": cut.waste if known else None,
    }


def errors(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Matmuls that the library refused, and why."""
    for row in rows:
        if "error" in row:
            yield f"{row['m']}x{row['n']}x{row['k']}: {row['error']}"
