"""Memory over time, where the trace has it: what was allocated and reserved, and who held the peak.

The profiler writes one event for each allocation and release with `profile_memory=True`. Memory
that was allocated before the recording has no event; only the totals count it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import filled
from foretrace.trace.analysis import Analysis
from foretrace.trace.flame import Scopes
from foretrace.trace.intervals import Ints, numbered
from foretrace.trace.modules import CPU, around

_UNTOLD = -1


class Holder(Struct, frozen=True):
    """Allocations that are held at the peak and have the same ops, modules and pass.

    `ops` and `modules` are those around them, outermost first. `event` is the op of the largest,
    or -1.
    """

    ops: tuple[str, ...]
    modules: tuple[str, ...]
    ran: str
    bytes: int
    count: int
    event: int


class DeviceMemory(Struct, frozen=True):
    """The memory of one device: totals after each event, in order of time.

    `reserved` is None where the trace has no such number. `relative` says that the totals are not
    recorded: `allocated` then counts from the first event. `peak` is a place in the columns;
    `before` are the bytes of the peak that no event in the trace allocated, None where unknown.
    """

    name: str
    time: Ints
    allocated: Ints
    reserved: Ints | None
    relative: bool
    peak: int
    holders: list[Holder]
    before: int | None


class MemoryTable:
    """The columns of the `memory` table whose time is known, in order of time."""

    def __init__(self, trace: Analysis) -> None:
        table, host = trace.tables["memory"], trace.host
        event = table["event"].to_numpy()
        rows = np.flatnonzero(host.timed[event]) if len(event) else np.zeros(0, np.int64)
        rows = rows[np.lexsort((event[rows], host.start[event[rows]]))]
        self.trace, self.event = trace, event[rows].astype(np.int64)
        self.kind, self.device = (
            filled(table[name], 0)[rows].astype(np.int64) for name in ("device_type", "device_id")
        )
        self.address, self.bytes = (filled(table[name], 0)[rows] for name in ("address", "bytes"))
        self.allocated, self.reserved = (
            filled(table[name], _UNTOLD)[rows] for name in ("total_allocated", "total_reserved")
        )


def over_time(trace: Analysis) -> list[DeviceMemory]:
    """The memory of every device, GPUs first; empty where the trace has none."""
    table = MemoryTable(trace)
    if not len(table.event):
        return []
    found = {*zip((table.kind == CPU).tolist(), table.device.tolist(), strict=True)}
    return [_device(table, on_cpu, device) for on_cpu, device in sorted(found)]


def _device(table: MemoryTable, on_cpu: bool, device: int) -> DeviceMemory:
    rows = np.flatnonzero(((table.kind == CPU) == on_cpu) & (table.device == device))
    allocated, reserved = table.allocated[rows], table.reserved[rows]
    relative = bool((allocated < 0).any())
    if relative:
        allocated = np.cumsum(table.bytes[rows])
    peak = int(np.argmax(allocated))
    # what none of the events up to the peak releases: the last event of its address allocates
    address, size = table.address[rows[peak::-1]], table.bytes[rows[: peak + 1]]
    last = peak - np.unique(address, return_index=True)[1]
    held = rows[np.sort(last[size[last] > 0])]
    known = int(table.bytes[held].sum())
    return DeviceMemory(
        "CPU" if on_cpu else f"GPU {device}",
        table.trace.host.start[table.event[rows]],
        allocated,
        None if on_cpu or (reserved < 0).any() else reserved,
        relative,
        peak,
        _holders(table, held),
        None if relative else max(int(allocated[peak]) - known, 0),
    )


def _holders(table: MemoryTable, rows: Ints) -> list[Holder]:
    """The allocations in these rows by op, module and pass, the largest first."""
    if not len(rows):
        return []
    trace, host = table.trace, table.trace.host
    ops = host.paths(host.is_op & host.lasting)
    op = around(host, ops, table.event[rows])
    scopes = Scopes(trace, op)
    number = numbered(scopes.number, ops.numbers(op))
    size, found = table.bytes[rows], []
    for each in range(int(number.max()) + 1):
        mine = np.flatnonzero(number == each)
        largest = int(mine[np.argmax(size[mine])])
        chain = ops.names(int(op[largest]), host.names)
        where, total = (scopes.names(largest), scopes.ran(largest)), int(size[mine].sum())
        found.append(Holder(chain, *where, total, len(mine), int(op[largest])))
    return sorted(found, key=lambda holder: -holder.bytes)
