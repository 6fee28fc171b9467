"""Which call of an nn.Module each row of `gpu` belongs to, and in which pass it ran.

A launch inside a module belongs to it. The backward pass runs outside the modules; autograd writes
one number on a forward op and on the node that it makes, and the work of the node belongs to the
module of that op. A module that runs inside a node is recomputation (activation checkpointing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace.model.autograd import Nodes
from foretrace.model.intervals import Bools, Ints

if TYPE_CHECKING:
    from foretrace.model.origins import Origins

FORWARD, BACKWARD, RECOMPUTED = PASSES = range(3)
_DEEPEST = 8  # checkpoints inside each other
_CHECKPOINT = ("CheckpointFunctionBackward", "torch/utils/checkpoint.py(")


class Owners:
    """`call` is the innermost module call of every row of `gpu`, or -1; `ran` is its pass.

    `lost` are the rows whose launch the trace does not tell: it may have been in any module.
    """

    def __init__(self, origins: Origins, nodes: Nodes, is_module: Bools) -> None:
        self.host, self.nodes, self.is_module = origins.host, nodes, is_module
        launch = np.where(origins.launch >= 0, origins.launch, origins.op)
        node, inside = self._nearest(launch, nodes.is_node), self._nearest(launch, is_module)
        below = self._is_below(inside, node)
        again = below | self._is_below(self._nearest(launch, self._is_checkpoint()), node)
        self.call: Ints = np.where((node < 0) | below, inside, self._forward(node))
        # where autograd leads to no module, the one around the whole backward pass
        self.call = np.where(self.call < 0, inside, self.call)
        self.ran: Ints = np.where(node < 0, FORWARD, np.where(again, RECOMPUTED, BACKWARD))
        graph = self.host.is_graph_launch[launch] if self.host.count else launch < 0
        self.lost: Bools = (launch < 0) | graph

    def _nearest(self, events: Ints, chosen: Bools) -> Ints:
        return self.host.nearest(events, chosen) if chosen.any() else np.full_like(events, -1)

    def _is_below(self, events: Ints, nodes: Ints) -> Bools:
        """Whether each event is the node, or inside it: both are above one launch."""
        depth = self.host.depth
        return (events >= 0) & (nodes >= 0) & (depth[events] >= depth[nodes])

    def _is_checkpoint(self) -> Bools:
        """Nodes and Python frames that run a part of the forward pass again."""
        return self.host.lasting & self.host.named(lambda name: name.startswith(_CHECKPOINT))

    def _forward(self, node: Ints) -> Ints:
        """The module of the op that made each node; of an op that a node ran again, by that."""
        call = np.full(len(node), -1, np.int64)
        for _ in range(_DEEPEST):
            op = self.nodes.made_by(node)
            found = self._nearest(op, self.is_module)
            call = np.where(call < 0, found, call)
            node = np.where(call < 0, self._nearest(op, self.nodes.is_node), -1)
            if not (node >= 0).any():
                break
        return call
