"""The two sides of a join: what a graph launch ran, and what was launched into a graph.

A `CaptureWindow` is the time from the begin to the end of one capture, on one thread. What is
launched in it becomes the nodes of one graph, in this order. A `GraphReplay` is one launch of a
graph: its GPU work in the order of the nodes where the trace numbers them, otherwise in the order
of its start.

The batch size of a graph is in the ranges around it, as engines and users name them. vLLM:
`capture_32_FULL`, `execute_32_context_0(…)_generation_32(…)`,
`execute_context_0(0)_generation_32(32)`. SGLang: `capture_32_DECODE`, `step[DECODE bs=32]`. One's
own: `capture bs=8`, `decode bs=8`. The innermost range around a call that states a size counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import filled
from foretrace.base.patterns import regex
from foretrace.model import calls
from foretrace.model.arguments import Signature
from foretrace.model.costs import OpCall
from foretrace.model.intervals import Ints
from foretrace.model.module_calls import PREFIX
from foretrace.model.recording import Recording
from foretrace.model.serving import served_batch

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


_SIZE = regex(
    r"\b(?:bs|batch|batch[ _]size)\s?[=:_ ]\s?(\d{1,7})\b|\b(?:capture|execute)_(\d{1,7})_", re.I
)


def size_in(name: str) -> int | None:
    """`step[DECODE bs=32]` -> 32; None where a name states no size."""
    if match := _SIZE.search(name):
        return int(match[1] or match[2])
    stated = served_batch(name)  # vLLM's graphs are as large as the tokens of a batch
    return stated.tokens if stated else None


def batch_sizes(trace: Recording, events: Ints) -> list[int | None]:
    """The batch size that the innermost range around each event states, where one does."""
    host = trace.host
    stating = host.is_region & host.named(size_in)
    if not stating.any():
        return [None] * len(events)
    found = host.nearest(np.asarray(events, np.int64), stating).tolist()
    return [size_in(host.names[host.name[event]]) if event >= 0 else None for event in found]


class Graph:
    """One window of the capture at `place`; `size` is its batch size where something states it."""

    def __init__(
        self, place: int, trace: Recording, window: CaptureWindow, size: int | None
    ) -> None:
        self.place, self.trace, self.window, self.size = place, trace, window, size
        self.ops = trace.host.nearest_op(window.events).tolist()

    @cached_property
    def chains(self) -> list[tuple[str, ...]]:
        """The ops around each node's launch."""
        return [self.trace.host.op_chain(op) for op in self.ops]

    @cached_property
    def calls(self) -> list[OpCall | None]:
        """The recorded arguments of each node's op."""
        host, found = self.trace.host, self._arguments
        names = [host.names[host.name[op]] if op >= 0 else "" for op in self.ops]
        pairs = zip(found, names, strict=True)
        return [None if each is None else each.call(name) for each, name in pairs]

    @cached_property
    def _arguments(self) -> list[Signature | None]:
        # not from `origins`: the trace may hold its own captures, and these come first
        return [self.trace.arguments.of(op) for op in self.ops]

    @cached_property
    def identities(self) -> list[Any]:
        """What tells the nodes of two graphs apart: ops, arguments and modules."""
        host = self.trace.host
        modules = host.is_kind("python_function") & host.named(lambda name: name.startswith(PREFIX))
        paths = host.paths(modules)
        own = host.nearest(self.window.events, modules).tolist()
        names = [paths.names(event, host.names) if event >= 0 else () for event in own]
        return list(zip(self.chains, self._arguments, names, strict=True))


def graphs_of(captures: Sequence[Recording], sizes: Sequence[int | None]) -> list[Graph]:
    """Every graph, in the order of the captures; `sizes` are those of whole files, where known."""
    found = []
    for place, (trace, size) in enumerate(zip(captures, sizes, strict=True)):
        made = windows(trace)
        stated = batch_sizes(trace, np.array([window.begin for window in made], np.int64))
        found += [
            Graph(place, trace, window, size if own is None else own)
            for window, own in zip(made, stated, strict=True)
        ]
    return found
