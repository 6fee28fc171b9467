"""A first step that is slower than the others.

What it shows: the first recorded step against the median of the rest, on the host and on the GPU.

Why it matters: the first step pays for what is done once: loading kernels, growing pools, choosing
algorithms, filling caches. A mean over all steps includes that. Warm up before the profiler starts,
give its schedule a `warmup` step, or leave the first step out.

How it is computed: the host time of the first step over the median host time of the others with as
many GPU operations, and the same for GPU time. The first step must also be slower than the slowest
of the others: where a later step is as slow, the first is not slow because it is the first.

When it is wrong: steps that do different work (sequences of different lengths) differ for that
reason. With two steps there is only one to compare with.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import ratio_text, time_text
from foretrace.look.rules._seen import Found, Seen, rule

# Warm steps of the recorded traces differ by at most 1.1 from their median, cold first ones by 1.4
# (compiled MLP) to 3.5 (matmul + add at size 64).
COLD = 1.25
# The first step must be this much slower than any other.
SLOWEST = 1.1


@rule("A first step that is slower than the others", "steps", example="linear_compiled")
def _check(seen: Seen) -> Found:
    spans = seen.trace.spans
    first, *others = spans.steps
    rest = [span for span in others if len(span.work) == len(first.work)]
    if not rest:
        return
    busy, *busy_others = (spans.busy(span) for span in (first, *rest))
    times = [span.cpu_ns for span in rest]
    usual, usual_busy = int(np.median(times)), int(np.median(busy_others))
    ratio = _ratio(first.cpu_ns, usual, max(times))
    gpu_ratio = _ratio(busy, usual_busy, max(busy_others))
    if max(ratio, gpu_ratio) < COLD:
        return
    where = "host" if ratio >= gpu_ratio else "GPU"
    slower = ratio_text(max(ratio, gpu_ratio))
    title = f"The first step takes {slower} the {where} time of the others"
    gpu = f"; GPU time {time_text(busy)} against {time_text(usual_busy)}" if len(seen.gpu) else ""
    detail = (
        f"{first.name} took {time_text(first.cpu_ns)} on the host, the others {time_text(usual)} "
        f"(median){gpu}. Leave it out of means, or warm up longer before the recording."
    )
    share = round(first.cpu_ns / max(usual, 1), 3)
    evidence = {"first_ns": first.cpu_ns, "usual_ns": usual, "ratio": share}
    evidence |= {"first_busy_ns": busy, "usual_busy_ns": usual_busy} if len(seen.gpu) else {}
    yield seen.found(title, detail, evidence, (first.event,))


def _ratio(first: int, usual: int, slowest: int) -> float:
    """The first over the median of the others; 0 where the slowest of them is as slow."""
    return first / usual if usual and first >= SLOWEST * slowest else 0.0
