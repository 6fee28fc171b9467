"""The join of graph replays with the captures of their graphs, node by node.

What is launched between the begin and the end of one capture, on one thread, becomes the nodes of
one graph (`CaptureWindow`). A `GraphReplay` is one launch of a graph: its GPU work in the order of
the nodes where the trace numbers them, otherwise of its start. `docs/how-to-graphs.md` has the
checks. Captures on NVIDIA's cards do not say which kernel a call launches. There a matmul's kernel
under an op that computes none, or the loop of one ATen op under another op, proves that the order
is wrong. A helper (a fill, a copy, a sum of partial results, a transpose) can be any op's.

Where several windows remain that would give a kernel different answers, it stays unlinked: a false
link is worse than none. The innermost range around a call that states a batch size counts. vLLM:
`capture_32_FULL`, `execute_32_context_0(…)_generation_32(…)`. SGLang: `capture_32_DECODE`,
`step[DECODE bs=32]`. One's own: `capture bs=8`, `decode bs=8`.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import counted, distinct, filled
from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.base.units import plural
from foretrace.read import captures as found_in
from foretrace.read.captures import CaptureFile
from foretrace.read.ledger import CODES, LedgerBuilder, Note
from foretrace.trace.arguments import Signature
from foretrace.trace.host import BEGINS_CAPTURE, COPIES, ENDS_CAPTURE
from foretrace.trace.intervals import Ints, split_by
from foretrace.trace.module_calls import PREFIX
from foretrace.trace.recording import Captured, Recording
from foretrace.trace.serving import served_batch
from foretrace.work import families
from foretrace.work.costs import OpCall
from foretrace.work.families import role_of_op

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
    begins = np.flatnonzero(host.is_call & host.named(BEGINS_CAPTURE.fullmatch) & host.lasting)
    ends = np.flatnonzero(host.is_call & host.named(ENDS_CAPTURE.fullmatch) & host.lasting)
    made = host.is_call & (host.is_launch | host.named(COPIES.fullmatch)) & host.lasting
    made[capture.gpu.launch[capture.gpu.launch >= 0]] = False
    nodes = np.flatnonzero(made & ~host.is_graph_launch)
    written = dict(capture.tables["launches"].select("event", "kernel").iter_rows())
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
            called = [host.names[host.name[event]] for event in inside.tolist()]
            copies = [FILL if "memset" in call.lower() else COPY for call in called]
            pairs = zip(called, copies, strict=True)
            kinds = tuple(copy if COPIES.fullmatch(call) else KERNEL for call, copy in pairs)
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
    found = []
    for rows in split_by(gpu.launch[launched[order]], launched[order]):
        kinds = np.where(gpu.is_kernel[rows], KERNEL, np.where(gpu.is_memcpy[rows], COPY, FILL))
        names = tuple(host.names[number] for number in host.name[gpu.id[rows]].tolist())
        found.append(GraphReplay(tuple(kinds.tolist()), names, int(gpu.launch[rows[0]]), rows))
    return found


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


_MATMULS = frozenset({"gemm", "gemv", "conv", "attention"})
# what an op of these roles launches never multiplies matrices
_SIMPLE = frozenset({"pointwise", "copy", "softmax", "random"})
_HELPS = frozenset({"copy", "fill", "zero", "contiguous", "clone", "sum"})
# ops that run another op's loop
_ALIASES = {"sub": "add", "rsub": "add", "relu": "clamp_min", "clamp": "clamp_min"}
# elements of one thread in ATen's elementwise loops, by the vector width in the name
_WORK = {"<2": (4,), "<4": (4, 8), "<8": (8,), "<": (4,)}
_WORD = regex(r"\w+(?:::\w+)?")
_LOOP = regex(r"(?:vectorized|unrolled)_elementwise_kernel(<[248]?)")


def fits(kernel: str, chain: Sequence[str]) -> bool | None:
    """True: kernel and op say the same. False: they contradict each other. None: neither."""
    if not chain:
        return None
    found, roles = families.decode(kernel), [role_of_op(op) for op in chain]
    named = str(found.get("op") or "")  # `aten::fill_ / zero_` is the name of one ATen op
    if named.startswith("aten::"):
        stated = {_stem(part) for part in _WORD.findall(named)}
        called = {_stem(op) for op in chain}
        called |= {_ALIASES[op] for op in called & _ALIASES.keys()}
        if stated & called:
            return True
        own = chain[-1].startswith("aten::") and roles[-1] in _SIMPLE
        return False if own and not stated & _HELPS else None
    if found.role in _MATMULS:
        return True if _MATMULS & set(roles) else False if roles[-1] in _SIMPLE else None
    return True if found.role in roles and found.role != "other" else None


def sizes_fit(kernel: str, grid: Sequence[int], block: Sequence[int], call: OpCall) -> bool | None:
    """Whether the grid of an elementwise loop is that of the op's sizes; None for other kernels."""
    loop = _LOOP.search(kernel[:200])  # the loop's name stands at the front
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
        if in_turn:
            mine, theirs = replay.words, window.words
            first, last = _common(mine, theirs), _common(mine[::-1], theirs[::-1])
            forward, backward = np.full((2, len(mine)), -1, np.int64)
            forward[:first] = np.arange(first)
            backward[len(mine) - last :] = np.arange(len(theirs) - last, len(theirs))
            differ = (forward >= 0) & (backward >= 0) & (forward != backward)
            places = np.where(differ, -1, np.maximum(forward, backward))
            few = (places >= 0).sum() < MOSTLY * max(len(mine), len(theirs))
            return "its kernels are not those of the replay" if few else places
        # Branches of a graph run in any order: only a name with one meaning tells its node.
        by_word, nodes_of = _places(replay.words), _places(graph.window.words)
        if {w: len(at) for w, at in by_word.items()} != {w: len(at) for w, at in nodes_of.items()}:
            return "its kernels are not those of the replay"
        places = np.full(len(replay.rows), -1, np.int64)
        for word, nodes in nodes_of.items():
            if all(graph.identities[node] == graph.identities[nodes[0]] for node in nodes[1:]):
                places[by_word[word]] = nodes
        return places
    if len(replay.kinds) != len(window.kinds):
        return f"its graphs have {len(window.kinds):,} nodes, the replay has {len(replay.kinds):,}"
    if replay.kinds != window.kinds:
        return "copies and kernels come in another order than in the replay"
    if not in_turn:
        return "the replay runs on several streams, and nothing numbers its nodes"
    # Without names the order holds if no kernel contradicts its op, and no grid its sizes
    kernels = [at for at, kind in enumerate(replay.kinds) if kind == KERNEL]
    answers = {at: fits(replay.names[at], graph.chains[at]) for at in kernels}
    wrong = [at for at, answer in answers.items() if answer is False]
    if True not in answers.values() or len(wrong) > TOLERATED * len(kernels):
        return "its ops do not fit the kernels of the replay"
    side = trace.tables["gpu"].select("grid", "block")[trace.gpu.side_row[replay.rows]]
    grids, blocks = side["grid"].to_list(), side["block"].to_list()
    rows = zip(replay.names, grids, blocks, graph.calls, strict=True)
    sizes = [sizes_fit(name, grid, block, call) for name, grid, block, call in rows if call]
    if sizes.count(False) > TOLERATED_SIZES * (len(sizes) - sizes.count(None)):
        return "it was captured with other sizes than the replay has"
    places = np.arange(len(replay.rows))
    places[wrong] = -1
    return places


