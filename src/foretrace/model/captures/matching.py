"""One replay against one captured graph, node by node.

Captures on NVIDIA's cards do not say which kernel a call launches. Then order and counts make the
join, and this is its check. A matmul's kernel under an op that computes none, or the loop of one
ATen op under another op, proves that the order is wrong. A helper (a fill, a copy, a sum of
partial results, a transpose) can be any op's. The grid of ATen's elementwise loops says how many
elements they have, and so which of two batch sizes was captured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.model.captures.graphs import KERNEL, CaptureWindow, Graph, GraphReplay
from foretrace.model.costs import OpCall
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording
from foretrace.names import families
from foretrace.names.families import role_of_op

_MATMULS = frozenset({"gemm", "gemv", "conv", "attention"})
# what an op of these roles launches never multiplies matrices
_SIMPLE = frozenset({"pointwise", "copy", "softmax", "random"})
_HELPS = frozenset({"copy", "fill", "zero", "contiguous", "clone", "sum"})
# ops that run another op's loop
_ALIASES = {"sub": "add", "rsub": "add", "relu": "clamp_min", "clamp": "clamp_min"}
# elements of one thread in ATen's elementwise loops, by the vector width in the name
_WORK = {"<2": (4,), "<4": (4, 8), "<8": (8,), "<": (4,)}
_WORD = regex(r"\w+(?:::\w+)?")
_PREFIX = 200  # the loop's name stands at the front
_LOOP = regex(r"(?:vectorized|unrolled)_elementwise_kernel(<[248]?)")


def fits(kernel: str, chain: Sequence[str]) -> bool | None:
    """True: kernel and op say the same. False: they contradict each other. None: neither."""
    if not chain:
        return None
    found, roles = families.decode(kernel), [role_of_op(op) for op in chain]
    stated = _stated(str(found.get("op") or ""))
    if stated:
        called = {_stem(op) for op in chain}
        called |= {_ALIASES[op] for op in called & _ALIASES.keys()}
        if stated & called:
            return True
        own = chain[-1].startswith("aten::") and roles[-1] in _SIMPLE
        return False if own and not stated & _HELPS else None
    if found.role in _MATMULS:
        return True if _MATMULS & set(roles) else False if roles[-1] in _SIMPLE else None
    return True if found.role in roles and found.role != "other" else None


def _stated(text: str) -> set[str]:
    """`aten::fill_ / zero_` -> {fill, zero}; empty unless the name is that of one ATen op."""
    if not text.startswith("aten::"):
        return set()
    return {_stem(part) for part in _WORD.findall(text)}


def sizes_fit(kernel: str, grid: Sequence[int], block: Sequence[int], call: OpCall) -> bool | None:
    """Whether the grid of an elementwise loop is that of the op's sizes; None for other kernels."""
    loop = _LOOP.search(kernel[:_PREFIX])
    shapes = [tensor.dims for tensor in call.every_tensor() if tensor.dims]
    if not loop or not shapes or not grid or not block or role_of_op(call.name) != "pointwise":
        return None
    whole = map(max, zip_longest(*map(reversed, shapes), fillvalue=1))
    elements, blocks, threads = math.prod(whole), math.prod(grid), math.prod(block)
    return any(blocks == -(-elements // (threads * work)) for work in _WORK[loop[1]])


def _stem(op: str) -> str:
    return op.rpartition("::")[2].split(".")[0].strip("_").removesuffix("_out")


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
    if len(distinct(gpu.lane[replay.rows])) == 1:
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
