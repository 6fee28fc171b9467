"""What rules advise where no fix of its own has a file.

What it looks for: findings that name a change (`Finding.fix`) and a bound for what it saves, of
rules that say how much of their bound to expect (`Rule.realised`).

What must hold: the kernels or host events of the finding are in the typical step, as the same
kernels below the same ops.

What changes: their time becomes shorter, by the rule's bound at best. Expected is the share of it
that the rule states, at worst nothing: a bound is no forecast.
"""

from __future__ import annotations

import numpy as np

from foretrace.look import rules
from foretrace.look.finding import Finding, Rule
from foretrace.look.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.trace.replay import NOTHING


@fix("What rules advise", "gpu")
def _find(step: Step) -> Proposals:
    advising = {rule.name: rule for rule in rules.rules() if rule.realised}
    found = step.findings
    if found is None:
        found = [each for rule in advising.values() for each in rules.run(rule, step.trace)]
    for each in found:
        if each.rule in advising and each.fix and each.at_most_ns:
            yield from _proposal(step, each, advising[each.rule])


def _proposal(step: Step, finding: Finding, rule: Rule) -> Proposals:
    bound, events = float(finding.at_most_ns or 0), np.array(finding.events, np.int64)
    # work of the step of the same kernels below the same ops as these events
    order = step.trace.order
    key = order.case * (int(order.chain.max(initial=0)) + 2) + order.chain
    wanted = np.isin(key, key[np.isin(order.event, events)])
    mine = np.isin(step.rows, order.row[wanted]) | np.isin(step.trace.gpu.id[step.rows], events)
    rows: Ints = step.rows[mine]
    usual, best = (_shorter(step, rows, events, bound * part) for part in (rule.realised, 1))
    if usual != NOTHING:
        changes = usual, best, NOTHING
        yield Proposal(finding.fix, finding.title, *changes, rule.first, events=finding.events)


def _shorter(step: Step, rows: Ints, events: Ints, saved: float) -> GraphChange:
    """GPU work, or without any the host events of the same names, shorter by this time."""
    whole = step.ns(rows)
    if len(rows) and whole > 0:
        return step.shorter(rows.tolist(), max(1 - saved / whole, 0.0))
    host = step.trace.host
    mine = step.outermost(step.inside & np.isin(host.name, host.name[events]))
    mine = mine[~np.isin(mine, step.trace.gpu.id)]
    held = float(host.length[mine].sum())
    left = max(1 - saved / held, 0.0) if held else 0.0
    return GraphChange(step.stretches(mine.tolist()), left) if held else NOTHING
