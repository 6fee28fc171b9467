"""Time: of the GPU (the union of its work), of the host (the length of the stretch), of kernels
(the sum of durations).

Several calls are judged by their median. `each` asks every launch. `== 56 us` holds for what rounds
to 56; say how far off may be with `+- 10%` or `+- 3 us`, or write `about`. `varies by` is the
spread of the durations of one kernel with the same shapes: longest minus shortest, over the median.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from foretrace.guess.measures import CLOCKS, Measure, certain, each
from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View
from foretrace.units import percent_text, time_text


def measure(ask: Ask) -> Reading:
    if "varies" in ask.args:
        return _spread(ask)
    thing: Thing | None = ask.args.get("what")
    if "each" in ask.args and thing is not None:
        return for_each(ask, lambda view: _every(view, thing, ask))
    clock = next((name for name in CLOCKS if name in ask.args), "")
    what = Measure(f"{clock} time", f"{clock} time") if clock else Measure("", "time", thing)
    middle = what.median(ask.views)
    several = f" (median of {len(ask.views)} {ask.scope.unit})" if len(ask.views) > 1 else ""
    view = ask.views[0]
    rows = certain(view, thing).sure if thing and thing.on_gpu else view.rows.tolist()
    return Reading(_judge(ask, middle), time_text(middle) + several, view=view, rows=rows)


def _judge(ask: Ask, value: float) -> str:
    verdict: str = ask.args["compare"].verdict(value, value, ask.args["amount"])
    return verdict


def _every(view: View, thing: Thing, ask: Ask) -> Reading:
    values = each(view, thing, "time")
    wrong = [at for at, value in enumerate(values) if _judge(ask, value) == "miss"]
    found = certain(view, thing).sure
    shown = (
        time_text(min(values))
        if len(values) == 1
        else f"{time_text(min(values))} to {time_text(max(values))}"
    )
    rows = [found[at] for at in wrong] if thing.on_gpu else []
    return Reading("miss" if wrong else "hit", shown, rows=rows)


def _spread(ask: Ask) -> Reading:
    """Over the whole scope at once: the same kernel in different steps is the point."""
    thing: Thing = ask.args["what"]
    if not thing.on_gpu:
        raise Unknown(f"`{thing.text}` is no GPU work")
    groups: dict[tuple[str, object], list[int]] = defaultdict(list)
    for view in ask.views:
        for row, time in zip(certain(view, thing).sure, each(view, thing, "time"), strict=True):
            groups[view.work.case(row).name, view.work.kernel_fact(row, "flops")].append(int(time))
    repeated = [times for times in groups.values() if len(times) > 1]
    if not repeated:
        raise Unknown(f"no {thing.text} ran more than once")
    worst = max((max(times) - min(times)) / max(median(times), 1) for times in repeated)
    return Reading(
        _judge(ask, worst),
        percent_text(worst),
        view=ask.views[0],
        rows=certain(ask.views[0], thing).sure,
    )


KIND = Kind(
    name="time",
    order=70,
    patterns=(
        "gpu time {compare:compare} {amount:time}",
        "cpu time {compare:compare} {amount:time}",
        "{what:things} time {compare:compare} {amount:time} [each]",
        "{what:things} time varies by {compare:compare} {amount:share}",
    ),
    measure=measure,
    examples={
        "in mlp_fwd: gpu time < 300 us": "the median of all calls",
        "per step: cpu time < 1 ms": "the length of the step on the host",
        "gemm time == 54 us +- 15% each": "every launch within the tolerance",
        "in mlp_fwd: last gemm time about 51 us": "the down projection; within 10%",
        "gemm time varies by < 20%": "the same kernel from launch to launch",
    },
)
