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
    rows = np.flatnonzero((history.action == ALLOC) | (history.action == FREE))
    order = rows[np.lexsort((rows, history.addr[rows]))]
    addr, is_alloc = history.addr[order], history.action[order] == ALLOC
    same_as_next = np.append(addr[1:] == addr[:-1], False)
    same_as_last = np.insert(same_as_next[:-1], 0, False)
    after = np.append(order[1:], 0)  # the next event of the address, where there is one
    made = np.flatnonzero(is_alloc)
    # a second allocation of an address ends the first: its release was not recorded
    end = np.where(same_as_next[made], after[made], len(history))
    freed = is_alloc[made] & same_as_next[made]
    freed_by = np.where(freed, history.stack[np.where(freed, after[made], 0)], NO_STACK)
    earlier = np.flatnonzero(
        ~is_alloc & ~(same_as_last & np.insert(is_alloc[:-1], 0, False))  # freed, never allocated
    )
    earlier = earlier[~same_as_last[earlier]]
    held = _held_throughout(snapshot, history, order[made], end)
    return _sorted(
        len(history),
        np.concatenate([addr[made], addr[earlier], held[0]]),
        np.concatenate([history.size[order[made]], history.size[order[earlier]], held[1]]),
        np.concatenate([order[made], np.full(len(earlier) + len(held[0]), BEFORE)]),
        np.concatenate([end, order[earlier], np.full(len(held[0]), len(history))]),
        np.concatenate([history.stack[order[made]], np.zeros(len(earlier), np.int64), held[2]]),
        np.concatenate([freed_by, history.stack[order[earlier]], np.zeros(len(held[0]), np.int64)]),
    )


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


def _sorted(events: int, *columns: Numbers) -> Lifetimes:
    order = np.lexsort((columns[0], columns[2]))
    return Lifetimes(events, *(column[order] for column in columns))
