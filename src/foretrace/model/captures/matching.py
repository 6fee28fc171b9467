"""One replay against one captured graph, node by node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from foretrace.model.captures.candidates import Graph
from foretrace.model.captures.fits import fits, sizes_fit
from foretrace.model.captures.windows import KERNEL, CaptureWindow, GraphReplay
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording

TOLERATED = 0.01  # of checks by op: names that no table knows; a shifted order fails 4% and more
TOLERATED_SIZES = 0.05  # of checks by grid: 0.7% fail on eager traces, nearly all on another size
MOSTLY = 0.9  # of the nodes, where a replay and its capture differ in a few


def matched(trace: Recording, replay: GraphReplay, graph: Graph) -> Ints | str:
    """The node of the graph for each row of the replay, or -1; a text says why nothing fits."""
    window, in_turn = graph.window, _is_in_turn(trace, replay)
    if window.is_named:
        return _by_place(replay, window) if in_turn else _by_name(replay, graph)
    if len(replay.kinds) != len(window.kinds):
        return f"its graphs have {len(window.kinds):,} nodes, the replay has {len(replay.kinds):,}"
    if replay.kinds != window.kinds:
        return "copies and kernels come in another order than in the replay"
    if not in_turn:
        return "the replay runs on several streams, and nothing numbers its nodes"
    return _by_op(trace, replay, graph)


def _is_in_turn(trace: Recording, replay: GraphReplay) -> bool:
    """Whether the order of the rows is that of the nodes: numbered, or all on one stream."""
    gpu = trace.gpu
    if len(np.unique(gpu.lane[replay.rows])) == 1:
        return True
    nodes = trace.tables["gpu"]["graph_node"][gpu.side_row[replay.rows]]
    return nodes.null_count() == 0 and nodes.n_unique() == len(nodes)


def _by_op(trace: Recording, replay: GraphReplay, graph: Graph) -> Ints | str:
    """Without names the order holds if no kernel contradicts its op, and no grid its sizes."""
    kernels = [at for at, kind in enumerate(replay.kinds) if kind == KERNEL]
    answers = {at: fits(replay.names[at], graph.chains[at]) for at in kernels}
    wrong = [at for at, answer in answers.items() if answer is False]
    if True not in answers.values() or len(wrong) > TOLERATED * len(kernels):
        return "its ops do not fit the kernels of the replay"
    if _has_other_sizes(trace, replay, graph):
        return "it was captured with other sizes than the replay has"
    places = np.arange(len(replay.rows))
    places[wrong] = -1
    return places


def _has_other_sizes(trace: Recording, replay: GraphReplay, graph: Graph) -> bool:
    side = trace.tables["gpu"].select("grid", "block")[trace.gpu.side_row[replay.rows]]
    grids, blocks = side["grid"].to_list(), side["block"].to_list()
    rows = zip(replay.names, grids, blocks, graph.calls, strict=True)
    answers = [sizes_fit(name, grid, block, call) for name, grid, block, call in rows if call]
    return answers.count(False) > TOLERATED_SIZES * (len(answers) - answers.count(None))


def _by_place(replay: GraphReplay, window: CaptureWindow) -> Ints | str:
    """What the two have in common from the first node on, and up to the last: all of it, as a rule.

    Where something is missing in between, equal layers leave open which of them it is: a
    node that both ends claim differently stays open.
    """
    mine, theirs = replay.words, window.words
    first, last = _common(mine, theirs), _common(mine[::-1], theirs[::-1])
    forward, backward = np.full((2, len(mine)), -1, np.int64)
    forward[:first] = np.arange(first)
    backward[len(mine) - last :] = np.arange(len(theirs) - last, len(theirs))
    differ = (forward >= 0) & (backward >= 0) & (forward != backward)
    places = np.where(differ, -1, np.maximum(forward, backward))
    few = (places >= 0).sum() < MOSTLY * max(len(mine), len(theirs))
    return "its kernels are not those of the replay" if few else places


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many of the first words are the same."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (x, y) in pairs if x != y), min(len(a), len(b)))


def _by_name(replay: GraphReplay, graph: Graph) -> Ints | str:
    """Branches of a graph run in any order: only a name with one meaning tells its node."""
    mine, theirs = _places(replay.words), _places(graph.window.words)
    if {word: len(at) for word, at in mine.items()} != {w: len(at) for w, at in theirs.items()}:
        return "its kernels are not those of the replay"
    places = np.full(len(replay.rows), -1, np.int64)
    for word, nodes in theirs.items():
        if all(graph.identities[node] == graph.identities[nodes[0]] for node in nodes[1:]):
            places[mine[word]] = nodes
    return places


def _places(words: Sequence[str]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(words):
        found[word].append(at)
    return found
