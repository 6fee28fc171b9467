"""What a rule says about a trace: `Finding`, and `Rule`, the declaration each file of `analyses/` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STATES = ("found", "clear", "skipped", "crashed")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule saw, with its evidence.

    `state`: found (worth reading), clear (looked, nothing there), skipped (the trace lacks the data; `detail` names the
    capture option that supplies it), crashed (the rule failed; shown, and hides no other rule).
    `at_most_ns` is an upper bound, per step where there are steps, of what mending it can save; never a promise.
    `events` are ids into the events table that prove it.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    at_most_ns: int | None = None
