"""What a snapshot's events and stacks become: columns, and numbers for frames and stacks."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from foretrace.read.event_layouts import ACTION_KEY, COLUMNS, STACK_KEY
from foretrace.schema.snapshot import ACTION, Numbers, StackFrame

LARGEST = (1 << 63) - 1
_NO_EVENTS = np.zeros(0, np.int64)


class StackNumber(int):
    """Stands for a list of frames."""


class FrameNumber(int):
    """Stands for a frame."""


class PackedStacks(Sequence[tuple[int, ...]]):
    """Stacks as tuples of the numbers of their frames; held with four bytes for each."""

    def __init__(self, packed: list[bytes]) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(at, slice):
            return [tuple(array("i", each)) for each in self._packed[at]]
        return tuple(array("i", self._packed[at]))


class StackTable:
    """Numbers every frame and every stack once; the first stack is empty."""

    def __init__(self, lost: Counter[str]) -> None:
        self.lost = lost
        self.frames: dict[StackFrame, int] = {}
        self.packed: dict[bytes, int] = {b"": 0}

    def number(self, frames: Any) -> int:
        """The number of a stack."""
        if type(frames) is StackNumber:
            return int(frames)
        if type(frames) is not list or not frames:
            return 0
        found = array("i", (at for each in frames if (at := self.frame(each)) is not None))
        if len(found) < len(frames):
            self.lost["frames that are no records"] += len(frames) - len(found)
        return self.packed.setdefault(found.tobytes(), len(self.packed))

    def frame(self, frame: Any) -> int | None:
        """The number of a frame."""
        if type(frame) is FrameNumber:
            return int(frame)
        if type(frame) is not dict:
            return None
        name, file = plain_text(frame.get("name")), plain_text(frame.get("filename"))
        made = StackFrame(name, file, whole(frame.get("line")) or 0)
        return self.frames.setdefault(made, len(self.frames))


def whole(value: Any) -> int | None:
    """A whole number from zero to the largest that a column holds, else None."""
    return value if type(value) is int and 0 <= value <= LARGEST else None


def plain_text(value: Any) -> str:
    """Text; anything else has none (that of a nested list may take forever)."""
    return value if isinstance(value, str) else ""


class DeviceEvents:
    """The events of one device as columns: action, address, size, time, stream, stack."""

    def __init__(self) -> None:
        self.parts: list[list[Numbers]] = []
        self.rows: list[tuple[int, ...]] = []
        self.count = 0

    def add(self, event: Any, stacks: StackTable) -> str:
        """Take one event; says why it cannot be."""
        if type(event) is not dict:
            return "events that are no records"
        # an allocation that failed has no address, but the bytes that the driver had left
        event = {"addr": event.get("device_free", 0), **event}
        numbers = [whole(event.get(name, 0)) for name in COLUMNS]
        if None in numbers:
            return "events with a number that cannot be one"
        action = ACTION.get(plain_text(event.get(ACTION_KEY)), ACTION["other"])
        self.rows.append((action, *numbers, stacks.number(event.get(STACK_KEY))))  # type: ignore[arg-type]
        self.count += 1
        return ""

    def add_rows(self, columns: list[Numbers]) -> None:
        """Take many events."""
        self._settle()
        self.parts.append(columns)
        self.count += len(columns[0])

    def _settle(self) -> None:
        if self.rows:
            table = np.array(self.rows, np.int64).reshape(-1, 6)
            self.parts.append(list(np.ascontiguousarray(table.T)))
            self.rows = []

    def columns(self) -> list[Numbers]:
        """All events; one column after the other, so that nothing is held twice for long."""
        self._settle()
        made = []
        for _ in range(6):
            pieces = [part.pop(0) for part in self.parts]
            made.append(np.concatenate([_NO_EVENTS, *pieces], dtype=np.int64))
        self.parts = []
        return made
