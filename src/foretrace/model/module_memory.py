"""GPU memory that the calls of modules keep: what they allocated less what they freed.

The profiler writes it with `profile_memory=True`, one event for each allocation and release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace.model.intervals import Bools, Ints
from foretrace.model.paths import Paths
from foretrace.schema.gaps import filled

if TYPE_CHECKING:
    from foretrace.model.host import Host
    from foretrace.model.trace import Trace

CPU = 0  # c10::DeviceType


def kept_bytes(trace: Trace, paths: Paths) -> Ints | None:
    """For each event of `host` that is a module call, bytes of its own; None where not recorded."""
    table, host = trace.tables["memory"], trace.host
    on_gpu: Bools = filled(table["device_type"], CPU) != CPU
    if not on_gpu.any():
        return None
    event, size = table["event"].to_numpy()[on_gpu], filled(table["bytes"], 0)[on_gpu]
    call = around(host, paths, event)
    own = np.zeros(len(paths.above), np.int64)
    np.add.at(own, call[call >= 0], size[call >= 0])
    return own


def around(host: Host, paths: Paths, events: Ints) -> Ints:
    """The innermost chosen event on the thread of each of these events at its time, or -1."""
    calls = np.flatnonzero(paths.chosen[: host.count])
    if not len(calls):
        return np.full(len(events), -1, np.int64)
    low, width = int(host.start.min()), int(np.ptp(host.start)) + 1

    def place(events: Ints) -> Ints:
        return host.track[events].astype(np.int64) * width + host.start[events] - low

    calls = calls[np.lexsort((-host.end[calls], place(calls)))]
    at = np.searchsorted(place(calls), place(events), "right")
    found = np.append(calls, -1)[at - 1]
    found[(at == 0) | (host.track[found] != host.track[events])] = -1
    while (past := (found >= 0) & (host.end[found] < host.start[events])).any():
        found[past] = paths.above[found[past]]
    return found
