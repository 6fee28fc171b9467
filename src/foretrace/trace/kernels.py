"""What each GPU kernel is: its decoded name, its role, the ops above it, and what it must cost.

Everything is worked out once per distinct case (name, op, shapes) and then spread over the
launches, so a million launches cost little more than a thousand.

The code that Inductor generated says what a compiled kernel reads and writes (`with_code`): each
element once. Where a mask or an index leaves elements out the sum is an upper bound, and replaces
no lower bound; code that is not understood replaces nothing.

`Order` has the kernels as launched, each with its case: a kernel name with the shapes of the op
that launched it. A rule looks at the few cases one by one, and at launches as whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from foretrace.base.arrays import coded, with_gaps
from foretrace.read.compiler.records import Access, KernelCall
from foretrace.read.tables import KINDS, NONE
from foretrace.trace import roofs
from foretrace.trace.arguments import distinct_lists
from foretrace.trace.collectives import with_costs, with_messages
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.recording import Recording
from foretrace.trace.serving import contexts
from foretrace.work import costs, families
from foretrace.work.kernel import Certainty
from foretrace.work.kernel_row import facts


def work_table(trace: Recording, chosen: Bools) -> pl.DataFrame:
    """The chosen rows of `gpu`."""
    gpu, host, rows = trace.gpu, trace.host, np.flatnonzero(chosen)
    event, launch, op = gpu.id[rows], gpu.launch[rows], trace.origins.op[rows]
    names = pl.Series(host.names, dtype=pl.String)
    ops = trace.origins.host
    called = pl.Series(ops.names, dtype=pl.String)
    frame = pl.DataFrame(
        {
            "id": event,
            "kind": pl.Series(KINDS, dtype=pl.String)[gpu.kind[rows]],
            "name": names[host.name[event]],
            "ts_ns": with_gaps(gpu.start[rows], gpu.usable[rows]),
            "dur_ns": with_gaps(gpu.length[rows], gpu.usable[rows]),
            "device": _known(gpu.device[rows]),
            "stream": _known(gpu.stream[rows]),
            "correlation": _known(gpu.correlation[rows]),
            "launch": _not_negative(launch),
            "launch_name": with_gaps(names[host.name[np.maximum(launch, 0)]], launch >= 0),
            "delay_ns": _known(gpu.delay[rows]),
            "op": _not_negative(op),
            "op_name": with_gaps(called[ops.name[np.maximum(op, 0)]], op >= 0),
            "step": _not_negative(trace.spans.step_of_work()[rows]),
        }
    )
    side = trace.tables["gpu"].drop("device", "stream").rename({"event": "id"})
    return frame.join(side, on="id", how="left", maintain_order="left")


def _known(values: Ints) -> pl.Series:
    return with_gaps(values, values != NONE)


def _not_negative(values: Ints) -> pl.Series:
    return with_gaps(values, values >= 0)


EXACT = "each element that the generated code loads and stores, once"
AT_MOST = "at most: what the generated code loads and stores; it skips some elements"
_COST = {
    **dict.fromkeys(("bytes_read", "bytes_written", "bytes"), pl.Int64),
    **dict.fromkeys(("cost_certainty", "cost_note"), pl.String),
}
Row = tuple[int, int, int, int, str, str]


def with_code(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels with the traffic of their generated code, where that is known."""
    rows = list(_rows(trace))
    if not rows:
        return kernels
    code = pl.DataFrame(rows, {"id": kernels.schema["id"], **_COST}, orient="row")
    bound = [str(Certainty.EXACT), str(Certainty.AT_LEAST)]
    stated, known = (pl.col(name).is_in(bound) for name in ("cost_certainty_own", "cost_certainty"))
    return with_costs(kernels, code, pl.col("bytes_own").is_not_null() & (stated | ~known))


def _rows(trace: Recording) -> Iterator[Row]:
    known: dict[int, tuple[int, int, int, str, str] | None] = {}
    for event, launch in trace.compiled.items():
        call = launch.call
        if id(call) not in known:
            known[id(call)] = None if call.extern else traffic(call)
        if found := known[id(call)]:
            yield (event, *found)


def traffic(call: KernelCall) -> tuple[int, int, int, str, str] | None:
    """(bytes read, bytes written, both, certainty, note); None where one access is not known."""
    if call.bytes is None:
        return None
    read = sum(_read(access) for access in call.accesses)
    exact = all(access.certainty == "exact" for access in call.accesses)
    certainty, note = (Certainty.EXACT, EXACT) if exact else (Certainty.AT_MOST, AT_MOST)
    return read, call.bytes - read, call.bytes, str(certainty), note


