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

from typing import Any

import numpy as np

from foretrace.base.units import plural
from foretrace.look.rules._seen import BACKWARD, LISTED, Found, Seen, amount_text, rule
from foretrace.look.rules.addmm_copy import ADDING, copies_by_path, moved_bytes
from foretrace.trace.intervals import Ints

# Tried in this order: all of them call `clone`, and that calls `copy_`.
CAUSES = {
    "aten::contiguous": "contiguous",
    "aten::reshape": "reshape",
    "aten::flatten": "reshape",
    "aten::cudnn_convolution": "convolution",
    "aten::miopen_convolution": "convolution",
    "aten::convolution_backward": "convolution",
}
FIXES = "channels_last contiguous grouped_queries"


@rule("Copies that an op makes on its own", "gpu ops", fixes=FIXES, example="llama_train_eager")
def _check(seen: Seen) -> Found:
    by_cause: dict[str, list[Ints]] = {}
    for mine, path in copies_by_path(seen):
        if len(path) < 2 or path[-1] in ADDING:
            continue  # an explicit copy, or another rule's
        known = (cause for op, cause in CAUSES.items() if op in path)
        inside = f"inside {path[0].removeprefix(f'{BACKWARD}: ')}"
        cause = "clone" if path[0] == "aten::clone" else next(known, inside)
        by_cause.setdefault(cause, []).append(mine)
    if not by_cause:
        return

    def entry(cause: str, parts: list[Ints]) -> dict[str, Any]:
        rows = np.concatenate(parts)
        known = {"ns": seen.ns(rows), "bytes": moved_bytes(seen, rows)}
        return {"cause": cause, "count": seen.each(len(rows))} | known

    causes = [entry(*each) for each in by_cause.items()]
    causes.sort(key=lambda entry: (-entry["ns"], entry["cause"]))
    every = np.sort(np.concatenate([mine for parts in by_cause.values() for mine in parts]))
    count = seen.each(len(every))
    words = [
        f"{entry['cause']} ({plural(entry['count'], 'copy', 'copies')}, {amount_text(entry)})"
        for entry in causes
    ]
    title = f"{plural(count, 'hidden copy', 'hidden copies')} {seen.per}"
    detail = f"By cause: {', '.join(words[:4])}. A copy moves data and computes nothing."
    evidence = {"count": count, "ns": seen.ns(every), "causes": causes[:LISTED]}
    yield seen.found(title, detail, evidence, seen.gpu.id[every])
