"""What every memory fix needs: how it is declared, what it proposes, and the lives that it changes.

`grows_with_batch` tells what grows with the batch, `weight_copies` what only copies weights, and
`repeated_call` finds the repeated blocks of a model by the line that calls them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, wraps

import numpy as np
from msgspec import Struct

from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import (
    ACTIVATION,
    BACKWARD,
    FORWARD,
    INPUT,
    OPTIMIZER,
    PARAMETER,
    TEMPORARY,
)
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers

# what a fix costs the user; a cheaper one comes first, however little it brings
FREE, TIME, NUMBERS = range(3)
# of the repeated blocks of a model
LEAST_BLOCKS = 3
MOST = 0.7  # of the bytes below the outermost line: the rest is what its own lines add
EVEN = 0.5  # of the bytes of a step: a block that has more is no repeated one
SHARE = 0.9  # of the bytes: the rest is what only the first or the last block has


class NewLives(Struct):
    """Lifetimes and sizes that a fix may change, one row for each allocation."""

    start: Numbers
    end: Numbers
    size: Numbers


class MemoryProposal(Struct, frozen=True):
    """A change that a user can make: what to do, what was seen, what it costs, and the new lives.

    `rows` are the allocations that it is about. Where the peak stays and only what is reserved
    falls, `reserved` holds the new bytes. `costs` is set where it is more than that of its fix.
    """

    order: str
    why: str
    write: str
    lives: NewLives
    rows: Numbers
    cost: str = ""
    reserved: int | None = None
    costs: int = FREE


Found = Iterator[MemoryProposal]


class MemoryFix(Struct, frozen=True):
    """One kind of change; the docstring of its function is the manual.

    `costs` is nothing, time, or numbers that come out otherwise.
    """

    name: str
    title: str
    find: Callable[[MemoryView], Iterable[MemoryProposal]]
    costs: int = FREE


class PeakPlan:
    """A view under one fix, and the lives as they would be."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view

    @cached_property
    def new(self) -> NewLives:
        """The lives of the view, to be changed."""
        lives = self.view.lives
        return NewLives(lives.start.copy(), lives.end.copy(), lives.size.copy())

    def at_peak(self, rows: Numbers) -> tuple[Numbers, str]:
        """Those of these rows that are live at the peak, and their bytes in words."""
        held = np.intersect1d(rows, self.view.holders)
        return held, bytes_text(int(self.view.lives.size[held].sum()))

    def proposal(
        self, order: str, why: str, write: str, rows: Numbers, cost: str = "", costs: int = FREE
    ) -> MemoryProposal:
        """What to do, with the lives as they are then."""
        return MemoryProposal(order, why, write, self.new, rows, cost, costs=costs)


def memory_fix(title: str, costs: int = FREE) -> Callable[[Callable[[PeakPlan], Found]], MemoryFix]:
    """Declare a function as the fix of its name."""

    def declared(find: Callable[[PeakPlan], Found]) -> MemoryFix:
        @wraps(find)
        def found(view: MemoryView) -> Found:
            return find(PeakPlan(view))

        return MemoryFix(find.__name__, title, found, costs)

    return declared


def grows_with_batch(view: MemoryView) -> Numbers:
    """Activations, inputs and temporaries, less copies of weights and passing gradients."""
    kinds = np.isin(view.category, (ACTIVATION, INPUT, TEMPORARY)) & (view.ran != OPTIMIZER)
    rows = np.flatnonzero(kinds & ~view.lives.before)
    passing = _as_often_as_weights(view, rows[view.ran[rows] == BACKWARD], (1, 2))
    return np.setdiff1d(rows, np.concatenate([weight_copies(view), passing]))


def weight_copies(view: MemoryView) -> Numbers:
    """The copies that autocast makes of weights: half a parameter each, in the forward pass."""
    made = (view.ran == FORWARD) & np.isin(view.category, (ACTIVATION, TEMPORARY))
    return _as_often_as_weights(view, np.flatnonzero(made & ~view.lives.before), (2,))


