"""How kernels are launched: by which runtime or driver call, and after which other call of the same
op.
"""

from __future__ import annotations

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Miss, Query, known, per_window
from foretrace.analyze.guess.kinds.fields import judged, kernels
from foretrace.analyze.guess.selection import NO_CALLS
from foretrace.analyze.guess.windows import Unknown, Window, named

_NO_LAUNCH = "no launch recorded"


def _judge(window: Window, query: Query) -> Measurement:
    if not window.evidence.trace.host.is_call.any():
        raise Unknown(NO_CALLS)
    found, call = kernels(window, query.what), query.args["call"]
    if "launched" in query.args:
        launches = [window.evidence.launch_name(row) for row in found.sure]
        answers = [named(call, name) if name else None for name in launches]
        return judged(found, query, answers, [name or _NO_LAUNCH for name in launches])
    answers, texts = [], []
    for names in [_earlier(window, row) for row in found.sure]:
        preceded = any(named(call, name) for name in names or ())
        answers.append(preceded or (None if names is None or window.gap else False))
        texts.append(_NO_LAUNCH if names is None else " and ".join(names) or "no call")
    return judged(found, query, answers, texts)


def _earlier(window: Window, row: int) -> list[str] | None:
    """The calls that the op made before it launched this kernel."""
    trace = window.evidence.trace
    host, launch, op = trace.host, int(trace.gpu.launch[row]), int(trace.gpu.op[row])
    if launch < 0 or op < 0:
        return None
    begin, end, track = int(host.start[op]), int(host.start[launch]), int(host.track[op])
    inside = Window(window.evidence, "", window.rows, begin, end, track)
    return [window.evidence.name(event) for event in inside.events(host.is_call)]


def _occupancy_query(miss: Miss) -> bool:
    """The query was expected before matmuls that are nvjet ones."""
    preceded = miss.wants_some and "preceded" in miss.query.args
    return preceded and miss.names("cudaOccupancy") and miss.has_family("nvjet")


OCCUPANCY_QUERY = known("occupancy_query", _occupancy_query)


def _triton_launch(miss: Miss) -> bool:
    launched = miss.wants_some and "launched" in miss.query.args
    by_runtime = launched and miss.query.args["call"] == "cudaLaunchKernel"
    return by_runtime and miss.has_family("triton")


TRITON_LAUNCH = known("triton_launch", _triton_launch)
KIND = GuessKind(
    "calls",
    25,
    (
        "{quantifier:quantifier} {what:selector} is|are launched by {call:name}",
        "{quantifier:quantifier} {what:selector} is|are preceded by {call:name}",
    ),
    per_window(_judge),
    reasons=(OCCUPANCY_QUERY, TRITON_LAUNCH),
)
