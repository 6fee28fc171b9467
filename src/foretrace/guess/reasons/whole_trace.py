"""A count per step, asked of the whole trace."""

from __future__ import annotations

from ..amounts import Amount
from ..reason import Miss, Reason
from ..select import find
from ..things import Thing


def explains(miss: Miss) -> bool:
    thing, wanted = miss.ask.args.get("what"), miss.ask.args.get("number")
    steps = len(miss.ask.views[0].work.trace.spans.steps)
    if miss.kind != "counts" or miss.ask.scope.kind != "trace" or steps < 2:
        return False
    assert isinstance(thing, Thing)
    return isinstance(wanted, Amount) and wanted.value > 0 and len(find(miss.ask.views[0], thing).sure) == steps * wanted.value


REASON = Reason(
    name="whole_trace",
    text="That is the number per step: the trace holds several. Say `per step: …`, or name a region.",
    source="any trace with steps",
    example="kernels == 5",
    trace="mlp_eager",
    explains=explains,
)
