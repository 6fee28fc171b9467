"""Inference without what training needs.

What it looks for: a program without a backward pass whose ops make autograd nodes, which runs
dropout, or which converts float32 weights to 16 bit in every step (`.to()`, `torch.autocast`).

What must hold: no backward pass anywhere in the recording. Ops that make nodes have numbers that go
on; where there are no nodes, ops have no number or all the same one. Dropout in `eval()` launches
nothing. Converted tensors are weights if matmuls or convolutions of the step have weights or biases
of their shapes, and no inputs.

What changes: an op takes 5 us less on the host without its node (an H200's host, torch 2.11). The
kernels of dropout and of conversions go with the host time of their ops.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import plural
from foretrace.look.fixes._changes import of_each
from foretrace.look.fixes._host import cast_in, outermost_move
from foretrace.look.fixes._step import Case, GraphChange, Proposal, Proposals, Step, fix, shown

DROPOUT = ("aten::dropout", "aten::native_dropout", "aten::feature_dropout", "aten::dropout_")
_TAKERS = "linear conv1d conv2d conv3d matmul mm"
TAKERS = tuple(f"aten::{name}" for name in _TAKERS.split())
NARROW = frozenset({"c10::BFloat16", "c10::Half"})
NODE_NS = (5_000, 8_000, 2_000)  # as expected, at best, at worst
RISK = "weights in bf16 have 8 bits of precision: compare an output"


@fix("Inference without what training needs", "gpu")
def _find(step: Step) -> Proposals:
    if step.nodes.is_node.any():
        return
    made = step.nodes.op[step.nodes.op < step.trace.host.count]
    ops = made[step.inside[made]]
    if len(distinct(step.nodes.sequence[ops])) >= 8:  # a few may be a gradient that somebody wants
        removed = step.stretches(distinct(step.callers(ops)).tolist())
        host_ns, count = max(step.host_ns(removed), 1.0), len(ops)
        changes = of_each(
            lambda ns: GraphChange(removed, max(1 - count * ns / host_ns, 0.3)), NODE_NS
        )
        why = f"{plural(count, 'op')} per step make autograd nodes, and no backward pass follows"
        order = "run inference under torch.no_grad() or inference_mode()"
        yield Proposal(order, why, *changes, events=shown(ops))
    drops = step.ops(*DROPOUT)
    drops = drops[[len(step.below([event])) > 0 for event in drops.tolist()]]
    if len(drops):
        why = f"{plural(len(drops), 'call')} of dropout per step, and no backward pass"
        order = "call model.eval(): dropout is on"
        yield Proposal(order, why, step.without(drops), events=shown(drops))
    # the shapes of weights and biases that no input has
    calls = [step.call(op) for op in step.ops(*TAKERS).tolist()]
    taken = [each for call in calls for at in (1, 2) if (each := call.tensor(at)) and each.dims]
    inputs = {first.dims for call in calls if (first := call.tensor(0))}
    weights = {each.dims for each in taken} - inputs

    def narrows(case: Case) -> bool:
        """Whether a kernel turns a weight from float32 into 16 bit."""
        if not (pair := cast_in(case)):
            return False
        source, target = pair
        return source.type == "float" and target.type in NARROW and source.dims in weights

    rows = step.rows_where(narrows)
    makers = step.makers(step.trace.gpu.launch[rows])
    casts = distinct(np.array([outermost_move(step, op) for op in makers.tolist()], np.int64))
    if len(casts) >= 4:
        order = "load the weights in 16 bit: model.to(torch.bfloat16)"
        why = f"{len(casts)} conversions of float32 weights per step"
        change = step.without(casts, step.with_gaps(casts))
        yield Proposal(order, why, change, risk=RISK, events=step.events(rows))
