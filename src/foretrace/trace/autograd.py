"""From a backward kernel to the forward op it belongs to.

Autograd gives the node that an op makes a number, and writes it on the op and on the node. Ops that
make no node have the number of the next one that does, so the last op with a number made the node.
Threads count on their own. A node has the profiler's number of the thread that made it, which no
other event has: the thread is the one whose ops of those numbers have the names of the nodes.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from foretrace.base.arrays import distinct, filled
from foretrace.base.patterns import regex
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.recording import Recording

ENGINE = "autograd::engine::evaluate_function: "
STEP = "Optimizer.step#"
# One node for many ops: a checkpoint runs them forward again, a compiled graph has all of them.
RERUN = regex(r"Checkpoint|CompiledFunction")
_OF_NODE = regex(r"^evaluate_function: |Backward\d*$")


class AutogradNodes:
    """Sequence numbers of each process: those of forward ops and those of backward nodes."""

    def __init__(self, trace: Recording) -> None:
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
        self.made = (self.sequence >= 0) & ~self.is_node
        self.threads = int(host.track.max(initial=0)) + 1
        thread = np.zeros(host.count, np.int64)
        thread[event] = filled(table["forward_thread"], 0)
        self.thread: Ints = numbered(host.process, thread) if host.count else thread
        made = np.flatnonzero(self.made)
        made = made[np.lexsort((host.start[made], self._key(made)))]
        last = np.flatnonzero(np.diff(self._key(made), append=-2))
        self.number, self.op = self._key(made)[last], made[last]

    def _key(self, made: Ints) -> Ints:
        """The number of each forward op together with its thread."""
        return self.sequence[made] * self.threads + self.trace.origins.host.track[made]

    @cached_property
    def _track(self) -> Ints:
        """For each number in `thread` the track of the thread that made its nodes, or -1."""
        host, nodes = self.trace.origins.host, np.flatnonzero(self.is_node & (self.sequence >= 0))
        found = np.full(int(self.thread.max(initial=0)) + 1, -1, np.int64)
        tracks = distinct(host.track[self.op])
        # what an op and its node have in common: `aten::_to_copy` and `ToCopyBackward0`
        plain = (_OF_NODE.sub("", name.rpartition("::")[2]) for name in host.names)
        words = [name.replace("_", "").lower() for name in plain]
        stems = np.unique(words, return_inverse=True)[1]
        score = np.zeros((len(tracks), len(found)), np.int64)
        for at, track in enumerate(tracks.tolist()):
            op = self._made_on(nodes, np.full(len(nodes), track, np.int64))
            same = (op >= 0) & (stems[host.name[op]] == stems[host.name[nodes]])
            np.add.at(score[at], self.thread[nodes], 1 + (same * len(nodes)))
            np.add.at(score[at], self.thread[nodes[op < 0]], -1)
        if len(tracks):
            best, most = score.argmax(axis=0), score.max(axis=0)
            alone = ((score == most).sum(axis=0) == 1) & (most > 0)
            found[alone] = tracks[best[alone]]
        return found

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
        return self._made_on(nodes, self._track[self.thread[nodes]])

    def _made_on(self, nodes: Ints, track: Ints) -> Ints:
        """The op on each of these tracks with the number of each node, or -1."""
        known = (nodes >= 0) & (track >= 0) & (self.sequence[nodes] >= 0)
        wanted = np.where(known, self.sequence[nodes] * self.threads + track, -1)
        place = np.minimum(np.searchsorted(self.number, wanted), len(self.number) - 1)
        return np.where(known & (self.number[place] == wanted), self.op[place], -1)

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


def in_closure(trace: Recording, events: Ints) -> Bools:
    """Whether each event is part of the closure of an optimizer's step: Lightning trains in one."""
    until = closure_ends(trace)
    if not (called := until >= 0).any():
        return np.zeros(len(events), bool)
    host = trace.origins.host
    around = host.nearest(events, called)
    return (around >= 0) & (host.start[events] <= until[around])


def closure_ends(trace: Recording) -> Ints:
    """Until when the closure of each optimizer's step runs; -1 for events that have none.

    Most optimizers call it first: it is what runs before the last backward node of the step. L-BFGS
    calls it between ops of its own, so its steps have no closure here.
    """
    host = trace.origins.host
    is_step = host.is_region & host.named(
        lambda name: name.startswith(STEP) and "LBFGS" not in name
    )
    step, until = np.flatnonzero(is_step), np.full(host.count, -1, np.int64)
    node = np.flatnonzero(host.named(lambda name: name.startswith(ENGINE)))
    for process in distinct(host.process[step]).tolist():
        mine = step[host.process[step] == process]
        starts = np.sort(host.start[node[host.process[node] == process]])
        until[mine] = np.concatenate(([-1], starts))[np.searchsorted(starts, host.end[mine])]
    until[until < host.start] = -1
    return until
