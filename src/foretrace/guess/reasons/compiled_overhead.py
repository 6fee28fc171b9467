"""What a compiled call costs the host before the first kernel."""

from __future__ import annotations

from foretrace.guess.measures import Measure
from foretrace.guess.reason import Miss, Reason
from foretrace.guess.view import View
from foretrace.schema import compiled


def explains(miss: Miss) -> bool:
    left, compare = miss.ask.args.get("left"), miss.ask.args.get("compare")
    if (
        miss.kind != "ratios"
        or not isinstance(left, Measure)
        or left.name != "cpu time"
        or not miss.ask.others
    ):
        return False
    return (
        compare is not None
        and compare.symbol in ("<", "<=")
        and _compiled(miss.ask.views[0])
        and not _compiled(miss.ask.others[0])
    )


def _compiled(view: View) -> bool:
    return compiled.CACHE_LOOKUP in view.work.trace.host.names


REASON = Reason(
    name="compiled_overhead",
    text="Every compiled call pays for Dynamo's cache lookup, the guards and the runtime wrapper; "
    "with few ops that is more "
    "than the dispatch it saves.",
    source=(
        "an H200, torch 2.11: linear_fwd takes the host 107 us in eager mode and 264 us "
        "compiled (medians, profiler on)"
    ),
    example="in linear_fwd: cpu time < 1x of A",
    near=(
        "in linear_fwd: cpu time < 1 us",
        "in linear_fwd: gpu time < 0.1x of A",
        "in linear_fwd: cpu time > 100x of A",
    ),
    trace="linear_compiled",
    against="linear_eager",
    explains=explains,
)
