"""What predictions say of a snapshot of the allocator, which has memory and no events."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.units import bytes_text
from foretrace.check.judging import Answer, Judge, Value
from foretrace.check.language import (
    BYTES,
    Quantity,
    Scope,
    Selector,
    Unknown,
)
from foretrace.check.marking import Guesses, mark_all
from foretrace.check.memory import view_growth, view_held, view_peak
from foretrace.check.verdict import Verdicts
from foretrace.trace.allocator.view import MemoryView

OF_A_SNAPSHOT = "a snapshot of the allocator decides its peak, what held it, and growth alone"


class SnapshotJudge(Judge[MemoryView]):
    """Works predictions out on a snapshot of the allocator, which has memory and no events."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view

    def places(self, scope: Scope) -> list[MemoryView]:
        """The whole history."""
        if scope.kind:
            raise Unknown(OF_A_SNAPSHOT)
        return [self.view]

    def label(self, place: MemoryView) -> str:
        """What it is called."""
        return "the snapshot"

    def is_once(self, node: Quantity) -> bool:
        """It is one place."""
        return True

    def proof(
        self, place: MemoryView, answers: Sequence[Answer]
    ) -> tuple[list[str], tuple[int, ...]]:
        """The page of `foretrace memory` has it."""
        return [], ()

    def advise(self, words: str) -> str:
        """What there is."""
        return "of a snapshot there are `peak`, `peak.reserved`, `peak.held(activations)`, `growth`"

    def quantity(self, node: Quantity, place: MemoryView) -> Answer:
        """What the history says."""
        of = tuple(each.text for each in node.of if isinstance(each, Selector))
        if node.name in ("peak", "peak.reserved"):
            size = view_peak(place, reserved=node.name != "peak")
            return Value(size, size, BYTES, BYTES)
        if node.name == "peak.held":
            size = view_held(place, of[0])
            return Value(size, size, BYTES, BYTES, note=f" of {bytes_text(place.peak_bytes)}")
        if node.name == "growth":
            return view_growth(place, of)
        raise Unknown(OF_A_SNAPSHOT)


def check_snapshot(view: MemoryView, predictions: Guesses) -> Verdicts:
    """Mark each prediction on a snapshot of the allocator."""
    return mark_all(predictions, SnapshotJudge(view))
