"""Where GPU time goes: the groups of a trace as rows, with what limits each.

The rows of several steps are those of the step with the median GPU time (of two steps in the
middle, their mean). Kernels that run at once share their time. So the rows add up to the GPU time
that is shown for a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretrace.model.intervals import Floats, Ints
from foretrace.model.module_calls import PREFIX
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.documents.look import GroupRow
from foretrace.show.overview.group_limits import limited_by
from foretrace.show.overview.group_names import shown_name
from foretrace.show.overview.group_work import GroupWork, works


def group_rows(trace: Trace, spans: Sequence[Span] = ()) -> list[GroupRow]:
    """Every group, the most time first: per step or call of `spans`, else for the recording."""
    usable = trace.gpu.usable
    if not bool(usable.any()):
        return []
    parts = _middle(trace, spans) if spans else [np.flatnonzero(usable)]
    rows = np.concatenate([part[usable[part]] for part in parts])
    time = np.sum([trace.gpu.shared(part) for part in parts], axis=0)
    found = [_row(work, time, len(parts)) for work in works(trace, rows)]
    return sorted(found, key=lambda row: (-row.time_ns, row.name))


def case_modules(trace: Trace) -> list[list[str]]:
    """For every row of `kernel_cases`, the modules that it belongs to, in order of first launch."""
    found: list[dict[str, None]] = [{} for _ in range(trace.kernel_cases.height)]
    if not trace.module_calls.is_module.any():
        return [[] for _ in found]
    order, host, own = trace.order, trace.origins.host, trace.module_calls.owners.call
    inside = own[order.row] >= 0
    case, name = order.case[inside], host.name[own[order.row[inside]]]
    _, first = np.unique(case * len(host.names) + name, return_index=True)
    for at in np.sort(first).tolist():
        found[case[at]][host.names[name[at]].removeprefix(PREFIX)] = None
    return [list(names) for names in found]


def _row(work: GroupWork, time: Floats, parts: int) -> GroupRow:
    ns = float(time[work.rows].sum())
    count = len(work.rows) // parts if len(work.rows) % parts == 0 else len(work.rows) / parts
    return GroupRow(
        shown_name(work),
        round(ns / parts),
        ns / max(float(time.sum()), 1.0),
        count,
        limited_by(work),
    )


def _middle(trace: Trace, spans: Sequence[Span]) -> list[Ints]:
    """The work of the step or call with the median GPU time; of two where they are even."""
    gpu = trace.gpu
    timed = [span.work for span in spans if bool(gpu.usable[span.work].any())]
    timed.sort(key=gpu.busy)
    return timed[(len(timed) - 1) // 2 : len(timed) // 2 + 1] or [np.zeros(0, np.int64)]
