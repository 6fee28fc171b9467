"""Which input of a kernel can still be in the L2 cache: what wrote it, and what ran since.

A kernel that moves its bytes faster than HBM could found part of them in L2. The trace has sizes
and order: going back from the kernel, the nearest one that wrote as many bytes of its type as an
input has left it in L2, if what moves from the write of a byte to its read fits there: at most the
traffic in between and that of the larger of the two kernels. A result that a kernel in between may
have read is taken for the input of that one. A result can stay in L2 as well, and reaches HBM
later. Rows that are gathered from a table count as from HBM: what is read is not the table.

On an H200 the counters agree: `gelu(gate) * up` of 1024 rows (18.9 MB) reads nothing from DRAM
behind the matmuls that write its inputs, and of 8192 rows (151 MB) reads all but 1%.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.model.arguments import made, operands
from foretrace.model.costs import OpCall, Tensor
from foretrace.model.costs.roofline import Work, memory_rate
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording, op_call
from foretrace.schema.device import Device
from foretrace.schema.tables import NONE
from foretrace.schema.traffic import CachedInput, CacheUse

# Launches of a case that are looked at, and operations back from each: enough for a median, and
# more than fill L2 in any recorded trace.
LAUNCHES, REACH = 32, 128
SEVERAL = "several ops"
TABLES = frozenset({"scatter_gather", "embedding"})  # roles that read parts of an operand


class CacheTraffic(Struct, frozen=True):
    """One GPU operation: what launched it, and what it moved; None where that is not known."""

    op: str
    role: str
    call: OpCall | None
    bytes_read: int | None
    bytes_written: int | None
    bytes: int | None
    kernel: str
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
        kernel = self._touch(int(rows[0]))
        moved = round(memory_rate(self.device) * (work.ns or 0) / 1e9)
        excess, written = max((work.bytes or 0) - moved, 0), kernel.bytes_written or 0
        inputs, certain = self._inputs(rows)
        found, stays = sum(each.bytes for each in inputs), min(written, self.cache)
        verdict = "certain" if certain else "likely"
        if found < excess:
            verdict = "likely" if found and found + stays >= excess else "result"
        if found + stays < excess:
            verdict = "doubted" if self._measured else "unknown"
        moves = work.bytes or 0
        too_large = moves if moves > self.cache else 0
        return CacheUse(verdict, excess, self.cache, inputs, written, too_large)

    @property
    def _measured(self) -> bool:
        return bool(self.device.measured and self.device.measured.l2_bytes_per_s)

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
        moved = self._touch(row).bytes or 0
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
                    distance = between + max(touch.bytes or size, moved)
                    if distance <= self.cache:
                        found.append(_Found(place, tensor, size, touch, before, between, unpriced))
            taken.update(touch.taken)
            between, unpriced = between + (touch.bytes or 0), unpriced + (touch.bytes is None)
            if between > self.cache:
                break
        sizes = Counter(each.size for each in found)
        return [replace(each, alone=unread[each.size] <= sizes[each.size]) for each in found]

    def _touch(self, row: int) -> CacheTraffic:
        trace, op = self.trace, int(self.trace.origins.op[row])
        key = (int(trace.host.name[trace.gpu.id[row]]), self._signature(op), self._bytes(row))
        if key not in self.known:
            touch = self._kernel(row, op) if trace.gpu.is_kernel[row] else self._copy(row, op)
            self.known[key] = touch
        return self.known[key]

    def _signature(self, op: int) -> int:
        return int(self.trace.origins.arguments.numbers(np.array([op]))[0])

    def _bytes(self, row: int) -> int:
        if not self.trace.gpu.is_kernel[row]:
            return int(self.trace.gpu.bytes[row])
        found = self.columns["bytes"][self.number[row]]
        return NONE if found is None else int(found)

    def _op(self, op: int) -> str:
        host = self.trace.origins.host
        return host.names[host.name[op]] if op >= 0 else ""

    def _kernel(self, row: int, op: int) -> CacheTraffic:
        at, column = int(self.number[row]), self.columns
        read, written, moved = (column[f"bytes{end}"][at] for end in ("_read", "_written", ""))
        call = op_call(self.trace, op) if op >= 0 else None
        what = (self._op(op), column["role"][at], call, read, written, moved)
        touch = CacheTraffic(*what, column["short"][at])
        return replace(touch, made=made(touch), read=tuple(operands(touch)))

    def _copy(self, row: int, op: int) -> CacheTraffic:
        """A memset or a memcpy; what comes from the host need not pass through L2."""
        gpu, host = self.trace.gpu, self.trace.host
        name, size = host.names[host.name[gpu.id[row]]], self._bytes(row)
        within = name.startswith("Memcpy DtoD")
        written = None if size == NONE else size
        moved = None if written is None else written * (2 if within else 1)
        stays = written if within or gpu.is_memset[row] else 0
        touch = CacheTraffic(
            self._op(op), "copy", None, None, written, moved, name, made=stays or 0
        )
        return replace(touch, copied=touch.made) if within else touch


def _inputs(kernel: CacheTraffic) -> list[tuple[Tensor, int]]:
    """The operands that a kernel reads whole: as many of them as its reads add up to."""
    if kernel.role in TABLES or kernel.bytes_read is None:
        return []
    sums = accumulate(size for _, size in kernel.read)
    pairs = zip(kernel.read, sums, strict=True)
    return [each for each, size in pairs if size <= kernel.bytes_read]


def _wrote(touch: CacheTraffic, tensor: Tensor, size: int) -> bool:
    """Whether this operation wrote a tensor of this size and type."""
    types = {each.type for each in touch.call.every_tensor()} if touch.call else {tensor.type}
    return size == touch.made and tensor.type in types


def _input(found: list[_Found]) -> CachedInput:
    first = found[0]
    return CachedInput(
        first.tensor.text,
        first.size,
        _either([each.by.op for each in found]),
        _either([each.by.kernel for each in found]),
        median(each.before_ns for each in found),
        round(median(each.between for each in found)),
        max(each.unpriced for each in found),
    )


def _either(names: list[str]) -> str:
    """`mul or add_`: the same before every launch, one of two, or several."""
    different = [name for name, _ in Counter(names).most_common()]
    return " or ".join(different) if len(different) <= 2 else SEVERAL
