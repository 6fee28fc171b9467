"""Peak GPU memory: the most that torch's allocator had given out, or had reserved, at any time.

It comes from the memory events of `profile_memory=True`, and is the most of any GPU. In a step or a
region, the memory that was in use when it began counts too. Without such events, and for a snapshot
of the allocator, it is the most that was live at once in the history of the snapshot.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.base.units import bytes_text
from foretrace.model.allocator.view import MemoryView

_CUDA = 1  # c10::DeviceType of CUDA; ROCm reports the same


def _peak(window: Window, query: Query) -> Measurement:
    column = "total_reserved" if "reserved" in query.args else "total_allocated"
    devices = _by_device(window, column)
    view = window.evidence.trace.memory_view if not devices and window.whole else None
    if view is not None:
        return _held(query, view)
    if not devices:
        raise Unknown("no GPU memory events in this trace: record with profile_memory=True")
    window.need_whole()
    value = max(devices)
    return Measurement(query.judge(value), bytes_text(value))


def _held(query: Query, view: MemoryView) -> Measurement:
    value = int(view.reserved.max()) if "reserved" in query.args else view.peak_bytes
    return Measurement(query.judge(value), bytes_text(value))


def _by_device(window: Window, column: str) -> list[int]:
    """The most of each GPU in this window."""
    trace = window.evidence.trace
    table = trace.tables["memory"].filter(pl.col("device_type") == _CUDA, pl.col(column) > 0)
    found = []
    for (_,), part in table.group_by("device_id"):
        times, values = trace.host.start[part["event"].to_numpy()], part[column].to_numpy()
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        if window.start_ns is not None and window.end_ns is not None:
            first, last = np.searchsorted(times, (window.start_ns, window.end_ns))
            values = values[max(first - 1, 0) : last]
        found += [int(values.max())] if len(values) else []
    return found


KIND = GuessKind(
    "memory",
    55,
    ("peak [reserved] memory {compare:compare} {amount:bytes}",),
    per_window(_peak),
    held=_held,
)
