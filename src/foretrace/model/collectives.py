"""Collectives: the message of each, what it moves at least, and the bandwidth that it reached.

The profiler writes the elements that go in and out, their type and the group beside the kernel, or
beside the op that launched it. Sizes and bandwidths are those of nccl-tests, so they compare with
its figures: with `n` ranks, a message of S bytes that took t seconds has an algorithm bandwidth of
S / t. The bus bandwidth is that times

    all-reduce                                       2 * (n - 1) / n
    all-gather, reduce-scatter, all-to-all,          (n - 1) / n
    gather, scatter
    broadcast, reduce, send, receive                 1

It tells how much the links carried, whatever the collective. A kernel also waits for the ranks that
come late, and that is in its time: the fastest of several equal ones comes nearest to the links.
"""

from __future__ import annotations

import re

import polars as pl

from foretrace.model.costs.comms import ELEMENT_TYPES, NOTE
from foretrace.model.recording import Recording
from foretrace.schema.traffic import Certainty

_SPREAD, _ONCE = "(n - 1) / n", "1"
# part of the recorded name (letters alone): the collective, and the factor of its bus bandwidth
_KINDS = {
    "allreduce": ("all-reduce", "2 * (n - 1) / n"),
    "allgather": ("all-gather", _SPREAD),
    "reducescatter": ("reduce-scatter", _SPREAD),
    "alltoall": ("all-to-all", _SPREAD),
    "broadcast": ("broadcast", _ONCE),
    "gather": ("gather", _SPREAD),
    "scatter": ("scatter", _SPREAD),
    "reduce": ("reduce", _ONCE),
    "send": ("send", _ONCE),
    "recv": ("receive", _ONCE),
}
BOTH_SIDES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_ALIKE = ("collective", "dtype", "message_bytes", "group_name", "group_size")
_SIZES = {name: size for name, (_, size) in ELEMENT_TYPES.items()}


def named(recorded: str) -> tuple[str, str] | None:
    """The collective that a recorded name means, and the factor of its bus bandwidth."""
    letters = re.sub(r"[^a-z]", "", recorded.lower())
    return next((kind for part, kind in _KINDS.items() if part in letters), None)


def bus_factor() -> pl.Expr:
    """The factor of the bus bandwidth, from the columns `collective` and `group_size`."""
    ranks, factors = pl.col("group_size"), dict(_KINDS.values())
    factor = pl.col("collective").replace_strict(factors, default=None, return_dtype=pl.String)
    spread = (ranks - 1) / ranks
    known = (
        pl.when(factor == _ONCE).then(1.0)
        .when(factor == _SPREAD).then(spread)
        .when(factor.is_not_null()).then(2 * spread)
    )  # fmt: skip
    return pl.when(ranks >= 1).then(known)


def messages(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The collectives among these kernels whose message sizes are recorded, one row for each."""
    stated, origins = trace.tables["comms"], trace.origins.tables["comms"]
    talking = kernels.filter(role="comms").select("id", "op", "dur_ns")
    own = talking.join(stated, left_on="id", right_on="event", maintain_order="left")
    rest = talking.join(own, on="id", how="anti", maintain_order="left")
    by_op = rest.join(origins, left_on="op", right_on="event", maintain_order="left")
    return _sized(pl.concat([own, by_op], how="vertical_relaxed"))


def _silent(trace: Recording) -> bool:
    return trace.origins.tables["comms"].is_empty()


def _sized(found: pl.DataFrame) -> pl.DataFrame:
    kinds = {name: named(name) for name in found["collective"].drop_nulls().unique().to_list()}
    known = {name: kind[0] for name, kind in kinds.items() if kind}
    size = pl.col("dtype").replace_strict(_SIZES, default=None, return_dtype=pl.Int64)
    kind = pl.col("collective").replace_strict(known, default=None, return_dtype=pl.String)
    return (
        found.with_columns(
            kind.alias("collective"),
            (pl.col("in_elements") * size).alias("in_bytes"),
            (pl.col("out_elements") * size).alias("out_bytes"),
        )
        .filter(
            pl.col("collective").is_not_null(), pl.col("in_bytes") >= 0, pl.col("out_bytes") >= 0
        )
        .with_columns(pl.max_horizontal("in_bytes", "out_bytes").alias("message_bytes"))
        .with_columns(
            pl.when(pl.col("dur_ns") > 0)
            .then(pl.col("message_bytes") / pl.col("dur_ns"))
            .alias("algorithm_gbps")
        )
        .with_columns((pl.col("algorithm_gbps") * bus_factor()).alias("bus_gbps"))
    )


def with_messages(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels with what collectives move at least, where the trace records their messages."""
    found = None if _silent(trace) else messages(trace, kernels)
    if found is None or found.is_empty():
        return kernels
    both = pl.col("collective").is_in(BOTH_SIDES)
    cost = found.select(
        "id",
        pl.when(both).then("in_bytes").alias("bytes_read_own"),
        pl.when(both).then("out_bytes").alias("bytes_written_own"),
        pl.when(both).then(pl.col("in_bytes") + pl.col("out_bytes")).otherwise("message_bytes")
        .alias("bytes_own"),
        pl.lit(str(Certainty.AT_LEAST)).alias("cost_certainty_own"),
        pl.lit(f"at least: {NOTE}").alias("cost_note_own"),
    )  # fmt: skip
    names = [name.removesuffix("_own") for name in cost.columns if name != "id"]
    joined = kernels.join(cost, on="id", how="left", maintain_order="left")
    known = pl.col("bytes_own").is_not_null()
    chosen = [pl.when(known).then(f"{name}_own").otherwise(name).alias(name) for name in names]
    return joined.with_columns(chosen).select(kernels.columns)


def bus_of_kernels(trace: Recording, kernels: pl.DataFrame) -> dict[int, float]:
    """The bus bandwidth of each kernel that has one."""
    if _silent(trace):
        return {}
    found = messages(trace, kernels).drop_nulls("bus_gbps")
    return dict(found.select("id", "bus_gbps").iter_rows())


def collectives(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per collective, type, message size and group; bandwidths of the median and the
    fastest, in 10^9 bytes per second.
    """
    found = messages(trace, kernels)
    return found.group_by(_ALIKE, maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").median().alias("median_ns"),
        pl.col("dur_ns").min().alias("min_ns"),
        pl.col("algorithm_gbps", "bus_gbps").median(),
        pl.col("algorithm_gbps", "bus_gbps").max().name.prefix("best_"),
    )
