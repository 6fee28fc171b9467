"""Where the time of a step goes; or of a call of the main region, or of the whole recording.

Times and counts are medians over the steps or calls that launched GPU work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct, median
from foretrace.base.units import time_text
from foretrace.look.finding import Finding
from foretrace.trace import bounds
from foretrace.trace.bounds import measured_spans
from foretrace.trace.idle import spent_in
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace


class MeasuredStep(Struct, frozen=True):
    """One step, call or recording: where its time goes.

    `per` is the word for it ("per step"). `idle_by_cause` is that of one of middle length.
    `apart_ns` is the usual distance of two launches, without the profiler where the run record has
    the wall time; `kernel_ns` is the usual length of a kernel. `by_bound` divides the GPU time of
    all `spans`, which are empty for a whole recording; `at_roof` has that of kernels at their roof.
    `recorded_ns` is the time with the profiler, where `wall_ns` is predicted without it.
    """

    per: str
    calls: int
    bound: str
    wall_ns: float
    busy_ns: float
    queued_ns: float
    idle_by_cause: dict[str, int]
    profiled: bool
    launches: float
    graph_launches: float
    apart_ns: float | None
    kernel_ns: float | None
    by_bound: dict[str, int]
    at_roof: dict[str, int]
    devices: int
    spans: list[Span]
    recorded_ns: float | None = None

    @property
    def busy_share(self) -> float:
        """Share of the wall time in which the GPUs are busy."""
        return min(self.busy_ns / self.wall_ns, 1.0) if self.wall_ns > 0 else 1.0


def measured(trace: Trace, region: str = "") -> MeasuredStep | None:
    """The step of a trace, or a call of one region; None where no GPU event has a time."""
    per, spans = measured_spans(trace, region)
    if spans:
        times = [time for span in spans if (time := bounds.spent(trace, span)) is not None]
        bound, works = bounds.of_spans(trace, spans), [span.work for span in spans]
    elif trace.gpu.usable.any() and not region:
        times, works = [spent_in(trace.idle)], [trace.gpu.launch_order]
        bound = bounds.of_time(trace, times[0], works[0])
    else:
        return None
    gpu, host = trace.gpu, trace.host
    rows, busy = np.concatenate(works), trace.spans.median_busy(spans) or gpu.busy(works[0])
    kernels = [work[gpu.is_kernel[work]] for work in works]
    launches = [distinct(gpu.launch[work[gpu.launch[work] >= 0]]) for work in kernels]
    apart = [np.diff(np.sort(host.start[each])) for each in launches]
    lengths = gpu.length[rows[gpu.is_kernel[rows] & gpu.usable[rows]]]
    middle = sorted(times, key=lambda time: time.wall_ns)[len(times) // 2]
    distances = np.concatenate(apart)
    launched = median(len(each) for each in launches)
    # work of two streams may begin in the window of the step before
    wall_ns = max(median(time.wall_ns for time in times), busy)
    # the median of two is their mean, which may be the distance of none
    usual = float(np.median(distances)) if len(distances) > 2 else None
    if usual is not None and not middle.profiled:
        usual = wall_ns / launched if launched else None
    return MeasuredStep(
        per,
        len(works),
        bound,
        wall_ns=wall_ns,
        busy_ns=busy,
        queued_ns=median(time.queued_ns for time in times),
        idle_by_cause=middle.idle_by_cause,
        profiled=middle.profiled,
        launches=launched,
        graph_launches=median(int(host.is_graph_launch[each].sum()) for each in launches),
        apart_ns=usual,
        kernel_ns=float(np.median(lengths)) if len(lengths) else None,
        by_bound=bounds.time_by_bound(trace, rows),
        at_roof=bounds.time_at_roof(trace, rows),
        devices=len(distinct(gpu.device_number[rows])),
        spans=spans,
    )


# A fix that saves less of the step than this is not worth a line of the first screen.
WORTH = 0.01
TRIAGE = "compile_triage"  # has its own line; another rule with the same fix is more exact
FIRST_USE = "first_use"  # such a recording says nothing of the program's usual step
HARDLY = "can hardly help"


def captured(step: MeasuredStep) -> bool:
    """Whether capturing CUDA graphs took most of the time."""
    return step.idle_by_cause.get("capture", 0) > step.wall_ns / 2


def title_of(findings: Sequence[Finding], rule: str) -> str:
    """The title of what a rule found, or an empty text."""
    return next((row.title for row in findings if row.rule == rule and row.state == "found"), "")


def saving_text(row: Finding | Finding) -> str:
    """`about 1.20 ms` where a replay predicts it, `at most 3.00 ms` where only a bound is known."""
    if row.saves_ns is not None:
        return f"about {time_text(row.saves_ns)}"
    return "" if row.at_most_ns is None else f"at most {time_text(row.at_most_ns)}"


def whole_ns(step: MeasuredStep) -> float:
    """What the savings of findings are of: a step, or without steps the recording."""
    return step.wall_ns if step.per == "per step" else step.wall_ns * step.calls
