"""A snapshot of torch's caching allocator, as plain tables.

`torch.cuda.memory._dump_snapshot` writes what the allocator holds (segments and their blocks), the
history of each device (one event for each allocation and release), and the stack of each event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

Numbers = np.ndarray[Any, np.dtype[np.int64]]

# what an event does; an action that is not in the list is read as the last
_ACTIONS = """
    alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap
    snapshot oom other
"""
ACTIONS = tuple(_ACTIONS.split())
ACTION = {name: number for number, name in enumerate(ACTIONS)}
ALLOC, FREE, OOM = ACTION["alloc"], ACTION["free_completed"], ACTION["oom"]
NO_STACK = 0  # the number of the empty stack


class StackFrame(Struct, frozen=True):
    """One line of a stack."""

    name: str
    file: str
    line: int


class History(Struct, frozen=True):
    """The events of one device in the order in which they happened; one row each.

    `size` is what was requested, before the allocator rounds it. `addr` of an `oom` event is what
    the driver had left. `stack` is a number of `Snapshot.stacks`.
    """

    device: int
    action: Numbers
    addr: Numbers
    size: Numbers
    time_us: Numbers
    stack: Numbers

    def __len__(self) -> int:
        return len(self.action)

    @property
    def failed_at(self) -> int:
        """The last allocation that failed; where none did, the number of events."""
        failed = np.flatnonzero(self.action == OOM)
        return int(failed[-1]) if len(failed) else len(self)


class HeldBlock(Struct, frozen=True):
    """A part of a segment; `requested` is below `size` where the allocator rounded it up."""

    addr: int
    size: int
    requested: int
    state: str
    stack: int

    @property
    def is_live(self) -> bool:
        """Whether a tensor holds it, or a stream may still use it."""
        return self.state != "inactive"


class Segment(Struct, frozen=True):
    """Memory that the allocator holds from the driver; `graph` is that of a CUDA graph's pool."""

    device: int
    addr: int
    size: int
    graph: bool
    expandable: bool
    blocks: Sequence[HeldBlock]


class Mark(Struct, frozen=True):
    """The start or the end of an annotated range, such as `Optimizer.step#AdamW.step`."""

    name: str
    is_start: bool
    time_us: int


class Owner(Struct, frozen=True):
    """A tensor that the recording program named: a parameter, its gradient, or optimizer state."""

    addr: int
    kind: str
    name: str


class Snapshot(Struct, frozen=True):
    """What one file holds. `stacks` have their innermost frame first; the first one is empty.

    `expandable` is whether segments may grow. `lost` counts the records that could not be read, by
    reason.
    """

    path: str
    histories: Sequence[History]
    segments: Sequence[Segment]
    frames: Sequence[StackFrame]
    stacks: Sequence[tuple[int, ...]]
    marks: Sequence[Mark]
    expandable: bool
    owners: Sequence[Owner] = ()
    card: str = ""
    card_bytes: int = 0
    lost: dict[str, int] = field(default_factory=dict)
