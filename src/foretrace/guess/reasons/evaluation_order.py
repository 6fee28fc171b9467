"""Python evaluates arguments from left to right, and launches follow it."""

from __future__ import annotations

from foretrace.guess.reason import Miss, Reason
from foretrace.guess.select import find
from foretrace.guess.things import Thing


def explains(miss: Miss) -> bool:
    """The right kernels, each as often as predicted, in another order."""
    view, wanted = miss.reading.view, miss.ask.args.get("sequence")
    if miss.kind != "order" or view is None or not wanted or len(wanted) != len(miss.reading.rows):
        return False
    left: list[Thing] = list(wanted)
    for row in miss.reading.rows:
        fitting = next((thing for thing in left if row in find(view, thing).sure), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return any(thing.word for thing in wanted)


REASON = Reason(
    name="evaluation_order",
    text="These kernels, in another order: launches follow the order in which Python evaluates, "
    "so gelu(gate(x)) * up(x) "
    "launches gelu before up. A compiler may group them otherwise.",
    source=(
        "an H200, torch 2.11: eager launches gate, gelu, up, mul, down; compiled gate, up, "
        "gelu+mul, down"
    ),
    example="in mlp_fwd: gate, up, gelu, mul, down",
    near=(
        "in mlp_fwd: gate, up, gelu, mul",
        "in mlp_fwd: gate, up, silu, mul, down",
        "mul before gelu",
    ),
    trace="mlp_eager",
    explains=explains,
)
