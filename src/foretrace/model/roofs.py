"""The cases of kernels under the roofs of their GPU: rates, bound, and what limits each.

A cost that no GPU could have done in the measured time is wrong. It is removed from every launch of
its case before anything is derived from it, and the note says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from msgspec import to_builtins
from msgspec.structs import replace

from foretrace.model.collectives import bus_of_kernels
from foretrace.model.costs import Certainty, Tensor
from foretrace.model.costs.limits import Footprint, Traits, limit
from foretrace.model.costs.roofline import Roofline, Work, impossible, position
from foretrace.model.metadata import device_of
from foretrace.model.recording import Recording, op_call
from foretrace.model.reuse import Reuse
from foretrace.names import families
from foretrace.schema.kernel import KernelId

_AMOUNTS = ("flops", "bytes_read", "bytes_written", "bytes")
LEAST = "at least: what is certain; the estimate exceeds what the GPU can do in this time"
_COST = ("flops", "bytes", "cost_certainty", "cost_note")
_PLACED: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("tflops", "gbps"), pl.Float64),
    "bound": pl.String,
    "roof_percent": pl.Float64,
    "limited_by": pl.String,
    "cache_use": pl.Struct(
        {
            "verdict": pl.String,
            "excess_bytes": pl.Int64,
            "cache_bytes": pl.Int64,
            "inputs": pl.List(
                pl.Struct(
                    {
                        **dict.fromkeys(("tensor", "op", "kernel"), pl.String),
                        "before_ns": pl.Float64,
                        **dict.fromkeys(("bytes", "between_bytes", "unpriced"), pl.Int64),
                    }
                )
            ),
            **dict.fromkeys(("written_bytes", "too_large"), pl.Int64),
        }
    ),
}
_LAUNCH = ("grid", "block", "registers", "shared_memory", "least_per_sm", "most_per_sm")


def numbered_cases(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels with a number for their case: one name, and one signature of the op, or -1."""
    name = trace.host.name[trace.gpu.id[trace.gpu.is_kernel]].astype(np.int64)
    signature = kernels["signature"].to_numpy()
    return kernels.with_columns(
        pl.Series("case", name * (int(signature.max(initial=-1)) + 2) + signature + 1)
    )


