"""`Reason`, the declaration that each file of `reasons/` makes: why a sensible prediction can miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from foretrace import plugins
from foretrace.guess.amounts import Amount
from foretrace.guess.measures import Measure
from foretrace.guess.reading import Ask, Reading
from foretrace.guess.things import Thing

if TYPE_CHECKING:
    from foretrace.guess.work import Case


@dataclass(frozen=True, slots=True)
class Miss:
    """A prediction that missed: its kind, what it asked, what was read, and the GPU work that
    decided it.
    """

    kind: str
    ask: Ask
    reading: Reading

    @property
    def cases(self) -> list[Case]:
        """The GPU work that decided it, each case once."""
        view = self.reading.view
        found = [view.work.case(row) for row in self.reading.rows] if view else []
        return list({id(case): case for case in found}.values())

    @property
    def all_cases(self) -> list[Case]:
        """All GPU work of the trace."""
        return self.ask.views[0].work.cases

    @property
    def thing(self) -> Thing | None:
        """What was counted or measured."""
        left = self.ask.args.get("left")
        found = self.ask.args.get("what", left.thing if isinstance(left, Measure) else None)
        return found if isinstance(found, Thing) else None

    @property
    def wants_some(self) -> bool:
        """Whether it was expected that there is something: not that there is none."""
        return self.ask.args.get("quantifier") in ("every", "some")

    def too_many(self, kind: str) -> bool:
        """Whether a number of things of that kind was predicted, and more are there."""
        if self.kind not in ("counts", "launches") or self.thing is None or self.thing.kind != kind:
            return False
        seen = len(self.reading.rows) + len(self.reading.events)
        return seen > self._number

    def too_few(self, kind: str) -> bool:
        if self.kind != "counts" or self.thing is None or self.thing.kind != kind:
            return False
        return len(self.reading.rows) + len(self.reading.events) < self._number

    @property
    def _number(self) -> float:
        wanted = self.ask.args.get("number")
        return wanted.value if isinstance(wanted, Amount) else 0

    def names(self, word: str) -> bool:
        """Whether a name in the prediction (of a call, a kernel, an op) begins with `word`."""
        values = [
            name for value in self.ask.args.values() for name in (value, getattr(value, "name", ""))
        ]
        return any(isinstance(value, str) and value.startswith(word) for value in values)


@dataclass(frozen=True, slots=True)
class Reason:
    """`explains` says whether this is the likely reason of a miss; `text` is the reason, `source`
    where it was seen.

    `example` is a prediction that misses for this reason on the recorded trace `trace`; those in
    `near` miss there for another one, however close they are, and must not be given it. A test runs
    them all.
    """

    name: str
    text: str
    source: str
    explains: Callable[[Miss], bool]
    example: str
    near: tuple[str, ...]
    trace: str
    against: str = ""


@cache
def every() -> tuple[Reason, ...]:
    """All reasons, in order of name."""
    from foretrace.guess import reasons

    return tuple(plugins.declared(reasons, "REASON", Reason, "foretrace.reasons"))


def likely(miss: Miss) -> str:
    """The reasons that fit, as text."""
    return " ".join(reason.text for reason in every() if _fits(reason, miss))


def _fits(reason: Reason, miss: Miss) -> bool:
    try:
        return reason.explains(miss)
    except Exception:  # a reason from elsewhere that fails must not cost the reader the verdict
        return False
