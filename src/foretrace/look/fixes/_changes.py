"""What a fix proposes, and changes of a step: at several speeds of new kernels, and together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange

Stretches = tuple[tuple[int, int], ...]
Changes = tuple[GraphChange, GraphChange, GraphChange]  # as usual, at best, at worst
T = TypeVar("T")
NewTimes = dict[int, "Callable[[Speed], float]"]  # of rows whose kernels change


class Proposal(Struct, frozen=True):
    """A change that a user can make to the program.

    `order` is what to do, `why` what was seen. `change` is the expected change of the graph, `best`
    and `worst` are its limits where the new times are not certain. `first` says what must go before
    this can be done; `risk` what the user must check (types, results).
    """

    order: str
    why: str
    change: GraphChange
    best: GraphChange | None = None
    worst: GraphChange | None = None
    first: str = ""
    risk: str = ""
    events: tuple[int, ...] = ()


Proposals = Iterator[Proposal]
EVENTS = 50  # of a proposal: enough to jump to


def shown(events: Sequence[int] | Ints) -> tuple[int, ...]:
    """The first of these events."""
    return tuple(np.asarray(events[:EVENTS], np.int64).tolist())


class Speed(Struct, frozen=True):
    """Shares of a card's peak that kernels reach: matmuls, convolutions, attention and memory."""

    matmul: float
    conv: float
    attention: float
    backward: float
    memory: float


# An H200's (torch 2.11, bf16; of the datasheet's peak); the arithmetic of attention is that of the
# scores that its mask leaves.
USUAL = Speed(0.75, 0.6, 0.36, 0.24, 0.75)
BEST = Speed(0.85, 0.75, 0.5, 0.35, 0.95)
WORST = Speed(0.55, 0.4, 0.25, 0.15, 0.5)
SPEEDS = (USUAL, BEST, WORST)
STARTING_NS = 2_000  # what a kernel takes beside its arithmetic and its traffic


def of_each(make: Callable[[T], GraphChange], values: tuple[T, T, T]) -> Changes:
    """A change as it usually is, at best and at worst, by what differs."""
    usual, best, worst = values
    return make(usual), make(best), make(worst)


def at_speeds(make: Callable[[Speed], GraphChange]) -> Changes:
    """A change at the speeds of new kernels."""
    return of_each(make, SPEEDS)


def replacing(parts: Sequence[tuple[GraphChange, NewTimes]]) -> Changes:
    """What goes of parts of a step, and the times of the new kernels instead."""
    base = joined(change for change, _ in parts)
    times = [each for _, new in parts for each in new.items()]
    return at_speeds(
        lambda speed: replace(base, length=base.length | {row: time(speed) for row, time in times})
    )


def joined(changes: Iterable[GraphChange], left: float = 0.0) -> GraphChange:
    """Changes of different parts of a step as one."""
    every = list(changes)
    length: dict[int, float] = {}
    for each in every:
        length |= each.length
    removed = tuple(stretch for each in every for stretch in each.removed)
    gone = frozenset[int]().union(*(each.gone for each in every))
    unwaited = frozenset[int]().union(*(each.unwaited for each in every))
    return GraphChange(removed, left, length, gone, unwaited)


def both(first: GraphChange, then: GraphChange) -> GraphChange:
    """Two changes at once; where both change a time, the shorter one counts."""
    length = dict(first.length)
    for row, ns in then.length.items():
        length[row] = min(ns, length.get(row, ns))
    return GraphChange(
        first.removed,
        first.left,
        length,
        first.gone | then.gone,
        first.unwaited | then.unwaited,
        (*first.also, (then.removed, then.left), *then.also),
        first.moved | then.moved,
    )
