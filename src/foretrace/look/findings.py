"""What the rules saw, with what a fix of it saves: a replay of the step decides."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from foretrace.look import rules
from foretrace.look.finding import Finding, Findings
from foretrace.look.fixes import Predicted, predicted
from foretrace.trace.opening import opened
from foretrace.trace.trace import Trace


def findings(trace: Trace | str | os.PathLike[str]) -> Findings:
    """Every rule on one trace: findings by largest possible saving, then the rest by name.

    `trace` may be a path or the name of a recording.
    """
    found = opened(trace)
    seen = rules.run_all(found)
    return with_savings(seen, predicted(found, seen))


def with_savings(seen: Sequence[Finding], future: Predicted | None) -> Findings:
    """These findings with what the replay says of their fixes."""
    if future is None:
        return rules.ordered(seen)
    wanted = {rule.name: rule.fixes for rule in rules.rules()}
    return rules.ordered(_with_saving(each, wanted.get(each.rule, ()), future) for each in seen)


def _with_saving(finding: Finding, names: Sequence[str], future: Predicted) -> Finding:
    """A finding with the largest saving of its fixes; its own bound where none applies, or where
    something else must go first.
    """
    mine = (each for each in future.every if each.fix in names)
    chosen = [each for each in mine if not each.proposal.first]
    best = min(chosen, key=lambda each: each.ns, default=None)
    if best is None or finding.state != "found":
        return finding
    # a saving is that of a step, or without steps of the whole recording
    times = 1 if future.step.trace.order.steps else max(future.step.repeats, 1)
    saves, most = (round(ns * times) for ns in (future.now_ns - best.ns, future.saved_ns(best)))
    if saves <= 0:
        return finding
    most = max(most, finding.at_most_ns or 0)
    return replace(finding, saves_ns=saves, at_most_ns=most, fix=best.proposal.order)
