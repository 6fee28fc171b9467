"""GPU time by module as a flame graph: what the page draws it from."""

from __future__ import annotations

from msgspec import Struct

from foretrace.model.flame import Stacks
from foretrace.model.trace import Trace
from foretrace.render.safe import plain

MOST = 5_000  # stacks; a page cannot show more, and the least are left out


class Flame(Struct, frozen=True):
    """Stacks as numbers into `frames`, outermost first, each with its time.

    The last frame of a stack is a kernel and the one before it an op. `left_out_ns` is the time of
    stacks that have no room.
    """

    frames: list[str]
    stacks: list[tuple[list[int], int]]
    total_ns: int
    left_out_ns: int
    has_modules: bool


def flame(trace: Trace) -> Flame:
    """The flame graph of a trace."""
    found = Stacks(trace)
    every = found.every()
    longest = sorted(every, key=lambda stack: -stack.ns)
    least = longest[MOST - 1].ns if len(every) > MOST else 0
    kept = [stack for stack in every if stack.ns > least or len(every) <= MOST]
    number: dict[str, int] = {}
    stacks = [
        ([number.setdefault(plain(name), len(number)) for name in stack.frames], stack.ns)
        for stack in kept
        if stack.ns
    ]
    total, shown = sum(stack.ns for stack in every), sum(ns for _, ns in stacks)
    return Flame(list(number), stacks, total, total - shown, found.has_modules)
