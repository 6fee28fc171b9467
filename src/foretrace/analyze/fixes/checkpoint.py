"""Blocks that keep their activations, without torch.utils.checkpoint.

What it looks for: ops of the forward pass below nodes of the backward pass. A backward op runs with
autograd off and has no sequence number; an op that a checkpoint runs again has one.

What must hold: whole layers are among them (linear, layer_norm, convolution, attention), and each
of these ran in the forward pass before.

What changes: the recomputed ops are gone, with their host time and their GPU work. The price is the
memory of their results, which the risk names.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import total
from foretrace.analyze.fixes._step import Step, Stretches
from foretrace.base.units import bytes_text, plural
from foretrace.model.intervals import Bools, Ints
from foretrace.model.replay import GraphChange

LAYERS = frozenset(
    {
        "aten::linear", "aten::layer_norm", "aten::rms_norm", "aten::batch_norm", "aten::conv1d",
        "aten::conv2d", "aten::conv3d", "aten::scaled_dot_product_attention", "aten::gelu",
        "aten::silu", "aten::relu", "aten::softmax", "aten::embedding", "aten::dropout",
    }
)  # fmt: skip


def _find(step: Step) -> Iterator[Proposal]:
    again = _recomputed(step)
    layers = [event for event in again.tolist() if step.name(event) in LAYERS]
    if not layers or not _ran_before(step, layers):
        return
    rows = step.below(again)
    change = GraphChange(removed=_stretches(step, again), gone=frozenset(rows.tolist()))
    size = total(step, rows, lambda case: case.bytes_written)
    why = f"{plural(len(layers), 'layer')} of the forward pass run again in the backward pass"
    order = "drop torch.utils.checkpoint, or keep it for fewer blocks"
    risk = f"activations stay in memory: up to {bytes_text(int(size))} more"
    yield Proposal(order, why, change, risk=risk, events=tuple(layers[:50]))


def _recomputed(step: Step) -> Ints:
    """Ops that make nodes while the backward pass runs."""
    host, nodes = step.trace.host, step.nodes
    count = host.count
    is_node, made = nodes.is_node[:count], nodes.made[:count]
    rows = np.flatnonzero(step.inside & made)
    under: Bools = np.zeros(count, bool)
    under[rows[host.nearest(host.parent[rows].astype(np.int64), is_node) >= 0]] = True
    return step.outermost(under)


def _stretches(step: Step, events: Ints) -> Stretches:
    """From the first to the last of these ops below each node: Python runs between them."""
    host = step.trace.host
    node = host.nearest(events, step.nodes.is_node[: host.count])
    parts = [events[node == each] for each in np.unique(node).tolist()]
    return tuple((int(host.start[part].min()), int(host.end[part].max())) for part in parts)


def _ran_before(step: Step, layers: list[int]) -> bool:
    """Whether each of these ops also ran outside of the backward pass."""
    host = step.trace.host
    is_node = step.nodes.is_node[: host.count]
    every = np.flatnonzero(step.named(LAYERS))
    outside = every[host.nearest(every, is_node) < 0]
    names = {step.name(event) for event in outside.tolist()}
    return {step.name(event) for event in layers} <= names


FIX = Fix("checkpoint", "Activations kept, not recomputed", _find, ("gpu",))
