"""One line about memory on the first screen: the peak, and what it is made of."""

from __future__ import annotations

import os

from foretrace.base.units import bytes_text
from foretrace.model.analysis import Analysis
from foretrace.model.modules import CPU
from foretrace.model.traced_memory import MemoryTable
from foretrace.schema.documents.look import TraceMemory
from foretrace.show.overview.page import Line

NAMED = 3  # parts that fit one line
LEAST = 0.005  # of the peak: less is not worth a word


def memory_of(trace: Analysis) -> TraceMemory | None:
    """From the snapshot beside the trace, else from its memory events; None without either."""
    view = trace.memory_view
    if view is None:
        table = MemoryTable(trace)
        rows = ((table.kind != CPU) & (table.allocated > 0)).nonzero()[0]
        if not len(rows):
            return None
        peak = int(rows[table.allocated[rows].argmax()])
        device = int(table.device[peak])
        same = rows[table.device[rows] == device]
        reserved, first = int(table.reserved[same].max()), int(same[0])
        before = max(int(table.allocated[first] - table.bytes[first]), 0)
        held = reserved if reserved > 0 else None
        return TraceMemory(f"GPU {device}", int(table.allocated[peak]), held, before_bytes=before)
    from foretrace.model.allocator.categories import by_category

    parts = by_category(view.lives.size, view.category, view.holders)
    return TraceMemory(
        f"GPU {view.history.device}",
        view.peak_bytes,
        int(view.reserved.max()),
        os.path.basename(view.snapshot.path),
        parts,
    )


def memory_lines(found: TraceMemory | None) -> list[Line]:
    """`MEMORY  peak 7.02 GB: activations 4.40 GB, …`."""
    if found is None:
        return []
    said = f"peak {bytes_text(found.peak_bytes)}"
    if found.reserved_bytes is not None:
        said += f", reserved {bytes_text(found.reserved_bytes)}"
    large = [item for item in found.parts.items() if item[1] >= LEAST * found.peak_bytes]
    if large:
        said += f": {', '.join(f'{name} {bytes_text(size)}' for name, size in large[:NAMED])}"
    elif found.before_bytes:
        said += f"; {bytes_text(found.before_bytes)} were in use when the recording began"
    more = f" (foretrace memory {found.source})" if found.source else ""
    return [Line("MEMORY", said + more)]
