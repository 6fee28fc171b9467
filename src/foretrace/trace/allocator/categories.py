"""What each allocation is: a parameter, a gradient, an activation, a workspace, and so on.

Names that the recording program gave decide. Without them the pass of the allocation and of its
release do: what the backward pass allocates and leaves behind is a gradient, what the forward pass
allocates and the backward pass frees is an activation.

What a stack tells about an allocation: the pass it ran in, and the line to look at.

When each allocation was made and freed, and how many bytes were live after each event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import Bools
from foretrace.base.patterns import regex
from foretrace.read.snapshot import (
    ALLOC,
    FREE,
    NO_STACK,
    History,
    Numbers,
    Snapshot,
    StackFrame,
)

BEFORE = -1  # the start of what was allocated before the history begins


class Lifetimes(Struct, frozen=True):
    """One row for each allocation, in order of its start.

    `start` and `end` are numbers of events; `end` is the number of events where nothing freed it.
    An allocation is live from its start up to, not with, its end. `freed_by` is the stack that
    freed it.
    """

    events: int
    addr: Numbers
    size: Numbers
    start: Numbers
    end: Numbers
    stack: Numbers
    freed_by: Numbers

    def __len__(self) -> int:
        return len(self.addr)

    @property
    def before(self) -> Bools:
        """Those that were live when the history began."""
        return np.equal(self.start, BEFORE)

    @property
    def kept(self) -> Bools:
        """Those that nothing freed."""
        return np.equal(self.end, self.events)

    def live_at(self, event: int) -> Numbers:
        """The rows of what is live after an event."""
        return np.flatnonzero((self.start <= event) & (event < self.end))

    def curve(self) -> Numbers:
        """Live bytes after each event."""
        change = np.zeros(self.events + 2, np.int64)
        np.add.at(change, self.start + 1, self.size)
        np.add.at(change, self.end + 1, -self.size)
        return np.cumsum(change)[1 : self.events + 1] if self.events else change[:1]


def lifetimes(snapshot: Snapshot, history: History) -> Lifetimes:
    """Pair each allocation with the release of the same address that follows it."""
    count, action = len(history), history.action
    rows = np.flatnonzero((action == ALLOC) | (action == FREE))
    order = rows[stable_order(history.addr[rows])]
    is_new = np.diff(history.addr[order], prepend=-1) != 0  # the first event of its address
    following = np.full(count, count)  # the next event of the address, where there is one
    following[order[:-1]] = np.where(is_new[1:], count, order[1:])
    made = np.flatnonzero(action == ALLOC)
    # a second allocation of an address ends the first: its release was not recorded
    end = following[made]
    freed_by = np.append(history.stack, NO_STACK)[end]
    first = order[is_new]
    freed = first[action[first] == FREE]  # never allocated
    # the live blocks that no event of the history allocated: address, size and stack
    known = set(history.addr[made[end == count]].tolist())
    blocks = [
        (block.addr, block.requested, block.stack)
        for segment in snapshot.segments
        if segment.device == history.device
        for block in segment.blocks
        if block.is_live and block.addr not in known
    ]
    held = np.array(blocks, np.int64).reshape(-1, 3).T
    never, nobody = np.full(len(held[0]), count), np.zeros(len(held[0]), np.int64)
    unknown = np.zeros(len(freed), np.int64)
    by_addr = np.argsort(np.concatenate([history.addr[freed], held[0]]), kind="stable")

    def column(freed: Numbers, held: Numbers, made: Numbers) -> Numbers:
        """What was there before the history by address, then the rest by its start."""
        return np.concatenate([np.concatenate([freed, held])[by_addr], made])

    return Lifetimes(
        count,
        column(history.addr[freed], held[0], history.addr[made]),
        column(history.size[freed], held[1], history.size[made]),
        np.concatenate([np.full(len(by_addr), BEFORE), made]),
        column(freed, never, end),
        column(unknown, held[2], history.stack[made]),
        column(history.stack[freed], nobody, freed_by),
    )


def stable_order(keys: Numbers) -> Numbers:
    """The order of numbers from zero up, ties as they come.

    A number and its place fit into one word as a rule, and to sort words is five times as fast.
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    least, places = int(keys.min()), len(keys).bit_length()
    if (int(keys.max()) - least).bit_length() + places > 63:
        return np.argsort(keys, kind="stable")
    packed = ((keys - least) << places) | np.arange(len(keys))
    packed.sort()
    packed &= (1 << places) - 1
    return packed


