"""The cases of kernels under the roofs of their GPU: rates, bound, and what limits each.

A cost that no GPU could have done in the measured time is wrong. It is removed from every launch of
its case before anything is derived from it, and the note says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from foretrace import families
from foretrace.model.about import device_of
from foretrace.model.arguments import op_call
from foretrace.model.costs import Certainty, Tensor
from foretrace.model.costs.limits import Footprint, Traits, limit
from foretrace.model.costs.roofline import Work, impossible, position
from foretrace.schema.kernel import KernelId

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

CASE = ("name", "signature")
_AMOUNTS = ("flops", "bytes_read", "bytes_written", "bytes")
_PLACED = {
    **dict.fromkeys(("tflops", "gbps"), pl.Float64),
    "bound": pl.String,
    "roof_percent": pl.Float64,
    "limited_by": pl.String,
}
_LAUNCH = ("grid", "block", "registers", "shared_memory")


def believed(trace: Trace, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels without costs that their times contradict."""
    device = device_of(trace.about)
    priced = kernels.filter(pl.any_horizontal(pl.col("flops", "bytes").is_not_null()))
    if device is None or priced.is_empty():
        return kernels
    cases = priced.group_by(CASE).agg(*cost_of_case(), pl.col("operand_type").first())
    wrong = [
        (row["name"], row["signature"], why)
        for row in cases.iter_rows(named=True)
        if (why := impossible(device, _work(row, families.decode(row["name"]))))
    ]
    return _without(kernels, wrong) if wrong else kernels


def _without(kernels: pl.DataFrame, wrong: list[tuple[Any, ...]]) -> pl.DataFrame:
    found = pl.DataFrame(
        wrong, {name: kernels.schema[name] for name in CASE} | {"why": pl.String}, orient="row"
    )
    why = kernels.join(found, on=CASE, how="left", maintain_order="left")["why"]
    bad = why.is_not_null()
    return kernels.with_columns(
        *(pl.when(bad).then(None).otherwise(pl.col(name)).alias(name) for name in _AMOUNTS),
        cost_certainty=pl.when(bad)
        .then(pl.lit(str(Certainty.NONE)))
        .otherwise(pl.col("cost_certainty")),
        cost_note=pl.when(bad).then(why).otherwise(pl.col("cost_note")),
    )


def cost_of_case() -> Iterator[pl.Expr]:
    """What one launch of a case costs, and the time that goes with it.

    The launches of a case have one cost, and their median time goes with it. Where it varies (a
    multi-tensor kernel takes what fits in each launch) the means go together, over the launches
    whose cost is known.
    """
    known = pl.any_horizontal(pl.col("flops", "bytes").is_not_null())
    same, dur = pl.col("bytes").n_unique() * pl.col("flops").n_unique() == 1, pl.col("dur_ns")
    for name in ("flops", "bytes"):
        amount = pl.col(name).filter(known)
        mean = pl.when(amount.null_count() == 0).then(amount.mean().round())
        whole = mean.otherwise(None).cast(pl.Int64, strict=False)
        yield pl.when(same).then(pl.col(name).first()).otherwise(whole).alias(name)
    yield pl.when(same).then(dur.median()).otherwise(dur.filter(known).mean()).alias("cost_ns")
    for name in ("cost_certainty", "cost_note"):
        first = pl.col(name).filter(known).first()
        yield pl.when(known.any()).then(first).otherwise(pl.col(name).first()).alias(name)


def launch_of_case() -> Iterator[pl.Expr]:
    """How the launches of a case were configured: every grid, the rest of the first."""
    yield pl.col("grid").unique().alias("grid")
    yield pl.col(_LAUNCH[1:]).first()


def placed(trace: Trace, cases: pl.DataFrame) -> pl.DataFrame:
    """Rates, bound, share of the nearest roof and limit of each case; its launch goes."""
    device = device_of(trace.about)
    rows = []
    for row in cases.iter_rows(named=True):
        kernel = families.decode(row["name"])
        work = _work(row, kernel)
        place = position(device, work)
        traits = _traits(trace, row, kernel)
        bound, text = limit(device, work, place, _footprint(row), traits)
        share = None if bound == "comms" else place.share
        percent = None if share is None else 100 * share
        rows.append((place.tflops, place.gbps, bound, percent, text))
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


def _footprint(row: dict[str, Any]) -> Footprint:
    blocks = max((math.prod(grid) for grid in row["grid"] if grid), default=0)
    threads = math.prod(row["block"]) if row["block"] else 0
    return Footprint(blocks, threads, row["registers"] or 0, row["shared_memory"] or 0)


def _traits(trace: Trace, row: dict[str, Any], kernel: KernelId) -> Traits:
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
