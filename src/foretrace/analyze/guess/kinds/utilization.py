"""How much of what the GPU can do is used: MFU (FLOPs of matmuls and attention) and MBU (bytes).

Both are of the wall time, or of the GPU time: `gpu mfu`. The wall time is that of the run record
beside the trace where there is one. Else it is that of a profiled run, which takes longer than the
program alone: what the program uses then lies between the two figures, and `mfu > 20%` is unknown
where 20% does as well.
"""

from __future__ import annotations

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.windows import Unknown
from foretrace.base.units import percent_text
from foretrace.model.utilization import Utilization, utilization

_CLOCKS = {"wall": "wall time", "gpu": "GPU time"}


def measure(query: Query) -> Measurement:
    """Judge `mfu > 20%` on a step, a call, or the recording."""
    query.need_gpu()
    figure, clock = query.args["mfu"], query.args.get("wall", "wall")
    found = _found(query)
    value, most = (getattr(found, f"{figure}_{name}") for name in (clock, "gpu"))
    if value is None or most is None:
        raise Unknown(found.note or "FLOPs and bytes need recorded shapes: record_shapes=True")
    profiled = clock == "wall" and found.profiled
    shown = f"{percent_text(value)} of {_CLOCKS[clock]}{' (profiled)' if profiled else ''}"
    if profiled and query.compare.symbol[0] in "<>":
        verdict = query.compare.verdict(value, most, query.args["amount"])
    else:
        verdict = query.judge(value)
    why = f"without the profiler it is {percent_text(value)} to {percent_text(most)}"
    return Measurement(verdict, shown, why if verdict == "unknown" else "", query.windows[0])


def _found(query: Query) -> Utilization:
    trace = query.windows[0].evidence.trace
    return utilization(trace, [window.span for window in query.windows if not window.whole])


KIND = GuessKind(
    "utilization",
    56,
    ("[wall|gpu] mfu|mbu {compare:compare} {amount:share}",),
    measure,
)
