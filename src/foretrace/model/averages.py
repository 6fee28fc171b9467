"""Rows of the profiler's table (`key_averages`): calls, self and total time, host and GPU."""

from __future__ import annotations

import numpy as np

from foretrace.model.paths import summed
from foretrace.model.recording import Recording
from foretrace.schema.documents.lesson import AverageRow


def average(trace: Recording, name: str) -> AverageRow:
    """The row of an op, a range, a runtime call or a kernel; all zero where there is none.

    The time of a GPU operation is the self time of the innermost op that launched it, and never of
    the call: what a graph launch ran has rows of its own.
    """
    host, gpu = trace.host, trace.gpu
    same = host.named(lambda text: text == name)
    chosen = (host.is_op | host.is_call | host.is_region) & host.lasting & same
    if not chosen.any():
        rows = gpu.usable & same[gpu.id]
        time = int(gpu.length[rows].sum())
        return AverageRow(name, int(rows.sum()), 0, 0, time, time)
    linked = gpu.usable & (gpu.op >= 0)
    own = np.zeros(host.count, np.int64)
    np.add.at(own, gpu.op[linked], gpu.length[linked])
    columns = (host.self_length, host.length, own, summed(host.parent, own))
    return AverageRow(name, int(chosen.sum()), *(int(each[chosen].sum()) for each in columns))