def _read(access: Access) -> int:
    """The bytes that an access reads; an atomic addition reads half and writes half of its own."""
    return {"load": access.bytes or 0, "atomic": (access.bytes or 0) // 2}.get(access.mode, 0)


_PRICED = {
    **dict.fromkeys(("flops", "bytes_read", "bytes_written", "bytes"), pl.Int64),
    **dict.fromkeys(("cost_certainty", "cost_note"), pl.String),
    "least": pl.Int64,
    "operand_type": pl.String,
}
_NO_COST = (None, None, None, None, costs.Certainty.NONE, None, None, None)
_NO_SIZES = "the op's arguments have no recorded sizes"


def described(trace: Recording) -> pl.DataFrame:
    """The kernels of a trace, one row per launch."""
    frame = work_table(trace, trace.gpu.is_kernel).drop("kind", "bytes")
    cases = _Cases(trace, _grids(trace, frame["grid"]))
    frame = frame.with_columns(
        pl.Series("signature", cases.signature),
        pl.Series("chain_id", cases.chain),
        *cases.columns(),
    )
    priced = with_messages(trace, with_code(trace, frame))
    return roofs.believed(trace, priced).drop("least")


def grouped(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per case (one name and the same shapes), with rates, bound and what limits it."""
    launches = roofs.numbered_cases(trace, kernels)
    frame = launches.group_by("case", maintain_order=True).agg(
        pl.col("name", "signature").first(),
        pl.col("id").alias("kernels"),
        pl.len().alias("count"),
        pl.col("step").is_not_null().sum().alias("in_steps"),
        pl.col("dur_ns").count().alias("timed"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").median().alias("median_ns"),
        pl.col("dur_ns").min().alias("min_ns"),
        pl.col("dur_ns").max().alias("max_ns"),
        pl.col("op_name").drop_nulls().unique(maintain_order=True).alias("ops"),
        pl.col("op").drop_nulls().first(),
        pl.col(("short", "family", "role", "operand_type")).first(),  # within a case
        *roofs.cost_of_case(),
        **roofs.LAUNCH_OF_CASE,
    )
    cases = roofs.placed(trace, kernels, roofs.settled(launches, frame).drop("case"))
    rows = cases.rows(named=True)
    return cases.with_columns(
        pl.Series(name, [fact.of(row) for row in rows], strict=False)
        for name, fact in facts().items()
    )


def _grids(trace: Recording, recorded: pl.Series) -> pl.Series:
    """The grids of the kernels, those of replayed ones from their launches in a capture.

    The calls named `Ext` state threads instead of blocks.
    """
    origins = trace.origins
    if not origins.is_captured.any():
        return recorded
    host, launch = origins.host, origins.launch[trace.gpu.is_kernel]
    in_blocks = ~host.named(lambda name: "Ext" in name)[np.maximum(launch, 0)]
    own = pl.DataFrame({"event": np.where(in_blocks, launch, -1), "grid": recorded})
    stated = origins.tables["launches"].select("event", pl.col("grid").alias("stated"))
    joined = own.join(stated, on="event", how="left", maintain_order="left")
    return joined.select(pl.coalesce("grid", "stated").alias("grid"))["grid"]


class _Cases:
    """Kernels of one trace and the distinct cases among them."""

    def __init__(self, trace: Recording, grids: pl.Series) -> None:
        self.trace, gpu, origins = trace, trace.gpu, trace.origins
        self.host = origins.host
        rows = np.flatnonzero(gpu.is_kernel)
        self.event, self.op, self.length = gpu.id[rows], origins.op[rows], gpu.length[rows]
        self.call = origins.call[rows]
        self.name = self.host.name[self.event]
        self.op_name = np.where(self.op >= 0, self.host.name[np.maximum(self.op, 0)], -1)
        self.signature = origins.arguments.numbers(self.op)
        self.chain = self.host.op_paths.numbers(self.op)
        distinct, self.grid = distinct_lists(grids)
        blocks = np.array([math.prod(grid) if grid else 0 for grid in distinct])
        self.blocks: Ints = blocks[self.grid]
        self.context, self.contexts = contexts(trace, rows)
        if self.contexts:
            wanted = [costs.wants_context(name) for name in [*self.host.names, ""]]  # -1: no op
            self.context[~np.array(wanted)[self.op_name]] = -1

    def columns(self) -> list[pl.Series]:
        """Every column that is the same for all kernels of a case, worked out once per case."""
        first, self.role_of = _distinct(self.name, self.op_name)
        pairs = zip(self.name[first].tolist(), self.op_name[first].tolist(), strict=True)
        names = [*self.host.names, ""]  # -1: no op
        self.roles = [families.role_for(names[name], names[op]) for name, op in pairs]
        numbers, place = coded(self.name)
        decoded = [families.decode(names[number]) for number in numbers.tolist()]
        family = pl.Series("family", [kernel.family for kernel in decoded], dtype=pl.String)
        apart = families.told_apart(decoded)
        shorts = [apart[kernel.name].short for kernel in decoded]
        short = pl.Series("short", shorts, dtype=pl.String)
        role = pl.Series("role", self.roles, dtype=pl.String)
        return [family[place], role[self.role_of], short[place], *self._prices()]

    def _prices(self) -> list[pl.Series]:
        """Flops and bytes: one kernel is priced per op, shapes and name, several once per set."""
        found: list[tuple[Any, ...]] = [_NO_COST]
        price = np.zeros(len(self.event), np.int64)
        shaped = np.flatnonzero((self.op >= 0) & (self.signature >= 0))
        _, member, count = np.unique(self.call[shaped], return_inverse=True, return_counts=True)
        launched = count[member.reshape(-1)]
        alone = shaped[launched == 1]
        alike = (self.op_name, self.signature, self.name, self.context)
        first, case = _distinct(*(column[alone] for column in alike))
        for at in alone[first].tolist():
            found += self._priced([at])
        price[alone] = 1 + case
        self._price_groups(shaped[launched > 1], found, price)
        return [
            pl.Series(name, [row[at] for row in found], dtype=kind)[price]
            for at, (name, kind) in enumerate(_PRICED.items())
        ]

    def _price_groups(self, rows: Ints, found: list[tuple[Any, ...]], price: Ints) -> None:
        groups: dict[int, list[int]] = {}
        for at, call in zip(rows.tolist(), self.call[rows].tolist(), strict=True):
            groups.setdefault(call, []).append(at)
        known: dict[Any, int] = {}
        for members in groups.values():
            kernels = tuple((int(self.name[at]), int(self.grid[at])) for at in members)
            alike = (self.op_name, self.signature, self.context)
            key = (*(int(column[members[0]]) for column in alike), kernels)
            if key not in known:
                known[key] = len(found)
                found += self._priced(members)
            price[members] = known[key] + np.arange(len(members))

    def _priced(self, members: list[int]) -> list[tuple[Any, ...]]:
        first = members[0]
        signature = self.trace.origins.arguments.signatures[self.signature[first]]
        name = self.host.names[self.op_name[first]]
        number = int(self.context[first])
        context = self.contexts[number] if number >= 0 else None
        call = replace(signature.call(name), context=context)
        costed = costs.attribute(
            call,
            [self.roles[self.role_of[at]] for at in members],
            [int(self.length[at]) for at in members],
            names=[self.host.names[self.name[at]] for at in members],
            blocks=[int(self.blocks[at]) for at in members],
        )
        return [(*_priced(cost), call.operand_type) for cost in costed]


def _distinct(*columns: Ints) -> tuple[Ints, Ints]:
    """(row of the first of each, number of each row) of the distinct combinations."""
    _, first, number = np.unique(numbered(*columns), return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def _priced(cost: costs.Cost | None) -> tuple[Any, ...]:
    if cost is None:
        return (None, None, None, None, costs.Certainty.NONE, _NO_SIZES, None)
    moved = (cost.bytes_read, cost.bytes_written, cost.bytes)
    return (cost.flops, *moved, cost.certainty, cost.text or None, cost.least)


class Order:
    """Kernels by device and stream, and within a stream as launched. Arrays run in parallel.

    `row` is the row of `gpu`, `event` the event id, `case` the number of the case, `chain` the
    number of the op path, `step` the step or -1, `lane` the stream. `counts` says which launches
    count: all, or those in steps where there are any.
    """

    def __init__(self, trace: Recording, kernels: pl.DataFrame, cases: pl.DataFrame) -> None:
        gpu = trace.gpu
        rows = gpu.launch_order[gpu.is_kernel[gpu.launch_order]]
        self._trace = trace
        self.row: Ints = rows[np.argsort(gpu.lane[rows], kind="stable")]
        order = np.cumsum(gpu.is_kernel)[self.row] - 1  # rows of `trace.kernels`
        self.event: Ints = gpu.id[self.row]
        self.length: Ints = gpu.length[self.row]
        self.lane: Ints = gpu.lane[self.row]
        self.step: Ints = trace.spans.step_of_work()[self.row]
        number = np.repeat(np.arange(cases.height), cases["count"].to_numpy())
        case = np.empty(len(number), np.int64)  # of every row of `trace.kernels`
        events = cases["kernels"].explode().to_numpy() if cases.height else np.empty(0, np.int64)
        case[np.searchsorted(kernels["id"].to_numpy(), events)] = number
        self.case: Ints = case[order]
        self.chain: Ints = kernels["chain_id"].to_numpy()[order]
        self.op: Ints = trace.origins.op[self.row]
        self.steps = len({span.index for span in trace.spans.steps if len(span.work)})
        self.counts: Bools = self.step >= 0 if self.steps else np.ones(len(self.row), bool)

    @cached_property
    def case_of_work(self) -> Ints:
        """The case of every row of `gpu`; -1 for memcpys and memsets."""
        found = np.full(len(self._trace.gpu), -1, np.int64)
        found[self.row] = self.case
        return found

    def events_of(self, rows: Bools | Ints) -> Ints:
        """Event ids of these launches, earliest first."""
        return np.sort(self.event[rows])

    def per_step(self, total: float) -> int:
        """A total over the launches that count, per step; without steps, for the recording."""
        return round(total / max(self.steps, 1))
