"""The two sides of a join: what a graph launch ran, and what was launched into a graph.

A `CaptureWindow` is the time from the begin to the end of one capture, on one thread. What is
launched in it becomes the nodes of one graph, in this order. A `GraphReplay` is one launch of a
graph: its GPU work in the order of the nodes where the trace numbers them, otherwise in the order
of its start.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model import calls
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording
from foretrace.schema.gaps import filled

KERNEL, COPY, FILL = "kernel", "copy", "fill"


class GraphNodes(Struct, frozen=True):
    """The nodes of a graph: what each is, and the kernel's name, or "" where it is not known."""

    kinds: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """What two nodes have in common if they may be the same."""
        pairs = zip(self.kinds, self.names, strict=True)
        return [name if kind == KERNEL else kind for kind, name in pairs]

    @property
    def is_named(self) -> bool:
        """Whether every kernel has a name."""
        return KERNEL in self.kinds and "" not in self.words


class CaptureWindow(GraphNodes, frozen=True):
    """One capture: the call that begins it, and the calls that made its nodes."""

    begin: int
    events: Ints


class GraphReplay(GraphNodes, frozen=True):
    """One launch of a graph and its rows of `gpu`."""

    launch: int
    rows: Ints


def windows(capture: Recording) -> list[CaptureWindow]:
    """Every capture that begins and ends in the trace and launches something.

    Autograd launches from a thread of its own. What ran has a GPU event, and is no node.
    """
    host = capture.host
    begins = np.flatnonzero(host.is_call & host.named(calls.begins_capture) & host.lasting)
    ends = np.flatnonzero(host.is_call & host.named(calls.ends_capture) & host.lasting)
    made = host.is_call & (host.is_launch | host.named(calls.copies)) & host.lasting
    made[capture.gpu.launch[capture.gpu.launch >= 0]] = False
    nodes, written = np.flatnonzero(made & ~host.is_graph_launch), _written(capture)
    found = []
    for begin in begins.tolist():
        after = ends[(ends > begin) & (host.track[ends] == host.track[begin])]
        if not len(after):
            continue
        inside = nodes[(nodes > begin) & (nodes < after[0])]
        inside = inside[host.process[inside] == host.process[begin]]
        others = begins[(begins > begin) & (begins < after[0])]
        if len(others):  # captures at once: each has what its thread launches
            inside = inside[host.track[inside] == host.track[begin]]
        if len(inside):
            kinds = tuple(_kind(host.names[host.name[event]]) for event in inside.tolist())
            names = tuple(written.get(event, "") for event in inside.tolist())
            found.append(CaptureWindow(kinds, names, begin, inside))
    return found


def replays(trace: Recording) -> list[GraphReplay]:
    """Every launch of a graph in the trace that ran something."""
    gpu, host = trace.gpu, trace.host
    launched = np.flatnonzero(gpu.launch >= 0)
    launched = launched[host.is_graph_launch[gpu.launch[launched]]]
    node = np.full(len(gpu), -1, np.int64)
    side = trace.tables["gpu"]
    node[np.searchsorted(gpu.id, side["event"].to_numpy())] = filled(side["graph_node"], -1)
    order = np.lexsort((gpu.start[launched], node[launched], gpu.launch[launched]))
    rows = launched[order]
    edges = np.flatnonzero(np.diff(gpu.launch[rows])) + 1
    return [_replay(trace, part) for part in np.split(rows, edges) if len(part)]


def _replay(trace: Recording, rows: Ints) -> GraphReplay:
    gpu, host = trace.gpu, trace.host
    kinds = np.where(gpu.is_kernel[rows], KERNEL, np.where(gpu.is_memcpy[rows], COPY, FILL))
    names = [host.names[number] for number in host.name[gpu.id[rows]].tolist()]
    return GraphReplay(tuple(kinds.tolist()), tuple(names), int(gpu.launch[rows[0]]), rows)


def _written(capture: Recording) -> dict[int, str]:
    table = capture.tables["launches"]
    return dict(zip(table["event"].to_list(), table["kernel"].to_list(), strict=True))


def _kind(call: str) -> str:
    if not calls.copies(call):
        return KERNEL
    return FILL if "memset" in call.lower() else COPY
