"""What a snapshot of torch's allocator says: its peak, what held it, and growth from step to step.

The snapshot is a file of its own, or lies beside a trace (`record --memory`).
"""

from __future__ import annotations

from foretrace.base.units import bytes_text, plural
from foretrace.check.judging import Value
from foretrace.check.language import BYTES, Unknown
from foretrace.trace.allocator.categories import CATEGORIES, by_category
from foretrace.trace.allocator.view import MemoryView

NO_SNAPSHOT = "no snapshot of the allocator beside the trace: record with --memory"
LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
FIRST = 2  # the first step makes the gradients and the optimizer's state


def view_peak(view: MemoryView, *, reserved: bool) -> int:
    """The most that was live at once, or reserved."""
    return int(view.reserved.max()) if reserved else view.peak_bytes


def view_held(view: MemoryView | None, part: str) -> int:
    """What a category holds at the peak."""
    if view is None:
        raise Unknown(NO_SNAPSHOT)
    names = {name.replace(" ", "_").lower(): name for name in CATEGORIES}
    wanted = part.strip('"').replace(" ", "_").lower()
    if wanted not in names:
        raise Unknown(f"no category {part}; there are {', '.join(names)}")
    return by_category(view.lives.size, view.category, view.holders).get(names[wanted], 0)


def view_growth(view: MemoryView | None, numbers: tuple[str, ...]) -> Value:
    """How much more is live at the end of one step than of another."""
    if view is None:
        raise Unknown(NO_SNAPSHOT)
    # what follows the last whole step is not a step
    steps = len(view.facts.optimizes) if view.facts.optimizes else len(view.steps) - 1
    ends = [end - 1 for _, end in view.steps[: max(steps, 0)]]
    if not all(number.isdecimal() for number in numbers):
        raise Unknown("the steps of a snapshot are numbers from 1, as in `growth(2, 9)`")
    first = int(numbers[0]) if numbers else FIRST
    last = int(numbers[1]) if numbers[1:] else len(ends)
    if not 1 <= first < last <= len(ends):
        raise Unknown(f"the snapshot has {plural(len(ends), 'whole step')}")
    before, after = (int(view.curve[ends[step - 1]]) for step in (first, last))
    more = after - before
    if abs(more) <= LEAST_GROWTH * view.peak_bytes * (last - first):
        more = 0
    note = f" ({bytes_text(before)} after step {first}, {bytes_text(after)} after step {last})"
    return Value(more, more, BYTES, BYTES, note=note)
