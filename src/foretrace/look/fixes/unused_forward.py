"""Use the outputs of the training pass again.

What it looks for: on a CPU, a forward pass of a training step whose autograd nodes no backward pass
uses: one for each metric, often.

What must hold: it runs every matmul, convolution, attention and recurrent layer of the pass that is
differentiated, with the same shapes. Parts that stay unused, such as a head or a detached
generator, are no whole pass.

What changes: the pass goes. At worst it stays, without nodes: a tenth of its time.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._host import LONG_NS, tops
from foretrace.look.fixes._step import Proposals, Step, fix
from foretrace.trace.intervals import Ints

_LAYERS = "linear matmul mm addmm bmm conv1d conv2d conv3d gru lstm rnn_tanh rnn_relu"
LAYERS = frozenset(f"aten::{name}" for name in (*_LAYERS.split(), "scaled_dot_product_attention"))
SHARES = (0.9, 1.0, 0.1)


@fix("Use the outputs of the training pass again", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    if not step.trains:
        return
    ops, nodes = tops(step), step.nodes
    made = nodes.made_by(np.flatnonzero(nodes.is_node & step.inside))
    # the outermost ops around those that make nodes, and around those whose nodes run
    makes, used = (
        ops[np.isin(ops, step.callers(inner))]
        for inner in (nodes.op[step.inside[nodes.op]], made[made >= 0])
    )
    unused = makes[~np.isin(makes, used)]
    once, again = _layers(step, used), _layers(step, unused)
    passes = min((again[kind] // count for kind, count in once.items()), default=0)
    if passes and len(once) >= 2:  # kinds of layers that tell a model
        order = "reuse the outputs of the training pass, or run this under torch.no_grad()"
        more = plural(passes, "more forward pass", "more forward passes")
        why, ops = f"{more} per step that no backward pass uses", unused.tolist()
        risk = "the weights may have changed between the passes"
        yield step.proposal(order, why, ops, SHARES, risk, step.together(ops, LONG_NS))


def _layers(step: Step, ops: Ints) -> Counter[tuple[str, str]]:
    calls = (step.call(op) for op in ops.tolist() if step.name(op) in LAYERS)
    return Counter((call.name, str(call.dims)) for call in calls if call.dims)
