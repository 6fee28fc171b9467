"""The wait with which the profiler itself ends a recording."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason
from foretrace.guess.select import find


def explains(miss: Miss) -> bool:
    thing = miss.thing
    spans = miss.ask.views[0].work.trace.spans
    if miss.ask.scope.kind != "trace" or thing is None or not spans.steps:
        return False
    if not miss.too_many("sync") and not (
        miss.too_many("call") and thing.name == "cudaDeviceSynchronize"
    ):
        return False
    waits = find(miss.ask.views[0], thing).sure
    end = max(span.end_ns for span in spans.steps)
    return len(waits) == 1 and int(spans.host.start[waits[0]]) >= end


REASON = Reason(
    name="final_sync",
    text=(
        "The one wait comes after the last step: the profiler itself waits for the GPU when a "
        "recording ends."
    ),
    source=(
        "an H200, torch 2.11: one cudaDeviceSynchronize after ProfilerStep#4 in every recorded "
        "trace"
    ),
    example="sync == 0",
    near=("sync == 2", "call cudaDeviceSynchronize == 3", "memcpy == 1", "gpu idle < 1%"),
    trace="linear_eager",
    explains=explains,
)