# the pass of an allocation
FORWARD, BACKWARD, OPTIMIZER, OUTSIDE = range(4)
PASSES = ("forward pass", "backward pass", "optimizer step", "outside the model")
OPTIMIZER_STEP = "Optimizer.step#"
BACKWARD_LINE = "backward pass (autograd's thread has no Python stack)"
BEFORE_LINE = "before the history began"
MODULE_CALLS = ("_wrapped_call_impl", "_call_impl")
# functions that make a model, or move it to a device
_BUILDS = frozenset(
    ("__init__", "_apply", "reset_parameters", "from_pretrained", "load_state_dict", "to_empty")
)
_PACKAGES = ("/site-packages/", "/dist-packages/")
_ENGINE = ("torch::autograd::Engine", "torch::autograd::Node", "torch::autograd::python::Python")
_NODE = regex(r"::(\w+Backward\d*)(?:::|_)apply")  # of autograd's graph
_OVERWRITES = ("/torch/_functorch/", "/torch/autograd/function.py")


class StackFacts(Struct, frozen=True):
    """One entry for each stack of a snapshot.

    `line` is a number of `lines`. `inner` is equal where the frames inside the model are equal,
    whatever called the model. `calls` are the numbers of frames that call a module, outermost
    first. `words` are the functions of the stack. `builds` marks those that
    make a model, `drops` those of `zero_grad`. `optimizes` are the times of the optimizer's steps.
    """

    ran: Numbers
    line: Numbers
    lines: Sequence[str]
    in_module: Bools
    workspace: Bools
    builds: Bools
    drops: Bools
    optimizes: Sequence[int]
    inner: Numbers
    words: Sequence[frozenset[str]]
    calls: Sequence[tuple[int, ...]]


def stack_facts(snapshot: Snapshot) -> StackFacts:
    """Read every stack once."""
    frames = snapshot.frames
    kinds = [frame_kind(frame) for frame in frames]
    told = any(stack for stack in snapshot.stacks)
    lines: dict[str, int] = {}
    ran, line, words, calls = [], [], [], []
    for stack in snapshot.stacks:
        each = [frames[at] for at in stack]
        passed = _pass(each, told)
        ran.append(passed)
        line.append(lines.setdefault(_line(each, [kinds[at] for at in stack], passed), len(lines)))
        words.append(frozenset(frame.name for frame in each))
        calls.append(_module_calls(stack, each))
    return StackFacts(
        np.array(ran, np.int64),
        np.array(line, np.int64),
        list(lines),
        np.array(["_call_impl" in each for each in words], np.bool_),
        np.array([any("orkspace" in name for name in each) for each in words], np.bool_),
        np.array([not _BUILDS.isdisjoint(each) for each in words], np.bool_),
        np.array(["zero_grad" in each for each in words], np.bool_),
        [m.time_us for m in snapshot.marks if m.is_start and m.name.startswith(OPTIMIZER_STEP)],
        _inner(snapshot.stacks, calls),
        words,
        calls,
    )


def _pass(stack: Sequence[StackFrame], told: bool) -> int:
    """The pass of a stack; autograd's own thread has no Python frame."""
    if not stack:
        return BACKWARD if told else OUTSIDE
    names = {frame.name for frame in stack}
    if any("/torch/optim/" in frame.file for frame in stack):
        return OPTIMIZER
    if any(frame.name.startswith(_ENGINE) for frame in stack) or "unpack_hook" in names:
        return BACKWARD
    if "backward" in names and any(part in f.file for f in stack for part in _OVERWRITES):
        return BACKWARD
    return FORWARD if "_call_impl" in names else OUTSIDE


def _module_calls(stack: tuple[int, ...], frames: Sequence[StackFrame]) -> tuple[int, ...]:
    """The frames that call a module: each is outside of a `_wrapped_call_impl` or `_call_impl`."""
    python = [
        (at, frame)
        for at, frame in zip(stack, frames, strict=True)
        if frame.file.endswith(".py") or frame.name in MODULE_CALLS
    ]
    found = [
        outer
        for (_, inner), (outer, frame) in pairwise(python)
        if inner.name in MODULE_CALLS and frame.name not in MODULE_CALLS
    ]
    return tuple(reversed(found))


def _inner(stacks: Sequence[tuple[int, ...]], calls: Sequence[tuple[int, ...]]) -> Numbers:
    """Number the stacks by their frames inside the outermost call of a module."""
    known: dict[tuple[int, ...], int] = {}
    inside = [
        stack[: stack.index(called[0])] if called else stack
        for stack, called in zip(stacks, calls, strict=True)
    ]
    return np.array([known.setdefault(part, len(known)) for part in inside], np.int64)


