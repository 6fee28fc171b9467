"""What decides how long it takes: the host, arithmetic, memory, communication.

`bound` is that of most calls (or steps): `overhead` when the GPU is idle for more than half of the
time, else what the kernels are bound by under the roofline, which needs recorded shapes and a card
with known peaks. `gpu idle` is the share of the time from the beginning of the stretch to the end
of its GPU work in which no GPU work ran, the median over calls.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from foretrace.guess.reading import Ask, Kind, Reading, comparison
from foretrace.guess.view import Unknown, View
from foretrace.model import bounds
from foretrace.model.spans import Span
from foretrace.units import percent_text


def measure(ask: Ask) -> Reading:
    for view in ask.views:
        view.need_gpu()
        view.need_whole()
    return _bound(ask) if "bound" in ask.args else _share(ask)


def _bound(ask: Ask) -> Reading:
    votes = Counter(bounds.of_span(view.work.trace, _span(view)) for view in ask.views)
    found = min(votes, key=lambda bound: (-votes[bound], bound))
    if found == "unknown":
        raise Unknown(
            "what bounds it cannot be told: that needs recorded shapes and a card whose peaks are "
            "known"
        )
    several = (
        f" in {votes[found]} of {len(ask.views)} {ask.scope.unit}" if len(ask.views) > 1 else ""
    )
    right = (found == ask.args["bound"]) is ("not" not in ask.args)
    view = ask.views[0]
    idle = f", gpu idle {percent_text(_median_idle(ask))}"
    return Reading(
        "hit" if right else "miss", found + several + idle, view=view, rows=view.rows.tolist()
    )


def _share(ask: Ask) -> Reading:
    idle = _median_idle(ask)
    share = idle if "idle" in ask.args else 1 - idle
    verdict = ask.args["compare"].verdict(share, share, ask.args["amount"])
    several = f" (median of {len(ask.views)} {ask.scope.unit})" if len(ask.views) > 1 else ""
    return Reading(
        verdict, percent_text(share) + several, view=ask.views[0], rows=ask.views[0].rows.tolist()
    )


def _median_idle(ask: Ask) -> float:
    return median(_idle(view) for view in ask.views)


def _idle(view: View) -> float:
    gpu = view.work.trace.gpu
    if not len(view.rows):
        raise Unknown(f"no GPU work in {view.label}")
    if not gpu.usable[view.rows].any():
        raise Unknown("the GPU work has no times")
    if view.whole:
        return 1 - gpu.busy(view.rows) / max(gpu.span(view.rows), 1)
    return bounds.idle_share(view.work.trace, _span(view))


def _span(view: View) -> Span:
    """The view as the model's own stretch; the whole trace is the stretch of its GPU work."""
    gpu = view.work.trace.gpu
    if view.start_ns is not None and view.end_ns is not None:
        return Span(view.label, 0, -1, view.start_ns, view.end_ns, view.rows)
    rows = view.rows[gpu.usable[view.rows]]
    if not len(rows):
        raise Unknown("the GPU work has no times")
    return Span(view.label, 0, -1, int(gpu.start[rows].min()), int(gpu.end[rows].max()), view.rows)


KIND = Kind(
    name="bounds",
    order=50,
    patterns=(
        "bound is [not] {bound:bound}",
        "gpu idle {compare:compare} {amount:share}",
        "gpu busy {compare:compare} {amount:share}",
    ),
    measure=measure,
    expected=lambda args: (
        f"{'not ' if 'not' in args else ''}{args['bound']}" if "bound" in args else comparison(args)
    ),
    examples={
        "in matmul_add: bound is overhead": "the host decides",
        "per step: bound is not overhead": "the GPU is kept busy",
        "gpu idle < 10%": "of the time between the first and the last GPU work",
        "per step: gpu busy > 90%": "the same, said of the other share",
    },
)
