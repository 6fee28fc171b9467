"""Which call of an nn.Module each launch belongs to, and in which pass it ran.

`with_stack` and `with_modules` write one event per call of a module, named `nn.Module: CLASS_N`.
The number tells the instances of a class apart. A launch belongs to every module around it; its own
module is the innermost.

A launch inside a module belongs to it. The backward pass runs outside the modules; autograd writes
one number on a forward op and on the node that it makes, and the work of the node belongs to the
module of that op. A module that runs inside a node is recomputation (activation checkpointing).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from foretrace.base.patterns import regex
from foretrace.trace.autograd import AutogradNodes
from foretrace.trace.host import Paths
from foretrace.trace.intervals import Bools, Ints
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
