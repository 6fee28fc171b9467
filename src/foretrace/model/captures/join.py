"""The join of graph replays with the captures of their graphs.

A capture's window fits a replay when it has as many nodes of each kind in the same order, and every
kernel passes its check: by name where the capture has names, otherwise by what names and grids say
about ops (`fits`). Of several windows that fit, the batch size decides, then the order in which
graphs were captured and are replayed. Where windows remain that would give a kernel different
answers, it stays unlinked: a false link is worse than none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from foretrace.model.captures import batch
from foretrace.model.captures.candidates import Graph, graphs_of
from foretrace.model.captures.matching import matched
from foretrace.model.captures.windows import GraphReplay, replays
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording

Fit = tuple[Graph, Ints]
Kind = tuple[tuple[str, ...], tuple[str, ...], int | None]


class Join:
    """`capture` and `launch` of every row of `gpu`, and for each graph why it fits no replay."""

    def __init__(
        self, trace: Recording, captures: Sequence[Recording], sizes: Sequence[int | None]
    ) -> None:
        self.trace = trace
        self.graphs = graphs_of(captures, sizes)
        self.replays = replays(trace)
        self.capture, self.launch = np.full((2, len(trace.gpu)), -1, np.int64)
        self.refusals: dict[int, str] = {}  # by capture: the first reason
        self.used: set[int] = set()
        stated = batch.around(trace, np.array([each.launch for each in self.replays], np.int64))
        kinds: defaultdict[Kind, list[GraphReplay]] = defaultdict(list)
        for replay, size in zip(self.replays, stated, strict=True):
            kinds[replay.kinds, replay.names, size].append(replay)
        for (_, _, size), equal in kinds.items():
            self._link(equal, size)

    def why(self, place: int) -> str:
        """Why nothing in a capture fits a replay."""
        if not any(graph.place == place for graph in self.graphs):
            return "no graph is captured in it"
        return self.refusals.get(place, "its graphs are not replayed")

    def _link(self, equal: list[GraphReplay], size: int | None) -> None:
        """Link replays of one sequence of kernels and one batch size."""
        fitting = self._fitting(equal[0])
        wanted = _wanted_size([graph.size for graph, _ in fitting], size)
        for graph, _ in fitting:
            if graph.size != wanted:
                self.refusals.setdefault(graph.place, _other_size(graph.size, size))
        fitting = [(graph, found) for graph, found in fitting if graph.size == wanted]
        if not fitting:
            return
        self.used |= {graph.place for graph, _ in fitting}
        turns = self._turns(equal, len(fitting))
        for at, replay in enumerate(equal):
            if turns is not None:
                self._set(replay, *fitting[turns[at]])
            else:
                self._set(replay, fitting[0][0], _agreed(fitting))

    def _fitting(self, replay: GraphReplay) -> list[Fit]:
        """The graphs that fit a replay, each with the node of every row."""
        found: list[Fit] = []
        for graph in self.graphs:
            places = matched(self.trace, replay, graph)
            if isinstance(places, str):
                self.refusals.setdefault(graph.place, places)
            else:
                found.append((graph, places))
        return found

    def _turns(self, equal: list[GraphReplay], count: int) -> list[int] | None:
        """Which of `count` graphs each replay is, where graphs of one kind are replayed in turn.

        Pieces of a model have equal kernels layer by layer. Each step replays every piece once, in
        the order of the captures.
        """
        if count == 1:
            return [0] * len(equal)
        ids = [self._graph_id(each) for each in equal]
        known = sorted(set(ids))
        if known[0] > 0:
            return [known.index(each) for each in ids] if len(known) == count else None
        host = self.trace.host
        launches = np.array([each.launch for each in equal], np.int64)
        around = host.nearest(launches, host.is_step | (host.is_region & host.named(batch.size_in)))
        order = np.lexsort((host.start[launches], around))
        groups, sizes = np.unique(around, return_counts=True)
        if groups[0] < 0 or (sizes != count).any():
            return None
        turn = np.empty(len(equal), np.int64)
        turn[order] = np.tile(np.arange(count), len(groups))
        return list(turn.tolist())

    def _graph_id(self, replay: GraphReplay) -> int:
        rows = self.trace.gpu.side_row[replay.rows[:1]]
        found = self.trace.tables["gpu"]["graph_id"][int(rows[0])] if rows[0] >= 0 else None
        return found or 0

    def _set(self, replay: GraphReplay, graph: Graph, places: Ints) -> None:
        told = places >= 0
        self.capture[replay.rows[told]] = graph.place
        self.launch[replay.rows[told]] = graph.window.events[places[told]]


def _wanted_size(sizes: Sequence[int | None], stated: int | None) -> int | None:
    """The batch size of the graph that ran: engines pad to the next captured size.

    A size that is not stated decides nothing. Twice the size or more is no padding: the capture of
    the graph that ran is missing.
    """
    known = sorted(size for size in sizes if size is not None)
    if stated is None or not known:
        return sizes[0] if len(set(sizes)) == 1 else -1
    return next((size for size in known if stated <= size < 2 * stated), -1)


def _other_size(captured: int | None, replayed: int | None) -> str:
    if replayed is None or captured is None:
        return "nothing states the batch size of the replay or of the capture"
    return f"it was captured at batch size {captured:,}, and the replay has {replayed:,}"


def _agreed(fitting: Sequence[Fit]) -> Ints:
    """The places of the first graph where all say the same about ops, sizes and modules."""
    places, mine = fitting[0][1].copy(), fitting[0][0].identities
    for graph, other in fitting[1:]:
        theirs = graph.identities
        pairs = zip(places.tolist(), other.tolist(), strict=True)
        same = [a >= 0 and b >= 0 and mine[a] == theirs[b] for a, b in pairs]
        places[~np.array(same, bool)] = -1
    return places
