"""From a backward kernel to the forward op it belongs to.

Autograd gives the node that an op makes a number, and writes it on the op and on the node. Ops that
make no node have the number of the next one that does, so the last op with a number made the node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from foretrace.model.intervals import Bools, Ints, numbered
from foretrace.schema.gaps import filled

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

ENGINE = "autograd::engine::evaluate_function: "
# One node for many ops: a checkpoint runs them forward again, a compiled graph has all of them.
RERUN = re.compile(r"Checkpoint|CompiledFunction")


class Nodes:
    """Sequence numbers of each process: those of forward ops and those of backward nodes."""

    def __init__(self, trace: Trace) -> None:
        host, table = trace.origins.host, trace.origins.tables["autograd"]
        self.trace = trace
        event = table["event"].to_numpy()
        self.sequence: Ints = np.full(host.count, -1, np.int64)
        self.sequence[event] = filled(table["sequence"], -1)
        told = np.flatnonzero(self.sequence >= 0)
        self.sequence[told] = numbered(host.process[told], self.sequence[told])
        self.is_node: Bools = np.zeros(host.count, bool)
        self.is_node[event] = filled(table["forward_thread"], 0) != 0
        self.is_node |= (self.sequence >= 0) & host.named(lambda name: name.startswith(ENGINE))
        made = np.flatnonzero((self.sequence >= 0) & ~self.is_node)
        made = made[np.lexsort((host.start[made], self.sequence[made]))]
        last = np.flatnonzero(np.diff(self.sequence[made], append=-2))
        self.number, self.op = self.sequence[made][last], made[last]
        self._drop_shared(made)

    def _drop_shared(self, made: Ints) -> None:
        """Threads count on their own: a number that two of them used leads to no op."""
        host = self.trace.origins.host
        threads = int(host.track.max(initial=0)) + 1
        number = np.unique(self.sequence[made] * threads + host.track[made]) // threads
        shared = number[1:][number[1:] == number[:-1]]
        alone = ~np.isin(self.number, shared)
        self.number, self.op = self.number[alone], self.op[alone]

    def forward_ops(self) -> Ints:
        """For each GPU row in the backward pass, the forward op whose node launched it, or -1."""
        host = self.trace.origins.host
        node = host.nearest(self.trace.origins.launch, self.is_node)
        node[host.named(RERUN.search)[node]] = -1
        return self.made_by(node)

    def made_by(self, nodes: Ints) -> Ints:
        """The forward op that made each of these nodes, or -1."""
        if not len(self.op):
            return np.full(len(nodes), -1, np.int64)
        wanted = np.where(nodes >= 0, self.sequence[nodes], -1)
        place = np.minimum(np.searchsorted(self.number, wanted), len(self.number) - 1)
        return np.where((wanted >= 0) & (self.number[place] == wanted), self.op[place], -1)

    def around(self, rows: Ints, ops: Ints) -> tuple[Ints, Ints]:
        """Of the `rows` of `gpu`, the last launched before the end of each op, and the next one on
        the op's thread. An op that launched itself is before its own end.
        """
        origins, host = self.trace.origins, self.trace.origins.host
        launch, launched = origins.launch, origins.launched
        rows = rows[np.lexsort((launched[rows], host.track[launch[rows]]))]
        track = host.track[launch[rows]].astype(np.int64)
        low = min(int(launched[rows].min()), int(host.start[ops].min()))
        width = max(int(launched[rows].max()), int(host.end[ops].max())) - low + 1
        key = track * width + launched[rows] - low
        thread = host.track[ops].astype(np.int64)
        at = np.searchsorted(key, thread * width + host.end[ops] - low, side="right")
        before, after = np.maximum(at - 1, 0), np.minimum(at, len(rows) - 1)
        return (
            np.where(track[before] == thread, rows[before], -1),
            np.where(track[after] == thread, rows[after], -1),
        )
