"""Run the optimizer in one pass (`fused=True`).

What it looks for: steps of PyTorch's Adam, AdamW or SGD that launch a kernel per operation
(`foreach`), or one per operation and parameter. Other optimizers of PyTorch have no fused form for
a GPU: `torch.compile` makes one of their step.

What must hold: no sparse gradients, which the fused forms refuse, and no fused or compiled kernel
in the step already.

What changes: one kernel reads gradient, parameter and state once and writes them once. Adam's
operations move 21 words per parameter one by one and 7 in one pass, SGD's with momentum 8 and 5; on
an H200 the fused AdamW takes 0.42 of the foreach form's time. The host gains less: a fused step
still visits each parameter in Python (8 us for Adam's, H200's host, torch 2.11). Of the foreach
form's host time half of the difference counts, because the profiler's part of it is uncertain. At
worst the host gains nothing.
"""

from __future__ import annotations

import re

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.base.units import plural
from foretrace.look.fixes._changes import joined, of_each
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Events, GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.rules import unfused_optimizer as rule
from foretrace.trace import replay
from foretrace.trace.autograd import STEP, closure_ends

# A fused step on the host: for each step, for each group of parameters, and for each parameter.
STEP_NS, GROUP_NS = 100_000, 60_000
PARAMETER_NS = {"Adam": 8_000, "AdamW": 8_000, "SGD": 4_000}
# Of the GPU time that one pass keeps: expected and at best.
PASS = {"Adam": (0.42, 0.3), "AdamW": (0.42, 0.3), "SGD": (0.62, 0.45)}
COMPILED_PASS = (0.5, 0.3)
SPARSE = regex(r"sparse|coalesce", re.IGNORECASE)
ON_CPU = (0.5, 0.85, 0.2)  # of the time goes
PASSES = 3  # ops for each parameter: one alone gains little


def _on_cpu(step: CpuStep) -> Proposals:
    for event in steps_of(step).tolist():
        kind, ops = kind_of(step, event), step.computing[step.under(step.computing, [event])]
        fused = any("_fused" in step.name(op) for op in ops.tolist())
        if kind in rule.HAVE_FUSED and not fused and len(ops) >= PASSES * max(parameters(step), 1):
            why = f"{kind} runs {plural(len(ops), 'op')} per step, some for each parameter"
            yield step.proposal(f"torch.optim.{kind}(..., fused=True)", why, [event], ON_CPU)


def kind_of(step: Step, event: int) -> str:
    """`AdamW` for a step of this optimizer."""
    return step.name(event).removeprefix(STEP).split(".", 1)[0]


@fix("Run the optimizer in one pass", "gpu", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    kinds = {event: kind_of(step, event) for event in steps_of(step).tolist()}
    for kind in sorted({*kinds.values()}):
        found = np.array([event for event, each in kinds.items() if each == kind])
        rows = step.below(found)
        rows = rows[step.trace.gpu.is_kernel[rows]]
        known = kind in rule.HAVE_FUSED | rule.COMPILE
        if known and len(rows) > rule.FEW * len(found):
            yield from _proposal(step, kind, found, rows)


def steps_of(step: Step) -> Ints:
    """The ranges of the optimizers' steps; one that runs a whole training step is left out."""
    host = step.trace.host
    regions = step.inside & host.is_region & host.named(lambda name: name.startswith(STEP))
    return step.outermost(regions & (closure_ends(step.trace)[: host.count] < 0))


def _proposal(step: Step, kind: str, events: Ints, rows: Ints) -> Proposals:
    kernels = {step.name(event) for event in step.trace.gpu.id[rows].tolist()}
    ops = [step.name(event) for event in ops_of(step, events).tolist()]
    if any(map(SPARSE.search, ops)) or any(re.search(rule.FUSED, name) for name in kernels):
        return
    if rule.pass_count(step.trace, rows) == 1:
        return
    fused = kind in rule.HAVE_FUSED
    usual, best = PASS[kind] if fused else COMPILED_PASS
    groups = min((ops.count(name) for name in set(ops) if "_foreach" in name), default=len(events))
    # the host time of these steps without the profiler
    cost, calls = replay.COST, len(step.calls_below(events))
    whole = float(step.trace.host.length[events].sum())
    own = max(whole - len(ops) * cost.op - calls * cost.call, replay.LEAST * whole)
    needed = STEP_NS * len(events) + GROUP_NS * groups
    needed += PARAMETER_NS.get(kind, 8_000) * parameters(step)
    left = min(needed / max(own, 1.0), 1.0)
    usual_left = (1 + left) / 2 if any("_foreach" in name for name in ops) else left
    order = f"torch.optim.{kind}(..., fused=True)" if fused else "torch.compile(optimizer.step)"

    def changed(kept: tuple[float, float]) -> GraphChange:
        """One kernel instead of all: shares of the host's and of the GPU's time."""
        host = GraphChange(step.stretches(events.tolist()))
        return joined([step.one_kernel(rows, kept[1] * step.ns(rows)), host], kept[0])

    changes = of_each(changed, ((usual_left, usual), (left / 2, best), (1.0, 1.5 * usual)))
    why = f"{kind} launches {plural(len(rows), 'kernel')} per step"
    yield Proposal(order, why, *changes, events=step.events(rows))


def ops_of(step: Step, events: Events) -> Ints:
    """The ops below these events."""
    ops = np.flatnonzero(step.inside & step.trace.host.is_op)
    found: Ints = ops[step.under(ops, events)]
    return found


def parameters(step: Step) -> int:
    """Parameters that got a gradient; those of a step that accumulates count once."""
    nodes = np.flatnonzero(step.named({"torch::autograd::AccumulateGrad"}))
    made = step.nodes.sequence[nodes]
    return len(distinct(made[made >= 0])) + int((made < 0).sum())