def _is_in_turn(trace: Recording, replay: GraphReplay) -> bool:
    """Whether the order of the rows is that of the nodes: numbered, or all on one stream."""
    gpu = trace.gpu
    if len(distinct(gpu.lane[replay.rows])) == 1:
        return True
    nodes = trace.tables["gpu"]["graph_node"][gpu.side_row[replay.rows]]
    return nodes.null_count() == 0 and nodes.n_unique() == len(nodes)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many of the first words are the same."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (x, y) in pairs if x != y), min(len(a), len(b)))


def _places(words: Sequence[str]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(words):
        found[word].append(at)
    return found


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
        stated = batch_sizes(trace, np.array([each.launch for each in self.replays], np.int64))
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
        rows = self.trace.gpu.side_row[[each.rows[0] for each in equal]].tolist()
        column = self.trace.tables["gpu"]["graph_id"]
        ids = [(column[row] if row >= 0 else None) or 0 for row in rows]
        known = sorted(set(ids))
        if known[0] > 0:
            return [known.index(each) for each in ids] if len(known) == count else None
        host = self.trace.host
        launches = np.array([each.launch for each in equal], np.int64)
        around = host.nearest(launches, host.is_step | (host.is_region & host.named(size_in)))
        order = np.lexsort((host.start[launches], around))
        groups, sizes = counted(around)
        if groups[0] < 0 or (sizes != count).any():
            return None
        turn = np.empty(len(equal), np.int64)
        turn[order] = np.tile(np.arange(count), len(groups))
        return list(turn.tolist())

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


LISTED = 5  # files that are named
LEFT_OUT = "capture_left_out"


def join_captures(
    trace: Recording,
    found: Sequence[CaptureFile],
    folder: str | None,
    read: Callable[[str], Recording],
) -> None:
    """Read the captures that may belong to the graphs of a trace, and link what fits. A trace may
    hold the captures of its own graphs.
    """
    launched = np.array([each.launch for each in replays(trace)], np.int64)
    own = [(CaptureFile("this trace", None, None), trace)] if len(trace.host.captures.start) else []
    if not len(launched) or not (found or own):
        why = "holds no trace" if len(launched) else "is not needed: no graph is replayed here"
        _note(trace, [f"{os.path.basename(os.path.abspath(folder))} {why}"] if folder else [])
        return
    sizes = batch_sizes(trace, launched)
    files = found_in.chosen(found, sizes, trace.about.rank)
    opened, problems = _opened(files[: found_in.MOST], read)
    if len(files) > found_in.MOST:
        problems.append(f"{len(files) - found_in.MOST:,} more files are not read")
    opened = own + opened
    made = Join(trace, [each for _, each in opened], [file.size for file, _ in opened])
    trace.captures = tuple(each for _, each in opened)
    trace.captured = Captured(made.capture, made.launch)
    names = [os.path.basename(file.path) for file, _ in opened]
    _conclude(trace, made, names, problems)


def _opened(
    files: Sequence[CaptureFile], read: Callable[[str], Recording]
) -> tuple[list[tuple[CaptureFile, Recording]], list[str]]:
    opened, problems = [], []
    for file in files:
        try:
            capture = read(file.path)
            opened.append((file, capture))
            problem = capture.ledger.gap
        except TraceError as refused:
            problem = refused.message
        if problem:
            problems.append(f"{os.path.basename(file.path)}: {problem}")
    return opened, problems


def _conclude(trace: Recording, made: Join, names: Sequence[str], problems: list[str]) -> None:
    """What was linked, what was not, and which files were of no use."""
    rows = sum(len(each.rows) for each in made.replays)
    linked, notes = int((made.launch >= 0).sum()), LedgerBuilder()
    whole = f"{plural(rows, 'replayed GPU event')}"
    notes.note("captured", linked, f"{linked:,} of {whole} have the op of their graph's capture")
    text = f"{rows - linked:,} of {whole} fit no capture of their graph: their ops are unknown"
    notes.note("capture_mismatch", rows - linked, text)
    if linked < rows:
        said = {problem.partition(": ")[0] for problem in problems}
        unused = [place for place in range(len(names)) if place not in made.used]
        problems += [f"{names[at]}: {made.why(at)}" for at in unused if names[at] not in said]
    trace.ledger = trace.ledger.with_notes(notes.freeze().notes)
    _note(trace, problems)


def _note(trace: Recording, problems: Sequence[str]) -> None:
    """One note per file, for the first few."""
    shown = list(problems[:LISTED])
    if len(problems) > LISTED:
        shown.append(f"and {len(problems) - LISTED:,} more")
    notes = [Note(LEFT_OUT, CODES[LEFT_OUT][0], 1, text) for text in shown]
    trace.ledger = trace.ledger.with_notes(tuple(notes))
