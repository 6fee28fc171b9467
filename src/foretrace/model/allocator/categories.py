"""What each allocation is: a parameter, a gradient, an activation, a workspace, and so on.

Names that the recording program gave decide. Without them the pass of the allocation and of its
release do: what the backward pass allocates and leaves behind is a gradient, what the forward pass
allocates and the backward pass frees is an activation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from foretrace.model.allocator.lifetimes import Lifetimes, Marked, stable_order
from foretrace.model.allocator.stacks import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, StackFacts
from foretrace.schema.snapshot import NO_STACK, History, Numbers, Snapshot

CATEGORIES = (
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "inputs",
    "temporaries",
    "workspaces",
    "CUDA graph pool",
    "kept",
    "unknown",
)
(
    PARAMETER,
    GRADIENT,
    STATE,
    ACTIVATION,
    INPUT,
    TEMPORARY,
    WORKSPACE,
    GRAPH,
    KEPT,
    UNKNOWN,
) = range(len(CATEGORIES))
_KINDS = {"parameter": PARAMETER, "buffer": PARAMETER, "gradient": GRADIENT, "optimizer": STATE}
_KINDS |= {"unknown": UNKNOWN}  # what was there before a trace
# tensors of state for each parameter
_STATES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 1, "RMSprop": 1}
GROWTHS = 8  # fewer may be chance
# what cuBLAS takes for a stream: on Hopper and newer, and before
_CUBLAS_BYTES = (33_554_432, 8_519_680)
_CUBLASLT_BYTES = 1_048_576  # what cuBLASLt takes; other tensors may be as large


def categories(
    snapshot: Snapshot, history: History, lives: Lifetimes, facts: StackFacts
) -> Numbers:
    """The category of each allocation."""
    ran, module = facts.ran[lives.stack], facts.in_module[lives.stack]
    found = np.full(len(lives), UNKNOWN)
    inside = _Order(lives, ran, facts, history.failed_at)
    _forward(found, lives, ran, module, inside)
    found[facts.builds[lives.stack] & lives.kept & ~module & (ran == OUTSIDE)] = PARAMETER
    backward = ~lives.before & (ran == BACKWARD)
    left = (lives.end > inside.next_other) | facts.drops[lives.freed_by]
    found[backward] = np.where(left, GRADIENT, TEMPORARY)[backward]
    optimizer = ~lives.before & (ran == OPTIMIZER)
    found[optimizer] = np.where(lives.end < inside.next_forward, TEMPORARY, STATE)[optimizer]
    if not inside.trains:
        found[~lives.before & grows(lives, facts)] = KEPT
    _workspaces(found, lives, facts, ran)
    _before(found, snapshot, history, lives, facts)
    found[_in_graph_pool(snapshot, history.device, lives)] = GRAPH
    _owned(found, snapshot, lives)
    return found


class _Order:
    """For each allocation the events that come next: of the passes, and of a model's first call."""

    def __init__(self, lives: Lifetimes, ran: Numbers, facts: StackFacts, failed_at: int) -> None:
        start = np.where(lives.before, -1, lives.start)
        self.next_forward = _next(start, lives, ran == FORWARD)
        self.next_backward = _next(start, lives, ran == BACKWARD)
        self.next_other = _next(start, lives, (ran == FORWARD) | (ran == OPTIMIZER))
        self.trains = bool((ran == BACKWARD).any())
        self.pass_end = _pass_end(lives, ran, facts.inner[lives.stack])
        over = lives.start[((ran == BACKWARD) | (ran == OPTIMIZER)) & ~lives.before]
        self.last_pass = int(over.max()) if len(over) else 0  # the forward pass that goes on
        self.failed_at = failed_at


def _next(start: Numbers, lives: Lifetimes, wanted: Marked) -> Numbers:
    """The first start of a wanted allocation after each start; the number of events where none."""
    starts = np.append(np.sort(lives.start[wanted & ~lives.before]), lives.events)
    return starts[np.searchsorted(starts[:-1], start, side="right")]


def _pass_end(lives: Lifetimes, ran: Numbers, inner: Numbers) -> Numbers:
    """The last allocation of the forward pass that each row belongs to.

    A pass starts where the stack of the first allocation of all passes comes again.
    """
    rows = np.flatnonzero((ran == FORWARD) & ~lives.before)
    if not len(rows):
        return lives.start
    begins = rows[inner[rows] == inner[rows[0]]]
    last = lives.start[np.append(rows[np.searchsorted(rows, begins[1:]) - 1], rows[-1])]
    at = np.searchsorted(lives.start[begins], lives.start, side="right") - 1
    return np.asarray(last[np.maximum(at, 0)])


def _forward(
    found: Numbers, lives: Lifetimes, ran: Numbers, module: Marked, inside: _Order
) -> None:
    """What the forward pass and the lines around it allocate."""
    made = ~lives.before & ((ran == FORWARD) | (ran == OUTSIDE))
    into_backward = lives.end > inside.next_backward
    # without a backward pass: what outlives the forward pass is held for one that never comes
    held = into_backward if inside.trains else module & (lives.end > inside.pass_end)
    ahead = ~module & (inside.next_forward < inside.next_backward)
    found[made] = TEMPORARY
    found[made & held] = ACTIVATION
    found[made & ahead & into_backward] = INPUT
    if not inside.trains:
        found[made & ~module & (lives.end > inside.pass_end)] = KEPT
    found[made & lives.kept] = KEPT
    if inside.failed_at < lives.events:  # the pass that ran out of memory holds its activations
        unfreed = lives.end >= inside.failed_at
        found[made & module & unfreed & (lives.start >= inside.last_pass)] = ACTIVATION


