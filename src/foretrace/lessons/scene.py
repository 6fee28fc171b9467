"""A recording opened for a step of a lesson: marks predictions, and selects what decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from foretrace import recordings
from foretrace.errors import UsageError
from foretrace.guess import Guess, parse
from foretrace.guess.evidence import Evidence
from foretrace.guess.marking import mark
from foretrace.guess.measures import middle
from foretrace.guess.places import quotable_regions, windows_of
from foretrace.guess.scope import Scope, Unknown, Window
from foretrace.guess.selection import Selection, select
from foretrace.guess.selectors import read_selector
from foretrace.guess.tokens import split
from foretrace.model.trace import Trace
from foretrace.schema.verdict import Verdict

Opens = Callable[[str], Trace]


class Scene:
    """One program as it ran. A prediction without a place is about one call of its region."""

    def __init__(self, trace: Trace, against: Scene | None = None) -> None:
        self.trace, self.against = trace, against
        self.evidence = Evidence(trace)
        self.region = trace.run.rung.region or self._busiest()

    def _busiest(self) -> str:
        """The region with the most GPU operations, for a recording without a run record."""
        regions = quotable_regions(self.evidence)
        sizes = {name: size for name, size in regions.items() if not name.startswith("##")}
        return max(sizes, key=lambda name: sizes[name], default="")

    def prediction(self, text: str) -> Guess:
        """The prediction, about one call where it names no other place."""
        guess = parse(text)
        if guess.scope.kind != "trace" or guess.kind.records:
            return guess
        other = self.against.region if self.against else self.region
        # one call is one step; A may name its calls otherwise
        return parse(f"in {self.region}: {text}" if other == self.region else f"per step: {text}")

    def marked(self, text: str) -> Verdict:
        """How a prediction fares."""
        other = self.against.evidence if self.against else None
        return mark(self.prediction(text), self.evidence, other)

    @cached_property
    def calls(self) -> list[Window]:
        """Every recorded call."""
        return windows_of(Scope("region", self.region), self.evidence)

    @cached_property
    def call(self) -> Window:
        """The call that is drawn: the one with the median GPU time, as figures are given."""
        return middle(self.calls)[0]

    def selected(self, selector: str) -> Selection:
        """What a selector matches in the call that is drawn; nothing where the trace lacks it."""
        try:
            return select(self.call, read_selector(split(selector), 0)[0])
        except Unknown:
            return Selection(False, [], [])


def opened(opens: Opens, name: str, against: str = "") -> Scene:
    """The scene of a recording by its short name, or of the path of a trace."""
    other = opened(opens, against) if against else None
    found = recordings.find(name)
    scene = Scene(opens(str(found or name)), other)
    if not scene.region:
        raise UsageError(f"{name}: no record_function range: a lesson is about calls of one")
    return scene
