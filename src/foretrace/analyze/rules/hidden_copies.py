"""Copies that an op makes on its own.

What it shows: device-to-device copies of one data type, by cause: `contiguous`, `reshape` and
`clone` of a tensor whose strides do not fit, the layout changes around a convolution, and copies
inside other ops.

Why it matters: they move whole tensors and compute nothing. Another order of transposes,
`channels_last`, or a kernel that takes strides removes many of them. A copy right before a custom
kernel often exists because that kernel needs contiguous input.

How it is computed: copy kernels and device-to-device memcpys below another op, by the path of ops
above them. Casts, the matrix that `addmm` copies, and copies at the top level (someone called
`copy_`) are left out. What it saves to leave them out is predicted by the fixes for their causes
(`channels_last`, `contiguous`, `grouped_queries`).

When it is wrong: a copy may be intended (a `clone` to keep a value), and the op path does not say
so. Copies made inside a graph replay have no path and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyze.rules._common import (
    LISTED,
    amount_text,
    by_op_path,
    each,
    ids,
    moved_bytes,
    per,
    plain_copies,
)
from foretrace.analyze.rules.addmm_copy import ADDING
from foretrace.base.units import plural
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

ENGINE = "autograd::engine::evaluate_function: "
# Tried in this order: all of them call `clone`, and that calls `copy_`.
CAUSES = {
    "aten::contiguous": "contiguous",
    "aten::reshape": "reshape",
    "aten::flatten": "reshape",
    "aten::cudnn_convolution": "convolution",
    "aten::miopen_convolution": "convolution",
    "aten::convolution_backward": "convolution",
}


def _check(trace: Trace) -> Iterator[Finding]:
    by_cause: dict[str, list[Ints]] = {}
    for mine, path in by_op_path(trace, plain_copies(trace)):
        if cause := _cause(path):
            by_cause.setdefault(cause, []).append(mine)
    if not by_cause:
        return
    causes = [_entry(trace, cause, np.concatenate(parts)) for cause, parts in by_cause.items()]
    causes.sort(key=lambda entry: (-entry["ns"], entry["cause"]))
    every = np.sort(np.concatenate([mine for parts in by_cause.values() for mine in parts]))
    ns, count = trace.order.per_step(int(trace.gpu.length[every].sum())), each(trace, len(every))
    words = [
        f"{entry['cause']} ({plural(entry['count'], 'copy', 'copies')}, {amount_text(entry)})"
        for entry in causes
    ]
    title = f"{plural(count, 'hidden copy', 'hidden copies')} {per(trace)}"
    detail = f"By cause: {', '.join(words[:4])}. A copy moves data and computes nothing."
    evidence = {"count": count, "ns": ns, "causes": causes[:LISTED]}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(trace.gpu.id[every]))


def _cause(path: tuple[str, ...]) -> str:
    """Why a copy below this path was made; "" for an explicit copy or another rule's."""
    if len(path) < 2 or path[-1] in ADDING:
        return ""
    if path[0] == "aten::clone":
        return "clone"
    known = (cause for op, cause in CAUSES.items() if op in path)
    return next(known, f"inside {path[0].removeprefix(ENGINE)}")


def _entry(trace: Trace, cause: str, rows: Ints) -> dict[str, Any]:
    moved = moved_bytes(trace, rows)
    return {
        "cause": cause,
        "count": each(trace, len(rows)),
        "ns": trace.order.per_step(int(trace.gpu.length[rows].sum())),
        "bytes": None if moved is None else trace.order.per_step(moved),
    }


RULE = Rule(
    "hidden_copies",
    "Copies that an op makes on its own",
    _check,
    ("gpu", "ops"),
    fixes=("channels_last", "contiguous", "grouped_queries"),
)
