"""What the most expensive kernel is.

The top kernel is the name with the most time in the scope, the longest kernel the single launch
that took longest.
"""

from __future__ import annotations

from collections import defaultdict

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.analyze.guess.selection import certain, label, select
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import HEADS, Selector
from foretrace.base.units import percent_text, time_text


def _judge(window: Window, query: Query) -> Measurement:
    kernels, gpu = certain(window, HEADS["kernels"]), window.evidence.trace.gpu
    if not kernels.sure:
        raise Unknown(f"no kernels in {window.label}")
    names: dict[str, list[int]] = defaultdict(list)
    for row in kernels.sure:
        names[window.evidence.operation(row).name].append(row)
    times = {name: int(gpu.length[rows].sum()) for name, rows in names.items()}
    if query.args["top"] == "top":
        rows = names[max(times, key=lambda name: times[name])]
    else:
        rows = [max(kernels.sure, key=lambda row: int(gpu.length[row]))]
    trait: Selector = query.args["trait"]
    found = select(window, trait)
    if set(rows) & set(found.maybe):
        raise Unknown(found.why(trait))
    right = set(rows) <= set(found.sure) and found.on_gpu
    time, whole = int(gpu.length[rows].sum()), max(sum(times.values()), 1)
    share = f"{time_text(time)}, {percent_text(time / whole)} of kernel time"
    measured = f"{label(window, kernels, rows[0])}: {share}"
    return Measurement(query.hit_if(right), measured, rows=rows)


KIND = GuessKind(
    "top",
    29,
    ("top|longest kernel is [not] [a|an] {trait:selector}",),
    per_window(_judge),
)
