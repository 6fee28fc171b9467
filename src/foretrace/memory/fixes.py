"""What lowers the peak of memory: one function for each fix.

A fix looks at the lifetimes of a snapshot and yields proposals: the order to the user, the
evidence, and the lifetimes as they would be. The peak of those is the prediction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.units import bytes_text, percent_text, plural
from foretrace.read.snapshot import Numbers
from foretrace.trace.allocator.categories import (
    ACTIVATION,
    BACKWARD,
    BEFORE_LINE,
    FORWARD,
    GRADIENT,
    INPUT,
    KEPT,
    OPTIMIZER,
    OPTIMIZER_STEP,
    PARAMETER,
    STATE,
    TEMPORARY,
    Lifetimes,
    grows,
)
from foretrace.trace.allocator.view import MemoryView

MOST_TIMES = 1024  # the batch; beyond that a model is not what fills the memory
WORTH = 0.03  # of the peak: less is not worth a line
# what a fix costs the user; a cheaper one comes first, however little it brings
FREE, TIME, NUMBERS = range(3)
BATCH_PARTS = 4
LEAST_STATE_BYTES = 16_384  # 4,096 values of float32: what bitsandbytes leaves as it is
PAGE = 2 << 20
LEAST_IDLE = 0.1  # of what is reserved: a smaller part is usual
LEAST_COPIED = 0.5  # of the bytes of parameters that have a copy of half their size
AHEAD = 3  # allocations that an op may still need: its input, its output, one between
FUSED = {"Adam", "AdamW", "Adagrad", "SGD"}
LOGITS_PARTS = 8
NEAR = 12  # allocations: the head and its casts, and their gradients; not the last block
LOSSES = {"cross_entropy", "nll_loss", "log_softmax"}
# of the repeated blocks of a model
LEAST_BLOCKS = 3
MOST = 0.7  # of the bytes below the outermost line: the rest is what its own lines add
EVEN = 0.5  # of the bytes of a step: a block that has more is no repeated one
SHARE = 0.9  # of the bytes: the rest is what only the first or the last block has


class MemoryProposal(Struct, frozen=True):
    """A change that a user can make: what to do, what was seen, what it costs, and the new lives.

    Where the peak stays and only what is reserved falls, `reserved` holds the new bytes.
    """

    order: str
    why: str
    write: str
    lives: Lifetimes
    costs: int = FREE
    cost: str = ""
    reserved: int | None = None


class PeakFix(Struct, frozen=True):
    """A change that lowers the peak, or what is reserved, and to how much."""

    name: str
    order: str
    why: str
    write: str
    cost: str
    peak_bytes: int
    reserved_bytes: int | None


Found = Iterator[MemoryProposal]


class PeakPlan:
    """A view under one fix, and the lives as they would be, to be changed."""

    def __init__(self, view: MemoryView) -> None:
        self.view, lives = view, view.lives
        self.new = replace(
            lives, start=lives.start.copy(), end=lives.end.copy(), size=lives.size.copy()
        )

    def at_peak(self, rows: Numbers) -> tuple[Numbers, str]:
        """Those of these rows that are live at the peak, and their bytes in words."""
        held = np.intersect1d(rows, self.view.holders)
        return held, bytes_text(int(self.view.lives.size[held].sum()))

    def proposal(
        self, order: str, why: str, write: str, costs: int = FREE, cost: str = ""
    ) -> MemoryProposal:
        """What to do, with the lives as they are then."""
        return MemoryProposal(order, why, write, self.new, costs, cost)


def accumulate(plan: PeakPlan) -> Found:
    """Split the batch and accumulate the gradients.

    What grows with the batch counts a quarter, and the gradients live through the whole step. Small
    batches use the GPU less, and batch norm sees the small batch.
    """
    view = plan.view
    rows = grows_with_batch(view)
    if not (view.trains or view.oom is not None) or not len(rows):
        return
    plan.new.size[rows] //= BATCH_PARTS
    gradients = np.flatnonzero((view.category == GRADIENT) & ~view.lives.before)
    # the step of a gradient begins once the gradients of the step before are freed
    start, end = view.lives.start[gradients], view.lives.end[gradients]
    steps = np.array([first for first, _ in view.steps])
    begins = [max([first, *end[(start < first) & (end > first)]]) for first in steps]
    mine = np.maximum(np.searchsorted(steps, start, side="right") - 1, 0)
    plan.new.start[gradients] = np.minimum(start, np.array(begins)[mine])
    _, size = plan.at_peak(rows)
    normed = any("batch_norm" in words for words in view.facts.words)
    parts = BATCH_PARTS
    yield plan.proposal(
        f"split the batch in {parts} and accumulate the gradients",
        f"{size} at the peak grow with the batch",
        f"for part in batch.chunk({parts}): (loss(part) / {parts}).backward(); then step()",
        NUMBERS if normed else TIME,
        f"{parts} smaller passes for one: 14% more time in a measured pair"
        + ("; batch norm sees each part alone: compare the loss" if normed else ""),
    )


def checkpoint_blocks(plan: PeakPlan) -> Found:
    """Checkpoint the repeated blocks of a model.

    Activations below the line that calls the blocks live from the first release in their own block,
    not from the forward pass. The last one of each block stays: it is the next block's input. Where
    memory ran out in the forward pass, the peak is the one up to there. Blocks of very different
    sizes, or a peak in the loss, gain less.
    """
    view = plan.view
    rows = np.flatnonzero((view.category == ACTIVATION) & ~view.lives.before)
    trains = view.trains or view.oom is not None  # the first forward pass may be too large
    found = repeated_call(view, rows) if trains and len(rows) else None
    if found is None:
        return
    new, held = plan.new, 0
    for call in found.calls:
        inner = call[:-1]
        # memory ran out before their backward pass
        if (view.lives.end[call] >= view.history.failed_at).all():
            new.end[inner] = int(new.start[call[-1]]) + 1
        else:
            # one event earlier than the first release: all of the block is there again
            first = int(view.lives.end[call].min()) - 1
            new.start[inner] = max(first, int(new.start[call[-1]]))
        held = max(held, int(view.lives.size[inner].sum()))
    inner = np.concatenate([call[:-1] for call in found.calls])
    _, size = plan.at_peak(inner)
    order = f"checkpoint the {plural(found.blocks, 'block')} called at {line_of(view, found.frame)}"
    why = f"{size} of activations live from their forward to their backward pass; "
    why += f"one block needs {bytes_text(held)}"
    write = "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
    cost = "one more forward pass of the blocks: 17 to 81% more time in four measured pairs"
    yield plan.proposal(order, why, write, TIME, cost)


def earlier_release(plan: PeakPlan) -> Found:
    """Drop a name when its use is over.

    Activations of a step that are freed after the next forward pass began are freed at the end of
    their own step. The tensor may be used after it, for a metric or a state.
    """
    view = plan.view
    ends = np.array([end for _, end in view.steps])
    if not view.trains or len(ends) < 2:
        return
    kinds = np.isin(view.category, (ACTIVATION, INPUT, KEPT))
    own = ends[np.searchsorted(ends, view.lives.start, side="right").clip(max=len(ends) - 1)]
    late = np.flatnonzero(kinds & (view.lives.end > own) & (own < view.lives.events))
    late = np.union1d(late, np.flatnonzero(view.lives.before & (view.category == ACTIVATION)))
    # at the peak a step's own tensors are in use
    ended = view.lives.before[late] | (own[late] <= view.peak)
    held, size = plan.at_peak(late[ended])
    if not len(held):
        return
    plan.new.end[late] = np.where(view.lives.before[late], 0, own[late])
    order = f"drop what {_largest_line(view, held)} made before the next step"
    why = f"{size} of earlier steps are live at the peak"
    yield plan.proposal(order, why, "del logits, or keep loss.item() instead of the tensor")


def _largest_line(view: MemoryView, held: Numbers) -> str:
    """The line with the most bytes; of what is older than the history, that of an equal size."""
    total = Counter[str]()
    for row in held.tolist():
        total[view.line(row)] += int(view.lives.size[row])
    line = total.most_common(1)[0][0]
    if line != BEFORE_LINE:
        return line
    largest = view.lives.size[held].max()
    others = np.flatnonzero((view.lives.size == largest) & ~view.lives.before)
    return next((view.line(int(row)) for row in others), line)


def eight_bit_state(plan: PeakPlan) -> Found:
    """Keep the optimizer's state in 8 bits.

    Optimizer state of at least 16 kB counts a quarter; smaller tensors stay, as libraries leave
    them in float32. This is arithmetic: no recording of ours has such an optimizer.
    """
    view = plan.view
    rows = np.flatnonzero((view.category == STATE) & (view.lives.size >= LEAST_STATE_BYTES))
    held, size = plan.at_peak(rows)
    if not len(held):
        return
    plan.new.size[rows] //= 4
    yield plan.proposal(
        "keep the optimizer's state in 8 bits, or shard it over several GPUs",
        f"optimizer state is {size} at the peak",
        "bitsandbytes.optim.AdamW8bit(params), or FSDP",
        NUMBERS,
        "8 bits change the updates: compare the loss",
    )


def expandable_segments(plan: PeakPlan) -> Found:
    """Let segments grow instead of taking new ones.

    The peak of what is live, rounded up to pages of 2 MiB for each of the two sizes of pools, is
    what such an allocator needs at least. What was reserved before the history began stays: an
    earlier peak may have needed it. Memory that processes share does not support it.
    """
    view = plan.view
    # the pool of a CUDA graph holds what its replays need, and serves nothing else
    pooled = any(segment.graph for segment in view.snapshot.segments)
    if view.snapshot.expandable or pooled or not len(view.history):
        return
    held = int(view.reserved.max())
    needed = max(-(-view.peak_bytes // PAGE) * PAGE + PAGE, view.reserved_before)
    if held - needed < LEAST_IDLE * held:
        return
    idle = percent_text((held - view.peak_bytes) / held)
    yield MemoryProposal(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        f"{bytes_text(held)} are reserved for a peak of {bytes_text(view.peak_bytes)}: "
        f"{idle} lies idle",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
        plan.new,
        reserved=needed,
    )


def half_precision_state(plan: PeakPlan) -> Found:
    """Keep weights, gradients and optimizer state in bf16.

    Parameters, gradients and state count half; the bf16 copies of weights that autocast makes, by
    which it is told, are taken out.
    """
    view = plan.view
    copies, weights = weight_copies(view), (view.category == PARAMETER) & view.lives.kept
    copied = np.isin(view.lives.size // 2, view.lives.size[copies]) & weights
    size = view.lives.size
    if not view.trains or size[copied].sum() <= LEAST_COPIED * size[weights].sum():
        return
    kinds = np.isin(view.category, (PARAMETER, GRADIENT, STATE))
    plan.new.size[kinds] //= 2
    plan.new.size[copies] = 0
    _, at_most = plan.at_peak(np.flatnonzero(kinds))
    yield plan.proposal(
        "keep weights, gradients and optimizer state in bf16",
        f"parameters, gradients and state are {at_most} at "
        "the peak, and autocast copies the weights to half their size",
        "model.to(torch.bfloat16), without autocast",
        NUMBERS,
        "updates below a bf16 step are lost: compare the loss",
    )


def inference_mode(plan: PeakPlan) -> Found:
    """Run inference without autograd.

    Each activation lives to the end of its own block, or of the next op where no blocks repeat.
    """
    view = plan.view
    rows = np.flatnonzero((view.category == ACTIVATION) & ~view.lives.before)
    held, size = plan.at_peak(rows)
    # a program that ran out of memory in its first forward pass may be one that trains
    unfinished = view.oom is not None and (view.lives.end[held] >= view.history.failed_at).all()
    if view.trains or not len(held) or unfinished:
        return
    new = plan.new
    starts = view.lives.start
    following = np.append(starts[rows], [view.lives.events] * AHEAD)
    new.end[rows] = np.minimum(new.end[rows], following[AHEAD : AHEAD + len(rows)])
    found = repeated_call(view, rows)
    for call, then in zip(found.calls, found.calls[1:], strict=False) if found else ():
        # the block's output is the next one's input, and is added to its last value
        new.end[call[-1]] = max(int(new.end[call[-1]]), int(starts[then[-1]]) + 1)
    order = "run the forward pass under torch.inference_mode()"
    why = f"{size} are kept for a backward pass that never comes"
    yield plan.proposal(order, why, "with torch.inference_mode(): out = model(x)")


def optimizer_in_place(plan: PeakPlan) -> Found:
    """A fused optimizer works in place.

    The default of torch (`foreach`) computes an update for all parameters at once, and holds it:
    the temporaries that the optimizer step allocates are taken out.
    """
    view = plan.view
    rows = np.flatnonzero((view.ran == OPTIMIZER) & (view.category == TEMPORARY))
    held, size = plan.at_peak(rows)
    if not len(held):
        return
    # the class of the optimizer, as torch's annotation has it
    marks = [mark.name for mark in view.snapshot.marks if mark.name.startswith(OPTIMIZER_STEP)]
    name = marks[-1].removeprefix(OPTIMIZER_STEP).split(".")[0] if marks else "AdamW"
    order, write = "update the parameters one after another", "foreach=False"
    if name in FUSED:
        order, write = f"{name}(..., fused=True)", f"torch.optim.{name}(params, fused=True)"
    plan.new.size[rows] = 0
    why = f"the optimizer step holds {size} of temporary tensors at the peak"
    yield plan.proposal(order, why, write)


def set_to_none(plan: PeakPlan) -> Found:
    """Let zero_grad drop the gradients.

    Gradients that live through the forward pass are taken out, and the tensors of the same size
    that the backward pass frees live to the end of the step instead.
    """
    view = plan.view
    steps = view.steps
    held = view.category == GRADIENT
    stays = np.flatnonzero(held & view.lives.kept & (view.lives.start < steps[-1][0]))
    if not view.trains or not view.facts.optimizes or not len(stays) or len(steps) < 2:
        return
    plan.new.size[stays] = 0
    passing = (view.category == TEMPORARY) & (view.ran == BACKWARD) & ~view.lives.before
    rows = np.flatnonzero(passing & np.isin(view.lives.size, view.lives.size[stays]))
    ends = np.array([end for _, end in steps])
    own = np.searchsorted(ends, plan.new.start[rows], side="right").clip(max=len(ends) - 1)
    plan.new.end[rows] = ends[own]
    order = "optimizer.zero_grad() without set_to_none=False"
    size = bytes_text(int(view.lives.size[stays].sum()))
    why = f"{size} of gradients live through the forward pass"
    yield plan.proposal(order, why, "optimizer.zero_grad()")


def smaller_logits(plan: PeakPlan) -> Found:
    """Compute the loss in parts.

    The largest allocation inside `cross_entropy` gives the size of the logits. Allocations of that
    size, of half and of twice it, among the twelve before and after one of the loss, count an
    eighth. A tensor of such a size so near the loss is counted, even where it is not one of logits.
    """
    view = plan.view
    inside = np.array([not LOSSES.isdisjoint(words) for words in view.facts.words])
    loss = np.flatnonzero(inside[view.lives.stack] & ~view.lives.before)
    if not view.trains or not len(loss):
        return
    size = int(view.lives.size[loss].max())
    close = np.isin(view.lives.size, (size, size // 2, 2 * size))
    kinds = np.isin(view.category, (ACTIVATION, TEMPORARY, GRADIENT))
    # gradients of parameters are not those of logits, also where one is as large
    parameters = np.isin(
        view.lives.size, view.lives.size[np.isin(view.category, (PARAMETER, STATE))]
    )
    rows = np.flatnonzero(close & kinds & ~(parameters & (view.category == GRADIENT)))
    # how many allocations lie between each and the nearest one of the loss
    after = np.searchsorted(loss, rows).clip(max=len(loss) - 1)
    before = np.maximum(after - 1, 0)
    near = np.minimum(np.abs(loss[after] - rows), np.abs(loss[before] - rows)) <= NEAR
    rows = rows[near]
    plan.new.size[rows] //= LOGITS_PARTS
    held, whole = plan.at_peak(rows)
    if not len(held):
        return
    yield plan.proposal(
        f"compute the loss in {LOGITS_PARTS} parts ({view.line(int(loss[0]))})",
        f"logits, their copies and gradients are {whole} at the peak, {bytes_text(size)} each",
        "checkpoint(head_and_loss, hidden_part, target_part) for each part, or Liger's "
        "LigerFusedLinearCrossEntropyLoss",
        TIME,
        "the head's matmul runs again in the backward pass: 37 and 43% more time in two measured "
        "pairs",
    )


def static_cache(plan: PeakPlan) -> Found:
    """Give a cache its full size once.

    Of the allocations of a line that takes a little more each time, the last of each layer stays
    and the copies are taken out. Room for the longest answer is taken from the start.
    """
    view = plan.view
    if view.trains:
        return
    rows = np.flatnonzero(grows(view.lives, view.facts) & (view.category == KEPT))
    held, size = plan.at_peak(rows)
    if len(held) < 2:
        return
    for stack in np.unique(view.lives.stack[rows]):
        same = rows[view.lives.stack[rows] == stack]
        starts = view.lives.start[same]
        # a cache ends where the copy that takes its place begins: the last one before its release
        last = np.searchsorted(starts, view.lives.end[same]) - 1
        copied = last > np.arange(len(same))
        plan.new.end[same[copied]] = starts[last[copied]]
    order = f"allocate the cache of {view.line(int(held[0]))} once, in its full size"
    why = f"the cache is copied to grow; {size} at the peak are caches and a copy"
    write = "cache = torch.empty(..., longest, ...); cache[:, :, at] = new"
    yield plan.proposal(order, why, write)


FIXES = (
    accumulate,
    checkpoint_blocks,
    earlier_release,
    eight_bit_state,
    expandable_segments,
    half_precision_state,
    inference_mode,
    optimizer_in_place,
    set_to_none,
    smaller_logits,
    static_cache,
)


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


def predicted(view: MemoryView) -> list[PeakFix]:
    """What each fix would bring: first those that cost nothing, then time, then exact numbers.

    Of those that cost the same, the one that brings most comes first. What brings little is left
    out.
    """
    ranked: list[tuple[int, float, PeakFix]] = []
    for fix in FIXES:
        for do in fix(PeakPlan(view)):
            peak = peak_of(do.lives)
            now, then = view.peak_bytes, peak
            if do.reserved is not None:
                now, then = int(view.reserved.max()), do.reserved
            brings = (now - then) / max(now, 1)
            if brings >= WORTH:
                words = (do.order, do.why, do.write, do.cost)
                ranked.append((do.costs, -brings, PeakFix(fix.__name__, *words, peak, do.reserved)))
    return [fix for *_, fix in sorted(ranked, key=lambda each: each[:2])]


def peak_of(lives: Lifetimes) -> int:
    """The most that is live at once with changed lives."""
    return int(replace(lives, end=np.maximum(lives.end, lives.start + 1)).curve().max())


def peak_at_batch(view: MemoryView, factor: float, rows: Numbers | None = None) -> int:
    """The peak with a batch that is larger by a factor; `rows` grow with it, where known."""
    lives, rows = PeakPlan(view).new, grows_with_batch(view) if rows is None else rows
    lives.size[rows] = (lives.size[rows] * factor).astype(np.int64)
    return peak_of(lives)


def largest_batch(view: MemoryView, room: int) -> int | None:
    """How many times the batch fits into so many bytes: a whole number; None where none does."""
    rows = grows_with_batch(view)
    if not len(rows) or view.peak_bytes > room:
        return None
    low, high = 1, 2
    while high < MOST_TIMES and peak_at_batch(view, high, rows) <= room:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak_at_batch(view, middle, rows) <= room else (low, middle)
    return low
