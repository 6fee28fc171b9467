"""What rules advise where no fix of its own has a file.

What it looks for: findings of the rules in `RULES` that name a change (`Finding.fix`) and a bound
for what it saves.

What must hold: the kernels or host events of the finding are in the typical step, as the same
kernels below the same ops.

What changes: their time becomes shorter, by the rule's bound at best. Expected is the share of it
in `RULES`, at worst nothing: a bound is no forecast.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze import rules
from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import Ints
from foretrace.model.replay import NOTHING, GraphChange
from foretrace.schema.finding import Finding

# The rules, and the share of their bound that is expected. Plans, compilations and the filling of
# gradients go for good; what overlaps or moves into another kernel depends on the program.
RULES = {
    "activation_epilogue": 0.5,
    "bias_separate": 0.5,
    "casts": 0.25,
    "cudnn_plans": 0.9,
    "dense_mask": 0.5,
    "exposed_comms": 0.25,
    "flash2_on_hopper": 0.5,
    "fusable_in_graphs": 0.5,
    "kept_gradients": 0.9,
    "masked_fill": 0.5,
    "recompilation": 0.9,
    "serial_streams": 0.25,
}
# What is seen, where the title of the finding is a time.
WHY = {"exposed_comms": "collectives run while no other kernel does"}

# What must be known before the advice can be followed; such proposals come last.
FIRST = {
    "casts": "which tensors need the wider type",
    "exposed_comms": "ranks that arrive late",
    "serial_streams": "data that one stream needs of the other",
}


def _find(step: Step) -> Iterator[Proposal]:
    for rule in rules.rules():
        if rule.name in RULES:
            for finding in rules.run(rule, step.trace):
                if finding.fix and finding.at_most_ns:
                    yield from _proposal(step, finding)


def _proposal(step: Step, finding: Finding) -> Iterator[Proposal]:
    bound, events = float(finding.at_most_ns or 0), np.array(finding.events, np.int64)
    rows = _rows(step, events)
    usual, best = (_shorter(step, rows, events, bound * part) for part in (RULES[finding.rule], 1))
    if usual != NOTHING:
        why = WHY.get(finding.rule, finding.title)
        first = FIRST.get(finding.rule, "")
        yield Proposal(finding.fix, why, usual, best, NOTHING, first, events=finding.events)


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
