"""What a rule says about a trace (`Finding`). The functions of `look/rules` declare a `Rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from foretrace.base.display import Displayed

STATES = ("found", "clear", "skipped", "crashed")


class Finding(Displayed, Struct, frozen=True):
    """One thing a rule found, with its evidence.

    `state`: found (worth reading), clear (checked, nothing there), skipped (the trace lacks the
    data; `detail` names the capture option that supplies it), crashed (the rule failed; shown, and
    hides no other rule). `saves_ns` is what a fix saves as a replay of the step predicts it, and
    `at_most_ns` what it saves at best, per step where there are steps. Where no fix has a
    prediction, `at_most_ns` stands alone, an upper bound of the rule's. Never a promise.

    `events` are ids into the events table that prove it. `ranges` are the gaps that it is about,
    the longest first: start and end on the clock of that table, and the number of the GPU (0 is the
    first in the trace). `fix` is the change that a user would make, as an order (`CUDA graph
    (torch.cuda.make_graphed_callables)`); empty where the finding calls for none.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    at_most_ns: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    fix: str = ""
    ranges: tuple[tuple[int, int, int], ...] = ()
    saves_ns: int | None = None


class Findings(Displayed, list[Finding]):
    """A list of findings, which a notebook shows as a table."""


class Rule(Struct, frozen=True):
    """One thing an expert would look for; the docstring of its module is the manual page.

    `needs` are words that the trace must have (`shapes`, `gpu`, `steps`, ...; see
    `analyses.NEEDS`): without them the rule is skipped and the capture option named. `check` takes
    a `Trace` and yields what it found; nothing means clear.

    A rule observes. `fixes` are the names of those that act on what it sees: a replay of the step
    decides what they save. A rule without such a fix may bound a saving itself and advise (`fix` of
    its findings): `realised` is the share of its bound to expect, and `first` what must be known
    before. `example` is a recording that ships with foretrace and shows it.
    """

    name: str
    title: str
    check: Callable[[Any], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    realised: float = 0.0
    first: str = ""
    example: str = ""