def _as_often_as_weights(view: MemoryView, rows: Numbers, parts: tuple[int, ...]) -> Numbers:
    """The rows as large as a part of a weight, each step no more than there are such weights.

    An activation may be as large as a weight, so the size alone does not tell.
    """
    weights = view.lives.size[(view.category == PARAMETER) & view.lives.kept]
    wanted = Counter[int]()
    for part in parts:
        wanted.update((weights // part).tolist())
    rows = rows[np.isin(view.lives.size[rows], [*wanted])]
    size = view.lives.size[rows]
    most = np.array([wanted[each] for each in size.tolist()], np.int64)
    return np.asarray(rows[view.turns(rows, size) < most])


class RepeatedCall(Struct, frozen=True):
    """Allocations below one line that calls a module again and again; one array for each call.

    `blocks` are the calls in one step.
    """

    frame: int
    calls: list[Numbers]
    blocks: int


def repeated_call(view: MemoryView, rows: Numbers) -> RepeatedCall | None:
    """The innermost line outside torch below which most bytes were allocated in turns."""
    stack = view.lives.stack[rows]
    callers: dict[int, list[int]] = defaultdict(list)  # the stacks below each line
    depth: dict[int, int] = {}
    for each in np.unique(stack).tolist():
        for at, frame in enumerate(view.facts.calls[each]):
            if "/torch/" not in view.snapshot.frames[frame].file:
                callers[frame].append(each)
                depth[frame] = max(depth.get(frame, 0), at)
    found = {frame: rows[np.isin(stack, stacks)] for frame, stacks in callers.items()}
    found = {frame: below for frame, below in found.items() if _repeats(view, below)}
    sizes = {frame: int(view.lives.size[below].sum()) for frame, below in found.items()}
    most = MOST * max(sizes.values(), default=0)
    for frame in sorted(found, key=lambda each: -depth[each]):
        if sizes[frame] >= most:
            turns = _turns(view, rows, found[frame], frame)
            return turns if turns is not None and _is_even(view, turns) else None
    return None


def _is_even(view: MemoryView, found: RepeatedCall) -> bool:
    """Whether there are several blocks, and none holds most of a step by itself.

    A line that allocates three tensors in one call looks like three calls.
    """
    sizes = [int(view.lives.size[call].sum()) for call in found.calls]
    step = sum(sizes) * found.blocks / len(sizes)
    return found.blocks >= LEAST_BLOCKS and max(sizes) <= EVEN * step


def _repeats(view: MemoryView, below: Numbers) -> bool:
    """Whether nearly all bytes below a line come from stacks that each step has several times."""
    number = view.step_of(view.lives.start[below])
    inner = view.facts.inner[view.lives.stack[below]]
    _, at, count = np.unique(inner, return_inverse=True, return_counts=True)
    often = (count >= LEAST_BLOCKS * len(np.unique(number)))[at]
    size = view.lives.size[below]
    return bool(size[often].sum() >= SHARE * size.sum())


def _turns(view: MemoryView, rows: Numbers, below: Numbers, frame: int) -> RepeatedCall | None:
    """Cut the rows into the calls of a line.

    What the line itself allocates (`x + block(x)`) ends a call. Else a call starts with the stack
    that comes least often, yet often enough.
    """
    inner, stack = view.facts.inner, view.lives.stack
    owning = [each for each in np.unique(stack[rows]).tolist() if _is_own(view, each, frame)]
    own = rows[np.isin(stack[rows], owning)]
    steps = len(np.unique(view.step_of(view.lives.start[below])))
    if len(own) >= (LEAST_BLOCKS - 1) * steps:
        every = np.union1d(below, own)
        number = view.step_of(view.lives.start[every])
        edges = np.union1d(np.searchsorted(every, own) + 1, np.flatnonzero(np.diff(number)) + 1)
        parts = [part for part in np.split(every, edges) if len(part)]
        return RepeatedCall(frame, parts, round(len(parts) / steps))
    numbers, at, count = np.unique(inner[stack[below]], return_index=True, return_counts=True)
    often = np.flatnonzero(count >= LEAST_BLOCKS * steps)
    if not len(often):
        return None
    first = numbers[often[np.lexsort((at[often], count[often]))[0]]]
    edges = np.flatnonzero(inner[stack[below]] == first)
    parts = np.split(below, edges)[1:]
    return RepeatedCall(frame, parts, round(len(parts) / steps))


def _is_own(view: MemoryView, stack: int, frame: int) -> bool:
    """Whether the line itself allocates: the frame is innermost but for torch's and C++'s."""
    frames = view.snapshot.frames
    outside = (
        at
        for at in view.snapshot.stacks[stack]
        if frames[at].file.endswith(".py") and "/torch/" not in frames[at].file
    )
    return next(outside, -1) == frame and frame not in view.facts.calls[stack]


def line_of(view: MemoryView, frame: int) -> str:
    """`model.py:44` of a frame."""
    found = view.snapshot.frames[frame]
    return f"{found.file.rsplit('/', 1)[-1]}:{found.line}"
