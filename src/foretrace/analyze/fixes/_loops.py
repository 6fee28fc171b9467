"""Loops of a step: one sequence of ops that repeats on slices of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.analyze.fixes._host import tops
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import whole
from foretrace.model.intervals import Ints

REPEATED = 4
LONGEST = 512  # ops in an iteration
MOST_OPS = 20_000
FREED = 0.8
NEAR = 3  # ops between a loop and what makes its slices or joins its results
SLICES = frozenset({"aten::select", "aten::slice", "aten::narrow"})
PARTS = frozenset(
    f"aten::{name}" for name in ("unbind", "split", "chunk", "split_with_sizes", "tensor_split")
)
JOINS = frozenset({"aten::stack", "aten::cat"})


class Loop(Struct, frozen=True):
    """Ops by iteration, and the ops that make the slices before and join the results after."""

    ops: Ints
    before: list[int]
    after: list[int]
    is_last: bool

    def stretch(self, step: Step) -> tuple[int, int]:
        """All of it; at the end of a step with most of what follows: Python frees the results."""
        host = step.trace.host
        first = self.before[0] if self.before else int(self.ops[0, 0])
        last = int(host.end[self.after[-1] if self.after else self.ops[-1, -1]])
        freed = FREED * (step.span.end_ns - last) if self.is_last else 0
        return int(host.start[first]), last + int(freed)

    def rest(self, step: Step) -> tuple[int, int]:
        """The iterations after the first, and the op that joins the results."""
        return int(step.trace.host.end[self.ops[0, -1]]), self.stretch(step)[1]


def loops(step: Step) -> list[Loop]:
    """The loops of the length that has most of the host's time."""
    ops = tops(step)
    if not REPEATED <= len(ops) <= MOST_OPS:
        return []
    # a number for each op's name and shapes
    number: dict[tuple[str, str], int] = {}
    calls = [(step.name(op), call.dims if (call := step.call(op)) else "") for op in ops.tolist()]
    keys = [(name, str(dims)) for name, dims in calls]
    codes = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
    host = step.trace.host
    best: tuple[float, list[Loop]] = (0.0, [])
    for length in range(1, min(LONGEST, len(ops) // REPEATED) + 1):
        runs = repeats(codes, length)
        found = [loop for run in runs if (loop := _loop(step, ops, length, *run))]
        spent = float(sum(host.length[loop.ops].sum() for loop in found))
        best = max(best, (spent, found), key=lambda each: each[0])
    return best[1]


def repeats(codes: Ints, length: int) -> Iterator[tuple[int, int]]:
    """Where the sequence repeats itself after `length` ops: the first op, and how many ops."""
    same = np.concatenate(([False], codes[length:] == codes[:-length], [False]))
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    for start, end in edges.reshape(-1, 2).tolist():
        if (end - start) // length + 1 >= REPEATED:
            yield start, end - start + length


def _loop(step: Step, ops: Ints, length: int, start: int, size: int) -> Loop | None:
    """A loop over slices that works on the GPU; None if it is none."""
    count = size // length
    mine = ops[start : start + count * length].reshape(count, length)
    before = ops[max(start - NEAR, 0) : start + min(length, NEAR)]
    after = ops[start + count * length : start + size + NEAR]
    parts = [op for op in before.tolist() if _has_parts(step, op, count)]
    joins = [op for op in after.tolist() if step.name(op) in JOINS][:1]
    # whether a slice of every iteration is the next one of its tensor
    sliced = np.flatnonzero(step.named(SLICES)[mine[0]]).tolist()
    advances = parts or any(_steadily(step, mine[:, at]) for at in sliced)
    if not advances or not (joins or _writes(step, mine)):
        return None
    is_last = int(ops[-1]) in (*joins, int(mine[-1, -1]))
    return Loop(mine, parts, joins, is_last) if len(step.below(mine[0])) else None


def _has_parts(step: Step, op: int, count: int) -> bool:
    """Whether an op makes about as many parts as there are iterations."""
    if step.name(op) not in PARTS:
        return False
    children = int((step.trace.host.parent[step.inside] == op).sum())
    return count <= children <= count + 1


def _steadily(step: Step, ops: Ints) -> bool:
    calls = [step.call(op) for op in ops.tolist()]
    texts = [call.concrete[2] if call and len(call.concrete) > 2 else "" for call in calls]
    places = [place for text in texts if (place := whole(text)) is not None]
    apart = set(np.diff(places).tolist())
    return len(places) == len(calls) and len(apart) == 1 and apart != {0}


def _writes(step: Step, ops: Ints) -> bool:
    """Whether every iteration writes its result to a slice: the op before `copy_` makes one."""
    copies = step.named({"aten::copy_"})[ops[0]]
    return any(
        at > 0 and _steadily(step, ops[:, at - 1])
        for at in np.flatnonzero(copies).tolist()
        if step.name(int(ops[0, at - 1])) in SLICES
    )
