"""What a rule says about a trace: `Finding`, and `Rule`, the declaration each file of `analyses/`
makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

STATES = ("found", "clear", "skipped", "crashed")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule saw, with its evidence.

    `state`: found (worth reading), clear (looked, nothing there), skipped (the trace lacks the
    data; `detail` names the capture option that supplies it), crashed (the rule failed; shown, and
    hides no other rule). `at_most_ns` is an upper bound, per step where there are steps, of what
    a repair can save; never a promise. `events` are ids into the events table that prove it.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    at_most_ns: int | None = None

    def _repr_html_(self) -> str:
        return Findings([self])._repr_html_()


class Findings(list[Finding]):
    """A list of findings that a notebook shows as a table; drawing lies far above this, so it is
    found by name.
    """

    def _repr_html_(self) -> str:
        found: str = import_module("foretrace.render.html.notebook").findings_html(self)
        return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing an expert would look for. `name` is that of its module, whose docstring is the
    manual page.

    `needs` are words that the trace must have (`shapes`, `gpu`, `steps`, ...; see
    `analyses.NEEDS`): without them the rule is skipped and the capture option named. `check` takes
    a `Trace` and yields what it found; nothing means clear.
    """

    name: str
    title: str
    check: Callable[[Any], Iterable[Finding]]
    needs: frozenset[str] = frozenset()
