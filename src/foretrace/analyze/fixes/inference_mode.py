"""Inference without what training needs.

What it looks for: a program without a backward pass whose ops make autograd nodes, or which runs
dropout.

What must hold: no backward pass anywhere in the recording. Ops that make nodes have numbers that go
on; where there are no nodes, ops have no number or all the same one. Dropout in `eval()` launches
nothing.

What changes: an op takes 5 us less on the host without its node (an H200's host, torch 2.11). The
kernels of dropout go with the host time of their ops.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import distinct
from foretrace.base.units import plural
from foretrace.model.replay import GraphChange

DROPOUT = ("aten::dropout", "aten::native_dropout", "aten::feature_dropout", "aten::dropout_")
NODES = 8  # a few may be a gradient that somebody wants
NODE_NS = (5_000, 8_000, 2_000)  # as expected, at best, at worst


def _find(step: Step) -> Iterator[Proposal]:
    if step.nodes.is_node.any():
        return
    yield from _without_nodes(step)
    yield from _without_dropout(step)


def _without_nodes(step: Step) -> Iterator[Proposal]:
    count = step.trace.host.count
    made = step.nodes.op[step.nodes.op < count]
    ops = made[step.inside[made]]
    if len(distinct(step.nodes.sequence[ops])) < NODES:
        return
    removed = step.stretches(distinct(step.callers(ops)).tolist())
    held = max(step.host_ns(removed), 1.0)
    usual, best, worst = (
        GraphChange(removed, max(1 - len(ops) * ns / held, 0.3)) for ns in NODE_NS
    )
    why = f"{len(ops)} ops per step make autograd nodes, and no backward pass follows"
    order = "run inference under torch.no_grad() or inference_mode()"
    yield Proposal(order, why, usual, best, worst, events=tuple(ops[:50].tolist()))


def _without_dropout(step: Step) -> Iterator[Proposal]:
    every = step.ops(*DROPOUT)
    ops = np.array([op for op in every.tolist() if len(step.below(np.array([op])))], np.int64)
    if len(ops):
        rows = step.below(ops)
        change = GraphChange(step.stretches(ops.tolist()), gone=frozenset(rows.tolist()))
        why = f"{plural(len(ops), 'call')} of dropout per step, and no backward pass"
        yield Proposal("call model.eval(): dropout is on", why, change, events=step.events(rows))


FIX = Fix("inference_mode", "Inference without autograd and dropout", _find, ("gpu",))
