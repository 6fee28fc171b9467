"""Compare traces: what changed, what stayed the same, and whether the change is worth its cost.

    a, b = ft.open("mlp_eager.json.gz"), ft.open("mlp_compiled.json.gz")
    found = ft.compare(a, b)
    found.gpu_ns.ratio, found.gpu_ns.noise      # 0.88, 0.01
    found.kernels.fusions, found.changed        # what B fused; one sentence for each change
    document(found)                             # what `foretrace compare --json` prints

`repeats` decides what is compared, `measure` what the noise is, `align` which kernel is which,
`fusion` what became one.
"""

from __future__ import annotations

from dataclasses import replace

from foretrace.comparison.comparison import Comparison, compare_two
from foretrace.comparison.document import document
from foretrace.comparison.record import MOST_S
from foretrace.comparison.repeats import choose
from foretrace.errors import TraceError, UsageError
from foretrace.model.trace import Trace

__all__ = ["Comparison", "compare", "document"]


def compare(
    a: Trace,
    b: Trace,
    *more: Trace,
    region: str | None = None,
    compile_seconds: float | None = None,
) -> Comparison:
    """Compare B, and each further trace, with A.

    The unit is the call of a region that all of them have, else the step, else the whole trace;
    `region` names one. `compile_seconds` is what the change costs once; without it the run record
    beside the trace is asked. Raises `TraceError` when a trace has no complete event.
    """
    if compile_seconds is not None and not 0 <= compile_seconds <= MOST_S:
        raise UsageError(
            f"the change cannot cost {compile_seconds} seconds: give 0 to {MOST_S:.0f}"
        )
    for trace in (a, b, *more):
        if not bool(trace.host.lasting.any()):
            raise TraceError(
                "E_NOTHING_TO_COMPARE",
                trace.path,
                "no complete event, so there is nothing to compare",
                hint="was the profiler stepped, and stopped before the export?",
            )
    unit = choose((a, b, *more), region)
    first, *others = (compare_two(a, other, unit, compile_seconds) for other in (b, *more))
    return replace(first, others=tuple(others))
