"""Blocks that keep their activations, without torch.utils.checkpoint.

What it looks for: ops of the forward pass below nodes of the backward pass. A backward op runs with
autograd off and has no sequence number; an op that a checkpoint runs again has one.

What must hold: whole layers are among them (linear, layer_norm, convolution, attention), and each
of these ran in the forward pass before.

What changes: the recomputed ops are gone, with their host time and their GPU work. The price is the
memory of their results, which the risk names.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown

LAYERS = frozenset(
    {
        "aten::linear", "aten::layer_norm", "aten::rms_norm", "aten::batch_norm", "aten::conv1d",
        "aten::conv2d", "aten::conv3d", "aten::scaled_dot_product_attention", "aten::gelu",
        "aten::silu", "aten::relu", "aten::softmax", "aten::embedding", "aten::dropout",
    }
)  # fmt: skip


@fix("Activations kept, not recomputed", "gpu")
def _find(step: Step) -> Proposals:
    host = step.trace.host
    is_node, made = step.nodes.is_node[: host.count], step.nodes.made[: host.count]
    # ops that make nodes while the backward pass runs
    rows = np.flatnonzero(step.inside & made)
    under = rows[host.nearest(host.parent[rows].astype(np.int64), is_node) >= 0]
    again = step.outermost(step.marked(under))
    layers = [event for event in again.tolist() if step.name(event) in LAYERS]
    # each of these also ran outside of the backward pass
    every = np.flatnonzero(step.named(LAYERS))
    before = {step.name(event) for event in every[host.nearest(every, is_node) < 0].tolist()}
    if not layers or not {step.name(event) for event in layers} <= before:
        return
    # from the first to the last of these ops below each node: Python runs between them
    node, rows = host.nearest(again, is_node), step.below(again)
    parts = [again[node == each] for each in np.unique(node).tolist()]
    removed = tuple((int(host.start[part].min()), int(host.end[part].max())) for part in parts)
    size = bytes_text(int(step.total(rows, lambda case: case.bytes_written)))
    why = f"{plural(len(layers), 'layer')} of the forward pass run again in the backward pass"
    order = "drop torch.utils.checkpoint, or keep it for fewer blocks"
    risk = f"activations stay in memory: up to {size} more"
    change = GraphChange(removed, gone=frozenset(rows.tolist()))
    yield Proposal(order, why, change, risk=risk, events=shown(layers))
