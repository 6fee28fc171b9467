"""The modules of allocations, from a trace of the same run.

A snapshot has lines and no modules. A trace that was recorded with `profile_memory` and modules has
the address of each allocation in the recorded steps. The same addresses follow each other in both.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.allocator.view import MemoryView, ModuleNames
from foretrace.model.analysis import Analysis
from foretrace.model.flame import Scopes
from foretrace.model.modules import CPU, around
from foretrace.model.traced_memory import MemoryTable
from foretrace.schema.snapshot import Numbers

ENOUGH = 16  # addresses in a row that are no chance
_WIDTH = 8  # bytes of an address


def module_names(view: MemoryView, trace: Analysis) -> ModuleNames:
    """The modules of each place in a step: those of the recorded steps hold for all.

    Empty where the trace has no modules, no memory events, or those of another run.
    """
    table = MemoryTable(trace)
    device = view.history.device
    rows = np.flatnonzero((table.kind != CPU) & (table.device == device) & (table.bytes > 0))
    made = np.flatnonzero(~view.lives.before)
    first = _offset(table.address[rows], view.lives.addr[made])
    if first is None or not trace.module_calls.is_module.any():
        return {}
    count = min(len(rows), len(made) - first)
    rows, made = rows[:count], made[first : first + count]
    same = table.address[rows] == view.lives.addr[made]
    rows, made = rows[same], made[same]
    host = trace.host
    scopes = Scopes(trace, around(host, host.paths(host.is_op & host.lasting), table.event[rows]))
    return {view.places[row]: scopes.names(at) for at, row in enumerate(made.tolist())}


def _offset(traced: Numbers, held: Numbers) -> int | None:
    """Where the first addresses of the trace stand in the history."""
    wanted = traced[:ENOUGH].astype(np.int64).tobytes()
    text = np.ascontiguousarray(held, np.int64).tobytes()
    at = text.find(wanted) if len(traced) >= ENOUGH else -1
    while at >= 0 and at % _WIDTH:
        at = text.find(wanted, at + 1)
    return at // _WIDTH if at >= 0 else None
