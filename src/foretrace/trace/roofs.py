"""The cases of kernels under the roofs of their GPU: rates, bound, and what limits each.

A cost that no GPU could have done in the measured time is wrong. It is removed from every launch of
its case before anything is derived from it, and the note says why.

`Reuse` finds the inputs of a kernel that can still be in the L2 cache, as `docs/roofs.md` tells. A
result that a kernel in between may have read is taken for the input of that one. Rows that are
gathered from a table count as from HBM: what is read is not the table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from foretrace.base.arrays import distinct, median
from foretrace.read.tables import NONE
from foretrace.trace.arguments import made, operands
from foretrace.trace.collectives import bus_of_kernels
from foretrace.trace.intervals import Ints
from foretrace.trace.metadata import device_of
from foretrace.trace.recording import Recording, op_call
from foretrace.work import families
from foretrace.work.costs import Certainty, Tensor
from foretrace.work.costs.limits import (
    Footprint,
    Roofline,
    Traits,
    Work,
    cache_rate,
    impossible,
    limit,
    memory_rate,
    position,
)
from foretrace.work.devices import Device
from foretrace.work.kernel import CachedInput, CacheUse, KernelId
from foretrace.work.kernel_row import KernelRow

# Launches of a case that are looked at, and operations back from each: enough for a median, and
# more than fill L2 in any recorded trace.
LAUNCHES, REACH = 32, 128
SEVERAL = "several ops"
TABLES = frozenset({"scatter_gather", "embedding"})  # roles that read parts of an operand


class CacheTraffic(Struct, frozen=True):
    """What one GPU operation read and made; a memcpy or memset is a kernel of the role `copy`."""

    kernel: KernelRow
    made: int = 0
    read: tuple[tuple[Tensor, int], ...] = ()
    copied: int = 0

    @property
    def taken(self) -> list[int]:
        """The sizes of what it read."""
        return [size for _, size in self.read] or [self.copied]


class _Found(Struct, frozen=True):
    """What wrote an input of one launch; `alone` if nothing else wrote as much."""

    place: int
    tensor: Tensor
    size: int
    by: CacheTraffic
    before_ns: int
    between: int
    unpriced: int
    alone: bool = True


class Reuse:
    """Looks back from the kernels of one trace."""

    def __init__(self, trace: Recording, kernels: pl.DataFrame, device: Device) -> None:
        self.trace, self.kernels, self.device = trace, kernels, device
        self.cache = device.cache_bytes or 0
        self.known: dict[tuple[int, int, int], CacheTraffic] = {}

    @cached_property
    def number(self) -> Ints:
        """The row of `kernels` for every row of `gpu`."""
        return np.cumsum(self.trace.gpu.is_kernel) - 1

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """What the table of kernels says, by name."""
        names = ("bytes_read", "bytes_written", "bytes", "role", "short")
        return {name: self.kernels[name].to_list() for name in names}

    def of(self, events: list[int], work: Work) -> CacheUse:
        """What explains the rate of a case, by some of its launches."""
        chosen = distinct(np.linspace(0, len(events) - 1, LAUNCHES).round().astype(np.int64))
        rows = np.searchsorted(self.trace.gpu.id, np.array(events)[chosen])
        kernel = self._touch(int(rows[0])).kernel
        moved = round(memory_rate(self.device) * (work.ns or 0) / 1e9)
        excess, written = max((work.bytes or 0) - moved, 0), kernel.bytes_written or 0
        inputs, certain = self._inputs(rows)
        found, stays = sum(each.bytes for each in inputs), min(written, self.cache)
        verdict = "certain" if certain else "likely"
        if found < excess:
            verdict = "likely" if found and found + stays >= excess else "result"
        if found + stays < excess:
            verdict = "doubted" if cache_rate(self.device) else "unknown"
        moves = work.bytes or 0
        too_large = moves if moves > self.cache else 0
        return CacheUse(verdict, excess, self.cache, inputs, written, too_large)

    def _inputs(self, rows: Ints) -> tuple[tuple[CachedInput, ...], bool]:
        """The inputs that most launches can have found in L2, and whether that is certain."""
        seen: dict[int, list[_Found]] = {}
        for row in rows.tolist():
            for found in self._back(row):
                seen.setdefault(found.place, []).append(found)
        usual = [found for _, found in sorted(seen.items()) if 2 * len(found) > len(rows)]
        inputs = sorted(map(_input, usual), key=lambda each: (-each.bytes, each.before_ns))
        certain = all(len(found) == len(rows) for found in usual) and all(
            each.alone and not each.unpriced for found in usual for each in found
        )
        certain &= all(each.op != SEVERAL for each in inputs)
        return tuple(inputs), certain

    def _back(self, row: int) -> list[_Found]:
        """The inputs of one launch that L2 can hold."""
        gpu, wanted = self.trace.gpu, dict(enumerate(_inputs(self._touch(row))))
        between, unpriced, found = 0, 0, list[_Found]()
        moved = self._touch(row).kernel.bytes or 0
        unread, taken = Counter[int](), Counter[int]()
        for at in range(row - 1, max(row - 1 - REACH, -1), -1):
            if gpu.device_number[at] != gpu.device_number[row]:
                continue
            touch = self._touch(at)
            if taken[touch.made]:
                taken[touch.made] -= 1
            else:
                unread[touch.made] += 1
                place = next((key for key, each in wanted.items() if _wrote(touch, *each)), None)
                if place is not None:
                    tensor, size = wanted.pop(place)
                    before = max(int(gpu.start[row] - gpu.end[at]), 0)
                    distance = between + max(touch.kernel.bytes or size, moved)
                    if distance <= self.cache:
                        found.append(_Found(place, tensor, size, touch, before, between, unpriced))
            taken.update(touch.taken)
            priced = touch.kernel.bytes
            between, unpriced = between + (priced or 0), unpriced + (priced is None)
            if between > self.cache:
                break
        sizes = Counter(each.size for each in found)
        return [replace(each, alone=unread[each.size] <= sizes[each.size]) for each in found]

    def _touch(self, row: int) -> CacheTraffic:
        trace, op = self.trace, int(self.trace.origins.op[row])
        signature = int(trace.origins.arguments.numbers(np.array([op]))[0])
        key = (int(trace.host.name[trace.gpu.id[row]]), signature, self._bytes(row))
        if key not in self.known:
            touch = self._kernel(row, op) if trace.gpu.is_kernel[row] else self._copy(row, op)
            self.known[key] = touch
        return self.known[key]

    def _bytes(self, row: int) -> int:
        if not self.trace.gpu.is_kernel[row]:
            return int(self.trace.gpu.bytes[row])
        found = self.columns["bytes"][self.number[row]]
        return NONE if found is None else int(found)

    def _ops(self, op: int) -> list[str]:
        host = self.trace.origins.host
        return [host.names[host.name[op]]] if op >= 0 else []

    def _kernel(self, row: int, op: int) -> CacheTraffic:
        at, column = int(self.number[row]), self.columns
        known = {name: values[at] for name, values in column.items()}
        kernel = KernelRow(name="", ops=self._ops(op), **known)
        kernel = kernel.with_call(op_call(self.trace, op) if op >= 0 else None)
        return CacheTraffic(kernel, made(kernel), tuple(operands(kernel)))

    def _copy(self, row: int, op: int) -> CacheTraffic:
        """A memset or a memcpy; what comes from the host need not pass through L2."""
        gpu, host = self.trace.gpu, self.trace.host
        name, size = host.names[host.name[gpu.id[row]]], self._bytes(row)
        within = name.startswith("Memcpy DtoD")
        written = None if size == NONE else size
        moved = None if written is None else written * (2 if within else 1)
        stays = written if within or gpu.is_memset[row] else 0
        kernel = KernelRow(
            name=name,
            short=name,
            role="copy",
            ops=self._ops(op),
            bytes=moved,
            bytes_written=written,
        )
        return CacheTraffic(kernel, stays or 0, copied=(stays or 0) if within else 0)


def _inputs(touch: CacheTraffic) -> list[tuple[Tensor, int]]:
    """The operands that a kernel reads whole: as many of them as its reads add up to."""
    kernel = touch.kernel
    if kernel.role in TABLES or kernel.bytes_read is None:
        return []
    sums = accumulate(size for _, size in touch.read)
    pairs = zip(touch.read, sums, strict=True)
    return [each for each, size in pairs if size <= kernel.bytes_read]


def _wrote(touch: CacheTraffic, tensor: Tensor, size: int) -> bool:
    """Whether this operation wrote a tensor of this size and type."""
    call = touch.kernel.call
    types = {each.type for each in call.every_tensor()} if call else {tensor.type}
    return size == touch.made and tensor.type in types


def _input(found: list[_Found]) -> CachedInput:
    first = found[0]
    return CachedInput(
        first.tensor.text,
        first.size,
        _either([each.by.kernel.op for each in found]),
        _either([each.by.kernel.short for each in found]),
        median(each.before_ns for each in found),
        round(median(each.between for each in found)),
        max(each.unpriced for each in found),
    )


def _either(names: list[str]) -> str:
    """`mul or add_`: the same before every launch, one of two, or several."""
    different = [name for name, _ in Counter(names).most_common()]
    return " or ".join(different) if len(different) <= 2 else SEVERAL


_AMOUNTS = ("flops", "bytes_read", "bytes_written", "bytes")
LEAST = "at least: what is certain; the estimate exceeds what the GPU can do in this time"
_COST = ("flops", "bytes", "cost_certainty", "cost_note")
_Kinds = dict[str, pl.DataType | type[pl.DataType]]
_INPUT: _Kinds = {
    **dict.fromkeys(("tensor", "op", "kernel"), pl.String),
    "before_ns": pl.Float64,
    **dict.fromkeys(("bytes", "between_bytes", "unpriced"), pl.Int64),
}
_CACHE_USE: _Kinds = {
    "verdict": pl.String,
    **dict.fromkeys(("excess_bytes", "cache_bytes"), pl.Int64),
    "inputs": pl.List(pl.Struct(_INPUT)),
    **dict.fromkeys(("written_bytes", "too_large"), pl.Int64),
}
_PLACED: _Kinds = {
    **dict.fromkeys(("tflops", "gbps"), pl.Float64),
    "bound": pl.String,
    "roof_percent": pl.Float64,
    "limited_by": pl.String,
    "cache_use": pl.Struct(_CACHE_USE),
}
# how the first launch of a case was configured, and blocks per SM of all of them
LAUNCH_OF_CASE = {
    **{name: pl.col(name).first() for name in ("grid", "block", "registers", "shared_memory")},
    "least_per_sm": pl.col("blocks_per_sm").min(),
    "most_per_sm": pl.col("blocks_per_sm").max(),
}


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
    known = pl.when(floor.is_not_null())
    left, none = (pl.lit(str(each)) for each in (Certainty.AT_LEAST, Certainty.NONE))
    certainty, note = known.then(left).otherwise(none), known.then(pl.lit(LEAST)).otherwise(why)
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


def placed(trace: Recording, kernels: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Rates, bound, share of the nearest roof and limit of each case; its launch goes."""
    device, bus = device_of(trace.about), bus_of_kernels(trace, kernels)
    rows, back = [], Reuse(trace, kernels, device) if device else None
    for row in cases.iter_rows(named=True):
        kernel = families.decode(row["name"])
        work = _work(row, kernel)
        place = position(device, work)
        # What the name states; the strides of the operands tell strided from broadcast.
        loose = kernel.get("contiguous") is False
        looked_at = row["op"] is not None and (loose or row["role"] == "copy")
        call = op_call(trace, row["op"]) if looked_at else None
        strided = call is not None and any(_strided(tensor) for tensor in call.every_tensor())
        traits = Traits(
            row["role"],
            strided=strided,
            broadcast=loose and not strided,
            cast=kernel.get("cast") is True and not kernel.get("vector_width"),
            split_k=kernel.get("splitk") is True or (kernel.get("split_k") or 0) > 1,
        )
        if row["role"] == "comms" and bus:
            found = [bus[each] for each in row["kernels"] if each in bus]
            traits = replace(traits, bus_gbps=median(found) if found else None)
        if back and place.nearest == "l2":
            traits = replace(traits, cached=back.of(row["kernels"], work))
        # The largest launch of a case: blocks per SM tell where grids differ
        sms = device.sms if device else 0
        blocks = math.prod(row["grid"]) if row["grid"] else 0
        if row["least_per_sm"] != row["most_per_sm"]:
            blocks = max(blocks, round(row["most_per_sm"] * sms))
        threads = math.prod(row["block"]) if row["block"] else 0
        launch = Footprint(blocks, threads, row["registers"] or 0, row["shared_memory"] or 0)
        bound, text = limit(device, work, place, launch, traits)
        if traits.cached and bound == "unknown":  # no rate either: the cost is in doubt
            place = Roofline(place.tflops)
        share = None if bound == "comms" else place.share
        percent = None if share is None else 100 * share
        use = None if traits.cached is None else to_builtins(traits.cached)
        rows.append((place.tflops, place.gbps, bound, percent, text, use))
    return cases.drop("cost_ns", *LAUNCH_OF_CASE).hstack(pl.DataFrame(rows, _PLACED, orient="row"))


def _work(row: dict[str, Any], kernel: KernelId) -> Work:
    cost = (row["flops"], row["bytes"], row["cost_ns"])
    return Work(*cost, dtype_of(row, kernel), kernel.get("tensor_core"), row["cost_certainty"])


def dtype_of(case: dict[str, Any], kernel: KernelId) -> str | None:
    """The type that a kernel computes on: what its name states, else that of its op's operands."""
    stated = kernel.get("dtype_in") or kernel.get("dtype")
    return stated if isinstance(stated, str) else case["operand_type"]


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