def grows(lives: Lifetimes, facts: StackFacts) -> Marked:
    """Allocations of a line that takes a little more each time: a cache that is copied to grow."""
    order = stable_order(lives.stack)  # they are in order of their start
    stack, size = lives.stack[order], lives.size[order]
    same = stack[1:] == stack[:-1]
    count = len(facts.ran)
    up = np.bincount(stack[1:][same & (size[1:] > size[:-1])], minlength=count)
    down = np.bincount(stack[1:][same & (size[1:] < size[:-1])], minlength=count)
    grown = (up >= GROWTHS) & (up > GROWTHS * down) & (facts.ran != BACKWARD)
    return np.asarray(grown[lives.stack])


def _workspaces(found: Numbers, lives: Lifetimes, facts: StackFacts, ran: Numbers) -> None:
    """What a library keeps for itself: named by C++ frames, else known by its size."""
    named = facts.workspace[lives.stack] & ~lives.before
    sized = lives.kept & np.isin(lives.size, _CUBLAS_BYTES) & (ran != OPTIMIZER)
    found[named | sized & (found != PARAMETER)] = WORKSPACE


def _before(
    found: Numbers, snapshot: Snapshot, history: History, lives: Lifetimes, facts: StackFacts
) -> None:
    """What was live when the history began: told by the sizes of the gradients.

    A parameter is as large as its gradient, and an optimizer keeps one or two tensors of that size.
    """
    rows = np.flatnonzero(lives.before)
    found[rows] = np.where(facts.drops[lives.freed_by[rows]], GRADIENT, PARAMETER)
    # a block keeps its stack where an earlier history saw it
    ran = np.where(lives.stack[rows] == NO_STACK, OUTSIDE, facts.ran[lives.stack[rows]])
    found[rows[ran == BACKWARD]], found[rows[ran == OPTIMIZER]] = GRADIENT, STATE
    gradients, states = _gradients_of_a_step(lives, found), _states(snapshot)
    held = rows[(found[rows] == PARAMETER) & lives.kept[rows]]
    for size, count in gradients.items():
        same = held[lives.size[held] == size]
        found[same[count : count + states * count]] = STATE
        held = np.setdiff1d(held, same[: count + states * count])
    if gradients:  # what is left has no gradient, and so is no parameter that is trained
        known = np.isin(lives.size[held], (*_CUBLAS_BYTES, _CUBLASLT_BYTES))
        found[held[known]] = WORKSPACE
    if not gradients and facts.optimizes:
        found[held] = UNKNOWN  # a step that leaves no gradient: they may be held as well
    loose = rows[(found[rows] == PARAMETER) & ~lives.kept[rows]]
    found[loose] = ACTIVATION if gradients else TEMPORARY


def _gradients_of_a_step(lives: Lifetimes, found: Numbers) -> Counter[int]:
    """How many gradients of each size one backward pass leaves."""
    rows = np.flatnonzero((found == GRADIENT) & ~lives.before)
    if not len(rows):
        return Counter(lives.size[found == GRADIENT].tolist())
    ends = lives.end[rows]
    # the gradients of one step are live together: those at the first release, or at the end
    together = rows[(lives.start[rows] < ends.min()) & (ends >= ends.min())]
    return Counter(lives.size[together].tolist())


def _states(snapshot: Snapshot) -> int:
    names = {mark.name.split("#")[-1].split(".")[0] for mark in snapshot.marks}
    known = [count for name, count in _STATES.items() if name in names]
    return max(known, default=2)


def _in_graph_pool(snapshot: Snapshot, device: int, lives: Lifetimes) -> Marked:
    pools = [each for each in snapshot.segments if each.graph and each.device == device]
    found = np.zeros(len(lives), np.bool_)
    for segment in pools:
        found |= (segment.addr <= lives.addr) & (lives.addr < segment.addr + segment.size)
    return found & lives.kept


def _owned(found: Numbers, snapshot: Snapshot, lives: Lifetimes) -> None:
    """The names that the program gave to what is live at the end."""
    kinds = {owner.addr: _KINDS.get(owner.kind, KEPT) for owner in snapshot.owners}
    if kinds:
        for row in np.flatnonzero(lives.kept).tolist():
            found[row] = kinds.get(int(lives.addr[row]), found[row])


def by_category(size: Numbers, category: Numbers, rows: Sequence[int] | Numbers) -> dict[str, int]:
    """Bytes of the rows in each category, largest first."""
    total = np.bincount(category[rows], weights=size[rows], minlength=len(CATEGORIES))
    order = np.argsort(-total, kind="stable")
    return {CATEGORIES[at]: int(total[at]) for at in order.tolist() if total[at]}