def frame_kind(frame: StackFrame) -> int:
    """0 for a line of the user, 1 of another library, 2 of torch and Python, 3 of C++."""
    file = frame.file
    if not file.endswith(".py"):
        return 3
    if "/torch/" in file or file.startswith("<"):
        return 2
    if any(part in file for part in _PACKAGES):
        return 1
    return 2 if "/lib/python3" in file else 0


def _line(stack: Sequence[StackFrame], kinds: Sequence[int], passed: int) -> str:
    """`model.py:88 in forward`: the innermost line outside torch, else of torch.

    Autograd's thread has no line; its C++ frames, where recorded, name the node that runs.
    """
    for most in (1, 2):
        told = (f for f, kind in zip(stack, kinds, strict=True) if kind <= most and f.line)
        if (frame := next(told, None)) is not None:
            return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line} in {frame.name}"
    op = next((frame.name for frame in stack if frame.name.startswith("aten::")), None)
    if op is not None:  # a trace without Python functions has ops alone
        return f"{op} in the {PASSES[passed]}"
    if passed != BACKWARD:
        return BEFORE_LINE
    node = next((found[1] for frame in stack if (found := _NODE.search(frame.name))), None)
    return f"{node} in the backward pass" if node else BACKWARD_LINE


CATEGORIES = (
    *("parameters", "gradients", "optimizer state", "activations", "inputs"),
    *("temporaries", "workspaces", "CUDA graph pool", "kept", "unknown"),
)
PARAMETER, GRADIENT, STATE, ACTIVATION, INPUT = range(5)
TEMPORARY, WORKSPACE, GRAPH, KEPT, UNKNOWN = range(5, 10)
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
    # What the forward pass and the lines around it allocate
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
    found[facts.builds[lives.stack] & lives.kept & ~module & (ran == OUTSIDE)] = PARAMETER
    backward = ~lives.before & (ran == BACKWARD)
    left = (lives.end > inside.next_other) | facts.drops[lives.freed_by]
    found[backward] = np.where(left, GRADIENT, TEMPORARY)[backward]
    optimizer = ~lives.before & (ran == OPTIMIZER)
    found[optimizer] = np.where(lives.end < inside.next_forward, TEMPORARY, STATE)[optimizer]
    if not inside.trains:
        found[~lives.before & grows(lives, facts)] = KEPT
    # what a library keeps for itself: named by C++ frames, else known by its size
    named = facts.workspace[lives.stack] & ~lives.before
    sized = lives.kept & np.isin(lives.size, _CUBLAS_BYTES) & (ran != OPTIMIZER)
    found[named | sized & (found != PARAMETER)] = WORKSPACE
    _before(found, snapshot, history, lives, facts)
    for segment in snapshot.segments:
        if segment.graph and segment.device == history.device:
            inside_pool = (segment.addr <= lives.addr) & (lives.addr < segment.addr + segment.size)
            found[inside_pool & lives.kept] = GRAPH
    # the names that the program gave to what is live at the end
    kinds = {owner.addr: _KINDS.get(owner.kind, KEPT) for owner in snapshot.owners}
    for row in np.flatnonzero(lives.kept).tolist() if kinds else ():
        found[row] = kinds.get(int(lives.addr[row]), found[row])
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


def _next(start: Numbers, lives: Lifetimes, wanted: Bools) -> Numbers:
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


def grows(lives: Lifetimes, facts: StackFacts) -> Bools:
    """Allocations of a line that takes a little more each time: a cache that is copied to grow."""
    order = stable_order(lives.stack)  # they are in order of their start
    stack, size = lives.stack[order], lives.size[order]
    same = stack[1:] == stack[:-1]
    count = len(facts.ran)
    up = np.bincount(stack[1:][same & (size[1:] > size[:-1])], minlength=count)
    down = np.bincount(stack[1:][same & (size[1:] < size[:-1])], minlength=count)
    grown = (up >= GROWTHS) & (up > GROWTHS * down) & (facts.ran != BACKWARD)
    return np.asarray(grown[lives.stack])


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
    gradients = _gradients_of_a_step(lives, found)
    optimizers = {mark.name.split("#")[-1].split(".")[0] for mark in snapshot.marks}
    states = max((count for name, count in _STATES.items() if name in optimizers), default=2)
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


def by_category(size: Numbers, category: Numbers, rows: Sequence[int] | Numbers) -> dict[str, int]:
    """Bytes of the rows in each category, largest first."""
    total = np.bincount(category[rows], weights=size[rows], minlength=len(CATEGORIES))
    order = np.argsort(-total, kind="stable")
    return {CATEGORIES[at]: int(total[at]) for at in order.tolist() if total[at]}
