"""The memory of one device: what every analysis of a snapshot reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.run_record import snapshot_beside
from foretrace.read.snapshot import ACTION, NO_STACK, History, Numbers, Snapshot, read_snapshot
from foretrace.trace.allocator.categories import (
    ACTIVATION,
    BACKWARD,
    BACKWARD_LINE,
    BEFORE_LINE,
    FORWARD,
    GRADIENT,
    OPTIMIZER_STEP,
    PASSES,
    Lifetimes,
    StackFacts,
    categories,
    lifetimes,
    stack_facts,
)

NO_MODULE = "no module"
DEPTH = 2  # of names: a list of blocks, and which
_TAKES = (ACTION["segment_alloc"], ACTION["segment_map"])
_GIVES = (ACTION["segment_free"], ACTION["segment_unmap"])


class Labels(NamedTuple):
    """A number for each allocation, and the name of each number."""

    of: Numbers
    names: list[str]

    def name(self, row: int) -> str:
        """The name of one allocation."""
        return self.names[int(self.of[row])]


# the modules of an allocation, outermost first, by its place in a step (see `MemoryView.places`)
ModuleNames = dict[tuple[int, int], tuple[str, ...]]


class MemoryView:
    """Lifetimes, categories and passes of one device's history; the peak; the steps."""

    def __init__(self, snapshot: Snapshot, history: History) -> None:
        self.snapshot, self.history = snapshot, history
        self.lives: Lifetimes = lifetimes(snapshot, history)
        self.facts: StackFacts = stack_facts(snapshot)
        self.category = categories(snapshot, history, self.lives, self.facts)
        self.ran = self.facts.ran[self.lives.stack]
        self.curve = self.lives.curve()
        self.peak = int(self.curve.argmax())
        self.traced: ModuleNames = {}  # from a trace of the same run, where there is one

    @property
    def peak_bytes(self) -> int:
        """The most that was live at once."""
        return int(self.curve[self.peak])

    @property
    def trains(self) -> bool:
        """Whether a backward pass was recorded."""
        return bool(((self.ran == BACKWARD) & ~self.lives.before).any())

    @cached_property
    def holders(self) -> Numbers:
        """The rows that are live at the peak."""
        return self.lives.live_at(self.peak)

    @cached_property
    def reserved(self) -> Numbers:
        """Bytes held from the driver after each event."""
        return np.cumsum(self._taken) + self.reserved_before

    @cached_property
    def reserved_before(self) -> int:
        """Bytes held from the driver when the history began."""
        device = self.history.device
        held = sum(each.size for each in self.snapshot.segments if each.device == device)
        return held - int(self._taken.sum())

    @cached_property
    def _taken(self) -> Numbers:
        """Bytes that each event takes from the driver, or gives back."""
        action, size = self.history.action, self.history.size
        sign = np.isin(action, _TAKES).astype(np.int64) - np.isin(action, _GIVES)
        return np.asarray(sign * size)

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """The first event of each step and the one after its last.

        A step ends with the optimizer's, or where the stack that began the first step comes again.
        """
        ends: Numbers = np.unique(
            np.searchsorted(
                self.history.time_us,
                [
                    mark.time_us
                    for mark in self.snapshot.marks
                    if not mark.is_start and mark.name.startswith(OPTIMIZER_STEP)
                ],
                side="right",
            )
        )
        # where memory ran out before a step was over, there is one
        if not len(ends) and (self.oom is None or self.trains):
            rows = np.flatnonzero((self.ran == FORWARD) & ~self.lives.before)
            inner = self.facts.inner[self.lives.stack[rows]]
            ends = self.lives.start[rows[inner == inner[:1]][1:]]
        edges = [
            0,
            *(end for end in ends.tolist() if 0 < end < len(self.history)),
            len(self.history),
        ]
        return [(a, b) for a, b in itertools.pairwise(edges) if b > a]

    def step_of(self, events: Numbers) -> Numbers:
        """The number of the step of each event."""
        return np.searchsorted([start for start, _ in self.steps], events, side="right")

    @cached_property
    def by_line(self) -> Labels:
        """The line to look at for each allocation."""
        names = [*self.facts.lines]
        if BEFORE_LINE not in names:
            names.append(BEFORE_LINE)
        untold = (self.lives.stack == NO_STACK) & self.lives.before
        line = np.where(untold, names.index(BEFORE_LINE), self.facts.line[self.lives.stack])
        if BACKWARD_LINE in names:
            nameless = (line == names.index(BACKWARD_LINE)) & (self.category != GRADIENT)
            self._name_by_release(np.flatnonzero(nameless & ~self.lives.before), line, names)
        return Labels(line, names)

    def _name_by_release(self, rows: Numbers, line: Numbers, names: list[str]) -> None:
        """Name what autograd's thread allocates by the activation that is released next.

        A node of autograd holds what its op saved until it has computed its gradients.
        """
        saved = (self.category == ACTIVATION) & ~self.lives.before & ~self.lives.kept
        order = np.flatnonzero(saved)[np.argsort(self.lives.end[saved], kind="stable")]
        after = np.searchsorted(self.lives.end[order], self.lives.start[rows], side="right")
        rows, after = rows[after < len(order)], after[after < len(order)]
        numbers = {name: number for number, name in enumerate(names)}
        for near in np.unique(made := line[order[after]]).tolist():
            name = f"backward pass near {names[near]}"
            line[rows[made == near]] = numbers.setdefault(name, len(numbers))
        names[:] = numbers

    def line(self, row: int) -> str:
        """The line to look at for one allocation."""
        return self.by_line.name(row)

    @property
    def has_modules(self) -> bool:
        """Whether the program named its tensors, or a trace of the run has modules."""
        return bool(self.traced) or any(owner.name for owner in self.snapshot.owners)

    @cached_property
    def by_module(self) -> Labels:
        """The module that owns or allocated each tensor: a model and its block, `blocks.3`."""
        numbers = {NO_MODULE: 0}
        module = np.zeros(len(self.lives), np.int64)
        for row, names in [*self._traced_rows(), *self._owned_rows()]:
            module[row] = numbers.setdefault(".".join(names[:DEPTH]), len(numbers))
        return Labels(module, list(numbers))

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """The stack of each allocation inside the model, and its turn among those of its step."""
        inner = self.facts.inner[self.lives.stack]
        turn = self.turns(np.arange(len(inner)), inner)
        return [*zip(inner.tolist(), turn.tolist(), strict=True)]

    def turns(self, rows: Numbers, kind: Numbers) -> Numbers:
        """The turn of each row among those of its kind in its step; rows are in order of start."""
        step = self.step_of(self.lives.start[rows])
        order = np.lexsort((rows, kind, step))
        new = np.diff(kind[order], prepend=-1) | np.diff(step[order], prepend=-1)
        begins = np.flatnonzero(new)
        turn = np.empty(len(order), np.int64)
        lengths = np.diff(begins, append=len(order))
        turn[order] = np.arange(len(order)) - np.repeat(begins, lengths)
        return turn

    def _owned_rows(self) -> Iterator[tuple[int, Sequence[str]]]:
        owners = {owner.addr: owner for owner in self.snapshot.owners}
        for row in np.flatnonzero(self.lives.kept & np.isin(self.lives.addr, [*owners])).tolist():
            owner = owners[int(self.lives.addr[row])]
            # `blocks.3.up.weight`, and a state of it: `blocks.3.up.weight.exp_avg`
            own = -2 if owner.kind == "optimizer" else -1
            yield row, owner.name.split(".")[:own] or [NO_MODULE]

    def _traced_rows(self) -> Iterator[tuple[int, Sequence[str]]]:
        for row, place in enumerate(self.places if self.traced else ()):
            if names := self.traced.get(place):
                yield row, names[1:2] or names  # the first is the model

    def module(self, row: int) -> str:
        """The module of one allocation."""
        return self.by_module.name(row)

    def passed_at(self, event: int) -> str:
        """The pass in which an event happened: that of the last allocation up to it."""
        rows = np.flatnonzero((self.lives.start <= event) & ~self.lives.before)
        return PASSES[int(self.ran[rows[-1]])] if len(rows) else PASSES[-1]

    @property
    def oom(self) -> int | None:
        """The bytes of the allocation that failed, where one did."""
        at = self.history.failed_at  # where none failed, the number of events
        return int(self.history.size[at]) if at < self.lives.events else None


def view_of(path: str, limits: Limits | None = None) -> MemoryView:
    """The device with the highest peak of a snapshot."""
    return memory_views(read_snapshot(path, limits))[0]


def memory_views(snapshot: Snapshot) -> list[MemoryView]:
    """Every device of a snapshot, the one with the highest peak first."""
    if not snapshot.histories:
        hint = "call torch.cuda.memory._record_memory_history() before the program allocates"
        message = "the snapshot has no history: what is held is known, not what filled it"
        raise TraceError("E_NO_HISTORY", snapshot.path, message, hint=hint)
    found = [MemoryView(snapshot, history) for history in snapshot.histories]
    return sorted(found, key=lambda view: -view.peak_bytes)


def view_beside(trace: str) -> MemoryView | None:
    """The view of the snapshot beside a trace; None where there is none that can be read."""
    found = snapshot_beside(trace)
    try:
        return view_of(found) if found else None
    except TraceError:
        return None
