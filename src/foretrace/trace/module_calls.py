"""Which call of an nn.Module each launch belongs to, and in which pass it ran.

`with_stack` and `with_modules` write one event per call of a module, named `nn.Module: CLASS_N`.
The number tells the instances of a class apart. A launch belongs to every module around it; its own
module is the innermost.

A launch inside a module belongs to it. The backward pass runs outside the modules; autograd writes
one number on a forward op and on the node that it makes, and the work of the node belongs to the
module of that op. A module that runs inside a node is recomputation (activation checkpointing).

Ops that make no node have the number of the next one that does, so the last op with a number made
the node. Threads count on their own. A node has the profiler's number of the thread that made it,
which no other event has: the thread is the one whose ops of those numbers have the names of the
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from foretrace.base.arrays import distinct, filled
from foretrace.base.patterns import regex
from foretrace.trace.host import Paths
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.recording import Recording

PREFIX = "nn.Module: "
OUTSIDE, UNKNOWN = "outside modules", "module not known"
# groups of GPU work that a reader looks for by name where no module owns them
NAMED = {
    "optimizer": "optimizer",
    "gradient accumulation": "gradient accumulation",
    "gradient sums": "gradient accumulation",
    "loss": "loss",
}
FORWARD, BACKWARD, RECOMPUTED = PASSES = range(3)
_CHECKPOINT = regex(r"(?s)CheckpointFunction|torch/utils/checkpoint\.py\(.*\): checkpoint")
_DEEPEST = 8  # checkpoints inside each other
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


class Owners:
    """`call` is the innermost module call of each of some host events, or -1; `ran` is its pass.

    Events are those that launched the rows of `gpu`, or any others. `lost` are those that the trace
    does not tell (-1) or that launch whole graphs: their work may have been in any module.
    """

    def __init__(self, nodes: AutogradNodes, is_module: Bools, launch: Ints) -> None:
        self.host, self.nodes, self.is_module = nodes.trace.origins.host, nodes, is_module
        # the call of a checkpoint in the forward pass: its autograd function, or its Python frame
        self.is_checkpoint: Bools = self.host.lasting & self.host.named(_CHECKPOINT.fullmatch)
        self.launch = launch
        node, inside = self._nearest(launch, nodes.is_node), self._nearest(launch, is_module)
        below = self._is_below(inside, node)
        rerun = self._is_below(self._nearest(launch, nodes.made), node)
        forward, again = self._forward(node, rerun)
        self.call: Ints = self.first_call[np.where((node < 0) | below, inside, forward)]
        # where autograd leads to no module, the one around the whole backward pass
        self.call = np.where(self.call < 0, inside, self.call)
        passes = np.where(below | again, RECOMPUTED, BACKWARD)
        self.ran: Ints = np.where(node < 0, FORWARD, passes)
        graph = self.host.is_graph_launch[launch] if self.host.count else launch < 0
        self.lost: Bools = (launch < 0) | graph

    @cached_property
    def first_call(self) -> Ints:
        """For each event itself, for -1 (the last place) -1. A module that runs again inside the
        backward pass has none of the modules around it: its first call outside has.
        """
        first = np.append(np.arange(self.host.count), -1)
        events = np.flatnonzero(self.is_module)
        inside = self._nearest(events, self.nodes.is_node) >= 0
        names, place = np.unique(self.host.name[events[~inside]], return_index=True)
        if len(names) and inside.any():
            again = events[inside]
            at = np.minimum(np.searchsorted(names, self.host.name[again]), len(names) - 1)
            same = names[at] == self.host.name[again]
            first[again[same]] = events[~inside][place[at[same]]]
        return first

    def _nearest(self, events: Ints, chosen: Bools) -> Ints:
        return self.host.nearest(events, chosen) if chosen.any() else np.full_like(events, -1)

    def _is_below(self, events: Ints, nodes: Ints) -> Bools:
        """Whether each event is inside the node: both are above one launch."""
        depth = self.host.depth
        found: Bools = (events >= 0) & (nodes >= 0) & (depth[events] >= depth[nodes])
        return found

    def _forward(self, node: Ints, rerun: Bools) -> tuple[Ints, Bools]:
        """The module of the op that made each node, and whether the work is a checkpoint's: a
        forward op inside a node whose own op was in a checkpoint. That is the module's it wraps.
        """
        op = self.nodes.made_by(node)
        checkpoint = np.where(rerun, self._nearest(op, self.is_checkpoint), -1)
        call = np.where(
            checkpoint >= 0, self._wrapped(checkpoint), self._nearest(op, self.is_module)
        )
        for _ in range(_DEEPEST):  # an op that a node ran again is in no module: go by that node
            node = np.where(call < 0, self._nearest(op, self.nodes.is_node), -1)
            if not (node >= 0).any():
                break
            op = self.nodes.made_by(node)
            around = self._wrapped(self._nearest(op, self.is_checkpoint))
            around = np.where(around < 0, self._nearest(op, self.is_module), around)
            call = np.where(call < 0, around, call)
        return call, checkpoint >= 0

    def _wrapped(self, checkpoints: Ints) -> Ints:
        """The first module that each checkpoint calls, else the one around it."""
        events = np.flatnonzero(self.is_module)
        held = self._nearest(events, self.is_checkpoint)
        above = self._nearest(self.host.parent[events].astype(np.int64), self.is_module)
        outermost = np.flatnonzero((held >= 0) & ~self._is_below(above, held))
        first = np.full(self.host.count + 1, -1, np.int64)
        first[held[outermost][::-1]] = events[outermost][::-1]
        around = self._nearest(checkpoints, self.is_module)
        return np.where(first[checkpoints] >= 0, first[checkpoints], around)


def class_of(name: str) -> str:
    """`nn.Module: LlamaRMSNorm_3` -> `LlamaRMSNorm`."""
    stem, _, number = name.removeprefix(PREFIX).rpartition("_")
    return stem if number.isdigit() else name.removeprefix(PREFIX)


class ModuleCalls:
    """The module calls of one trace; `own` is the event of the innermost one of each GPU row."""

    def __init__(self, trace: Recording) -> None:
        self.trace, host = trace, trace.origins.host
        is_python = host.is_kind("python_function") & host.lasting
        self.is_module: Bools = is_python & host.named(lambda name: name.startswith(PREFIX))
        launches = trace.origins.launch
        none = np.full(len(launches), -1, np.int64)
        self.own: Ints = host.nearest(launches, self.is_module) if self.is_module.any() else none

    @cached_property
    def owners(self) -> Owners:
        """The module call that each GPU row belongs to, the backward pass included."""
        return Owners(AutogradNodes(self.trace), self.is_module, self.trace.origins.launch_or_op)

    @cached_property
    def paths(self) -> Paths:
        """The paths of module calls."""
        return self.trace.origins.host.paths(self.is_module)

    def path(self, event: int) -> tuple[str, ...]:
        """The names of the modules at and around a module call, outermost first."""
        names = self.paths.names(event, self.trace.origins.host.names)
        return tuple(name.removeprefix(PREFIX) for name in names)


def names_outside(owners: Owners, groups: Sequence[str], group: Ints) -> list[str]:
    """For every GPU row the name of its row where no module owns it, else "".

    `groups` are the names of all groups, `group` the place of each row's.
    """
    named = [NAMED.get(name, "") for name in groups]
    rows = zip((owners.call >= 0).tolist(), owners.lost.tolist(), group.tolist(), strict=True)
    return [
        "" if owned else named[place] or (UNKNOWN if lost else OUTSIDE)
        for owned, lost, place in rows
    ]
