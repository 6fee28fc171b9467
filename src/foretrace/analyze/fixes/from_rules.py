"""What rules advise where no fix of its own has a file.

What it looks for: findings that name a change (`Finding.fix`) and a bound for what it saves, of
rules that say how much of their bound to expect (`Rule.realised`).

What must hold: the kernels or host events of the finding are in the typical step, as the same
kernels below the same ops.

What changes: their time becomes shorter, by the rule's bound at best. Expected is the share of it
that the rule states, at worst nothing: a bound is no forecast.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze import rules
from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import Ints
from foretrace.model.replay import NOTHING, GraphChange
from foretrace.schema.finding import Finding, Rule


def _find(step: Step) -> Iterator[Proposal]:
    advising = {rule.name: rule for rule in rules.rules() if rule.realised}
    found = step.findings
    if found is None:
        found = [each for rule in advising.values() for each in rules.run(rule, step.trace)]
    for each in found:
        if each.rule in advising and each.fix and each.at_most_ns:
            yield from _proposal(step, each, advising[each.rule])


def _proposal(step: Step, finding: Finding, rule: Rule) -> Iterator[Proposal]:
    bound, events = float(finding.at_most_ns or 0), np.array(finding.events, np.int64)
    rows = _rows(step, events)
    usual, best = (_shorter(step, rows, events, bound * part) for part in (rule.realised, 1))
    if usual != NOTHING:
        changes = usual, best, NOTHING
        yield Proposal(finding.fix, finding.title, *changes, rule.first, events=finding.events)


def _rows(step: Step, events: Ints) -> Ints:
    """Work of the step of the same kernels below the same ops as these events."""
    order = step.trace.order
    key = order.case * (int(order.chain.max(initial=0)) + 2) + order.chain
    wanted = np.isin(key, key[np.isin(order.event, events)])
    mine = np.isin(step.rows, order.row[wanted]) | np.isin(step.trace.gpu.id[step.rows], events)
    found: Ints = step.rows[mine]
    return found


def _shorter(step: Step, rows: Ints, events: Ints, saved: float) -> GraphChange:
    """GPU work, or without any the host events of the same names, shorter by this time."""
    gpu, whole = step.trace.gpu, step.ns(rows)
    if len(rows) and whole > 0:
        left = max(1 - saved / whole, 0.0)
        return GraphChange(length={row: left * float(gpu.length[row]) for row in rows.tolist()})
    mine = step.outermost(step.named({step.name(event) for event in events.tolist()}))
    mine = mine[~np.isin(mine, gpu.id)]
    held = float(step.trace.host.length[mine].sum())
    return (
        GraphChange(step.stretches(mine.tolist()), max(1 - saved / held, 0.0)) if held else NOTHING
    )


FIX = Fix("from_rules", "What rules advise", _find, ("gpu",))