def believed(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels without costs that their times contradict."""
    device = device_of(trace.about)
    if device is None or kernels.is_empty():
        return kernels
    launches = numbered_cases(trace, kernels)
    found = launches.group_by("case").agg(pl.col("name", "operand_type").first(), *cost_of_case())
    cases = settled(launches, found)
    wrong = {
        row["case"]: why
        for row in cases.iter_rows(named=True)
        if (why := impossible(device, _work(row, families.decode(row["name"]))))
    }
    return _without(kernels, launches["case"], wrong) if wrong else kernels


def _without(kernels: pl.DataFrame, case: pl.Series, wrong: dict[int, str]) -> pl.DataFrame:
    """The kernels without the costs of these cases; what is certain of an estimate stays."""
    why = case.replace_strict(wrong, default=None, return_dtype=pl.String)
    kept, floor = why.is_null(), pl.col("least")
    known = floor.is_not_null()
    certainty = (
        pl.when(known).then(pl.lit(str(Certainty.AT_LEAST))).otherwise(pl.lit(str(Certainty.NONE)))
    )
    note = pl.when(known).then(pl.lit(LEAST)).otherwise(why)
    instead = {"bytes": floor, "cost_certainty": certainty, "cost_note": note}
    return kernels.with_columns(
        pl.when(kept).then(pl.col(name)).otherwise(instead.get(name, pl.lit(None))).alias(name)
        for name in (*_AMOUNTS, "cost_certainty", "cost_note")
    )


def cost_of_case() -> Iterator[pl.Expr]:
    """What one launch of a case costs, the time that goes with it, and whether launches differ."""
    yield pl.col(_COST).first()
    yield pl.col("dur_ns").median().alias("cost_ns")
    differ = [
        (pl.col(name).min() != pl.col(name).max()).fill_null(value=False)
        | pl.col(name).null_count().is_between(1, pl.len() - 1)
        for name in ("flops", "bytes")
    ]
    yield pl.any_horizontal(*differ).alias("differs")


def settled(launches: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """The cases, with mean costs and times where those of the launches differ.

    A multi-tensor kernel takes what fits in each launch. The means are over the launches whose cost
    is known, and are not known where one of the amounts is not.
    """
    several = cases.filter("differs")["case"]
    if several.is_empty():
        return cases.drop("differs")
    known = launches.filter(
        pl.col("case").is_in(several.implode()),
        pl.any_horizontal(pl.col("flops", "bytes").is_not_null()),
    )
    means = known.group_by("case").agg(
        *(_mean(name).alias(f"{name}_mean") for name in ("flops", "bytes")),
        pl.col("cost_certainty", "cost_note").first().name.suffix("_mean"),
        pl.col("dur_ns").mean().alias("cost_ns_mean"),
    )
    joined = cases.join(means, on="case", how="left", maintain_order="left")
    return joined.with_columns(
        pl.when("differs").then(f"{name}_mean").otherwise(name).alias(name)
        for name in (*_COST, "cost_ns")
    ).select(cases.drop("differs").columns)


def _mean(name: str) -> pl.Expr:
    whole = pl.col(name).mean().round().cast(pl.Int64, strict=False)
    return pl.when(pl.col(name).null_count() == 0).then(whole)


def launch_of_case() -> Iterator[pl.Expr]:
    """How the first launch of a case was configured, and blocks per SM of all of them."""
    yield pl.col("grid", "block", "registers", "shared_memory").first()
    yield pl.col("blocks_per_sm").min().alias("least_per_sm")
    yield pl.col("blocks_per_sm").max().alias("most_per_sm")


def placed(trace: Recording, kernels: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Rates, bound, share of the nearest roof and limit of each case; its launch goes."""
    device, bus = device_of(trace.about), bus_of_kernels(trace, kernels)
    rows, back = [], Reuse(trace, kernels, device) if device else None
    for row in cases.iter_rows(named=True):
        kernel = families.decode(row["name"])
        work = _work(row, kernel)
        place = position(device, work)
        traits = _traits(trace, row, kernel)
        if row["role"] == "comms" and bus:
            found = [bus[each] for each in row["kernels"] if each in bus]
            traits = replace(traits, bus_gbps=median(found) if found else None)
        if back and place.nearest == "l2":
            traits = replace(traits, cached=back.of(row["kernels"], work))
        launch = _footprint(row, device.sms if device else 0)
        bound, text = limit(device, work, place, launch, traits)
        if traits.cached and bound == "unknown":  # no rate either: the cost is in doubt
            place = Roofline(place.tflops)
        share = None if bound == "comms" else place.share
        percent = None if share is None else 100 * share
        use = None if traits.cached is None else to_builtins(traits.cached)
        rows.append((place.tflops, place.gbps, bound, percent, text, use))
    return cases.drop("cost_ns", *_LAUNCH).hstack(pl.DataFrame(rows, _PLACED, orient="row"))


def _work(row: dict[str, Any], kernel: KernelId) -> Work:
    return Work(
        row["flops"],
        row["bytes"],
        row["cost_ns"],
        dtype_of(row, kernel),
        kernel.get("tensor_core"),
        row["cost_certainty"],
    )


def dtype_of(case: dict[str, Any], kernel: KernelId) -> str | None:
    """The type that a kernel computes on: what its name states, else that of its op's operands."""
    stated = kernel.get("dtype_in") or kernel.get("dtype")
    return stated if isinstance(stated, str) else case["operand_type"]


def _footprint(row: dict[str, Any], sms: int) -> Footprint:
    """The largest launch of a case: blocks per SM tell where grids differ."""
    blocks = math.prod(row["grid"]) if row["grid"] else 0
    if row["least_per_sm"] != row["most_per_sm"]:
        blocks = max(blocks, round(row["most_per_sm"] * sms))
    threads = math.prod(row["block"]) if row["block"] else 0
    return Footprint(blocks, threads, row["registers"] or 0, row["shared_memory"] or 0)


def _traits(trace: Recording, row: dict[str, Any], kernel: KernelId) -> Traits:
    """What the name states; the strides of the operands tell strided from broadcast."""
    loose = kernel.get("contiguous") is False
    looked_at = row["op"] is not None and (loose or row["role"] == "copy")
    call = op_call(trace, row["op"]) if looked_at else None
    strided = call is not None and any(_strided(tensor) for tensor in call.every_tensor())
    return Traits(
        row["role"],
        strided=strided,
        broadcast=loose and not strided,
        cast=kernel.get("cast") is True and not kernel.get("vector_width"),
        split_k=kernel.get("splitk") is True or (kernel.get("split_k") or 0) > 1,
    )


def _strided(tensor: Tensor) -> bool:
    """Whether elements that follow each other in an operand are apart in memory."""
    if not tensor.strides or len(tensor.strides) != len(tensor.dims):
        return False
    dense = 1
    for size, stride in zip(reversed(tensor.dims), reversed(tensor.strides), strict=True):
        if size > 1 and stride not in (0, dense):
            return True
        dense *= size if stride else 1
    return False
