"""Time: of the GPU (the union of its operations), of the host (the length of the window), of
kernels (the sum of durations).

Several calls are judged by their median. `each` judges every launch. `== 56 us` holds for what
rounds to 56; state a tolerance with `+- 10%` or `+- 3 us`, or write `about`. `varies by` is the
spread of the durations of one kernel with the same shapes: longest minus shortest, over the median.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from foretrace.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.guess.measures import CLOCKS, Measure, each
from foretrace.guess.scope import Unknown, Window
from foretrace.guess.selection import certain
from foretrace.units import percent_text, time_text


def measure(query: Query) -> Measurement:
    """Judge `gpu time < 300 us`, `gemm time < 60 us each` or `gemm time varies by < 20%`."""
    if "varies" in query.args:
        return _spread(query)
    if "each" in query.args:
        return per_window(_every)(query)
    clock = next((f"{name} time" for name in CLOCKS if name in query.args), "")
    what = Measure(clock, clock) if clock else Measure("", "time", query.what)
    middle, window = what.median(query.windows), query.windows[0]
    shown = time_text(middle) + query.median_of
    return Measurement(query.judge(middle), shown, window=window, rows=what.rows(window))


def _every(window: Window, query: Query) -> Measurement:
    values, found = each(window, query.what, "time"), certain(window, query.what)
    pairs = zip(found.sure, values, strict=True)
    wrong = [item for item, value in pairs if query.judge(value) == "miss"]
    least, most = time_text(min(values)), time_text(max(values))
    shown = least if len(values) == 1 else f"{least} to {most}"
    return Measurement("miss" if wrong else "hit", shown, rows=wrong if found.on_gpu else [])


def _spread(query: Query) -> Measurement:
    """Over the whole scope at once: the same kernel in different steps is the point."""
    selector = query.what
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation")
    groups: dict[tuple[str, object], list[float]] = defaultdict(list)
    for window in query.windows:
        rows, times = certain(window, selector).sure, each(window, selector, "time")
        for row, time in zip(rows, times, strict=True):
            flops = window.evidence.kernel_fact(row, "flops")
            groups[window.evidence.operation(row).name, flops].append(time)
    repeated = [times for times in groups.values() if len(times) > 1]
    if not repeated:
        raise Unknown(f"no {selector.text} ran more than once")
    worst = max((max(times) - min(times)) / max(median(times), 1) for times in repeated)
    first = query.windows[0]
    rows = certain(first, selector).sure
    return Measurement(query.judge(worst), percent_text(worst), window=first, rows=rows)


KIND = GuessKind(
    "time",
    70,
    (
        "gpu time {compare:compare} {amount:time}",
        "cpu time {compare:compare} {amount:time}",
        "{what:selector} time {compare:compare} {amount:time} [each]",
        "{what:selector} time varies by {compare:compare} {amount:share}",
    ),
    measure,
)
