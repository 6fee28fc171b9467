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

import numpy as np
import polars as pl

from foretrace.base.arrays import Ints, filled, with_gaps
from foretrace.read.tables import NONE
from foretrace.trace.recording import Recording
from foretrace.work.costs.pointwise import ELEMENT_TYPES, NOTE
from foretrace.work.kernel import Certainty

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


def named(recorded: str) -> str | None:
    """The collective that a recorded name means."""
    letters = re.sub(r"[^a-z]", "", recorded.lower())
    return next((kind for part, (kind, _) in _KINDS.items() if part in letters), None)


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
    talking = kernels.filter(role="comms").select("id", "op", "dur_ns")
    stated = message_sizes(trace, talking["id"].to_numpy(), filled(talking["op"], -1))
    algorithm = pl.when(pl.col("dur_ns") > 0).then(pl.col("message_bytes") / pl.col("dur_ns"))
    return (
        talking.hstack(stated)
        .filter(pl.col("collective").is_not_null())
        .with_columns(algorithm.alias("algorithm_gbps"))
        .with_columns((pl.col("algorithm_gbps") * bus_factor()).alias("bus_gbps"))
    )


def message_sizes(trace: Recording, kernels: Ints, ops: Ints) -> pl.DataFrame:
    """What is recorded beside each of these kernels, else beside its op; null without sizes.

    Column by column: a query over a few rows takes longer than the rows.
    """
    table = trace.origins.tables["comms"]
    known = {name: named(name or "") for name in table["collective"].unique().to_list()}
    kind = pl.Series([known[name] for name in table["collective"].to_list()], dtype=pl.String)
    size = pl.Series([_SIZES.get(name) for name in table["dtype"].to_list()], dtype=pl.Int64)
    sent, got = (table[name] * size for name in ("in_elements", "out_elements"))
    sized = (kind.is_not_null() & (sent >= 0) & (got >= 0)).fill_null(False).to_numpy()
    found = pl.DataFrame(
        {
            **table.to_dict(),
            "collective": kind,
            "in_bytes": sent,
            "out_bytes": got,
            "message_bytes": sent.zip_with(sent >= got, got),
        }
    )
    events = np.append(table["event"].to_numpy(), NONE)
    own, by_op = (np.searchsorted(events[:-1], each) for each in (kernels, ops))
    row = np.where(events[own] == kernels, own, np.where(events[by_op] == ops, by_op, -1))
    return found[with_gaps(row, np.append(sized, False)[row]).cast(pl.UInt32)]


def _silent(trace: Recording) -> bool:
    return trace.origins.tables["comms"].is_empty()


def with_messages(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels with what collectives move at least, where the trace records their messages."""
    found = None if _silent(trace) else messages(trace, kernels)
    if found is None or found.is_empty():
        return kernels
    both = pl.col("collective").is_in(BOTH_SIDES)
    cost = found.select(
        "id",
        pl.when(both).then("in_bytes").alias("bytes_read"),
        pl.when(both).then("out_bytes").alias("bytes_written"),
        pl.when(both).then(pl.col("in_bytes") + pl.col("out_bytes")).otherwise("message_bytes")
        .alias("bytes"),
        pl.lit(str(Certainty.AT_LEAST)).alias("cost_certainty"),
        pl.lit(f"at least: {NOTE}").alias("cost_note"),
    )  # fmt: skip
    return with_costs(kernels, cost, pl.col("bytes_own").is_not_null())


def with_costs(kernels: pl.DataFrame, costs: pl.DataFrame, better: pl.Expr) -> pl.DataFrame:
    """The kernels with other costs, by `id`, where they are better; there they end in `_own`."""
    names = costs.drop("id").columns
    own = costs.rename({name: f"{name}_own" for name in names})
    joined = kernels.join(own, on="id", how="left", maintain_order="left")
    chosen = [pl.when(better).then(f"{name}_own").otherwise(name).alias(name) for name in names]
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
