"""A count per step, asked of the whole trace."""

from __future__ import annotations

from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.reason import Miss, Reason
from foretrace.guess.scope import Scope
from foretrace.guess.select import find


def explains(miss: Miss) -> bool:
    """Every step holds what was predicted of all of them."""
    thing, wanted, work = miss.thing, miss.ask.args.get("number"), miss.ask.views[0].work
    if miss.kind != "counts" or miss.ask.scope.kind != "trace" or len(work.trace.spans.steps) < 2:
        return False
    if thing is None or thing.kind == "step":
        return False
    compare = miss.ask.args.get("compare", Compare("=="))
    return (
        isinstance(wanted, Amount)
        and wanted.value > 0
        and compare.symbol in ("==", "<=", "~")
        and all(len(find(view, thing).sure) == wanted.value for view in Scope("steps").views(work))
    )


REASON = Reason(
    name="whole_trace",
    text=(
        "That is the number per step: the trace holds several. Say `per step: …`, or name a region."
    ),
    source="any trace with steps",
    example="kernels == 5",
    near=(
        "steps == 1",
        "kernels == 4",
        "kernels < 5",
        "memcpy == 1",
        "sync == 3",
        "aten::mm >= 10",
    ),
    trace="mlp_eager",
    explains=explains,
)
