"""What a rule says about a trace: `Finding`; what each file of `analyses/` declares: `Rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from foretrace.schema.display import Displayed

STATES = ("found", "clear", "skipped", "crashed")


class Finding(Displayed, Struct, frozen=True):
    """One thing a rule found, with its evidence.

    `state`: found (worth reading), clear (checked, nothing there), skipped (the trace lacks the
    data; `detail` names the capture option that supplies it), crashed (the rule failed; shown, and
    hides no other rule). `at_most_ns` is an upper bound of what a fix can save, per step where
    there are steps; never a promise. `events` are ids into the events table that prove it. `ranges`
    are the gaps that it is about, the longest first: start and end on the clock of that table, and
    the number of the GPU (0 is the first in the trace).
    `fix` is the change that a user would make, as an order (`CUDA graph
    (mode="reduce-overhead")`); empty where the finding calls for none.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    at_most_ns: int | None = None
    fix: str = ""
    ranges: tuple[tuple[int, int, int], ...] = ()


class Findings(Displayed, list[Finding]):
    """A list of findings, which a notebook shows as a table."""


class Rule(Struct, frozen=True):
    """One thing an expert would look for; the docstring of its module is the manual page.

    `needs` are words that the trace must have (`shapes`, `gpu`, `steps`, ...; see
    `analyses.NEEDS`): without them the rule is skipped and the capture option named. `check` takes
    a `Trace` and yields what it found; nothing means clear.
    """

    name: str
    title: str
    check: Callable[[Any], Iterable[Finding]]
    needs: tuple[str, ...] = ()
