"""`Reason`, the declaration that each file of `reasons/` makes: why a sensible prediction can miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .. import plugins
from .reading import Ask, Reading

if TYPE_CHECKING:
    from .work import Case


@dataclass(frozen=True, slots=True)
class Miss:
    """A prediction that missed: its kind, what it asked, what was read, and the GPU work that decided it."""

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

    def names(self, word: str) -> bool:
        """Whether a name in the prediction (of a call, a kernel, an op) begins with `word`."""
        values = [name for value in self.ask.args.values() for name in (value, getattr(value, "name", ""))]
        return any(isinstance(value, str) and value.startswith(word) for value in values)


@dataclass(frozen=True, slots=True)
class Reason:
    """`explains` says whether this is the likely reason of a miss; `text` is the reason, `source` where it was seen.

    `example` is a prediction that misses for this reason on the recorded trace `trace`: a test runs it.
    """

    name: str
    text: str
    source: str
    explains: Callable[[Miss], bool]
    example: str
    trace: str
    against: str = ""


@cache
def every() -> tuple[Reason, ...]:
    """All reasons, in order of name."""
    from . import reasons

    return tuple(plugins.declared(reasons, "REASON", Reason, "foretrace.reasons"))


def likely(miss: Miss) -> str:
    """The reasons that fit, as text."""
    return " ".join(reason.text for reason in every() if _fits(reason, miss))


def _fits(reason: Reason, miss: Miss) -> bool:
    try:
        return reason.explains(miss)
    except Exception:  # a reason from elsewhere that fails must not cost the reader the verdict
        return False
