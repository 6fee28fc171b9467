"""When each allocation was made and freed, and how many bytes were live after each event."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.schema.snapshot import ALLOC, FREE, NO_STACK, History, Numbers, Snapshot

BEFORE = -1  # the start of what was allocated before the history begins
Marked = np.ndarray[Any, np.dtype[np.bool_]]


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
    def before(self) -> Marked:
        """Those that were live when the history began."""
        return np.equal(self.start, BEFORE)

    @property
    def kept(self) -> Marked:
        """Those that nothing freed."""
        return np.equal(self.end, self.events)

    def live_at(self, event: int) -> Numbers:
        """The rows of what is live after an event."""
        return np.flatnonzero((self.start <= event) & (event < self.end))

    def curve(self) -> Numbers:
        """Live bytes after each event."""
        return curve(self.start, self.end, self.size, self.events)


def curve(start: Numbers, end: Numbers, size: Numbers, events: int) -> Numbers:
    """Live bytes after each event; also for lifetimes that a fix changed."""
    change = np.zeros(events + 2, np.int64)
    np.add.at(change, start + 1, size)
    np.add.at(change, end + 1, -size)
    return np.cumsum(change)[1 : events + 1] if events else change[:1]


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
    held = _held_throughout(snapshot, history, made, end)
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


def _held_throughout(
    snapshot: Snapshot, history: History, start: Numbers, end: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Address, size and stack of the live blocks that no event of the history allocated."""
    known = set(history.addr[start[end == len(history)]].tolist())
    blocks = [
        (block.addr, block.requested, block.stack)
        for segment in snapshot.segments
        if segment.device == history.device
        for block in segment.blocks
        if block.is_live and block.addr not in known
    ]
    table = np.array(blocks, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
