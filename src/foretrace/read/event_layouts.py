"""Reads runs of allocator events out of a pickle without executing it opcode by opcode.

All events of a file are written by one loop: the keys of an event are the same references, and only
numbers differ. An event that the stack machine has read gives a layout: which of its bytes are
fixed, and where its numbers are. Every place of a window that may begin an event (the opcode of an
empty dict) is then compared with the known layouts at once.

This is exact. A layout fixes every opcode and every length up to the stack. An event counts only if
the next one begins where it ends, so a run that starts at an opcode holds nothing but opcodes. What
has no layout goes through the stack machine, which learns from it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from msgspec import Struct, field

from foretrace.schema.snapshot import ACTION, Numbers, StackFrame

COLUMNS = ("addr", "size", "time_us", "stream")
STACK_KEY = "frames"
ACTION_KEY = "action"
NUMBERS = (*COLUMNS, ACTION_KEY, STACK_KEY)
WIDTH = 128  # bytes of an event that are compared; 75 to 95 come before the stack
_WORDS = WIDTH // 8
MOST_TEXTS = 2  # of one event that are written out: the compile context and the user's metadata
MOST_LAYOUTS = 64
_INTS = {0x4B: 1, 0x4D: 2, 0x4A: 4}  # BININT1, BININT2, BININT
_REFS = {0x68: 1, 0x6A: 4}  # BINGET, LONG_BINGET
_PUTS = {0x71: 1, 0x72: 4}  # BINPUT, LONG_BINPUT
_CONSTANTS = b"N\x88\x89"
_LONG1, _FLOAT, _MEMOIZE, _DICT, _LIST, _MARK, _SETITEMS = 0x8A, 0x47, 0x94, 0x7D, 0x5D, 0x28, 0x75
_TEXT1, _TEXT4 = 0x8C, 0x58
NOTHING = -1  # in a column of numbers of items: the event numbers none

Slot = tuple[int, int]  # first byte and how many


class EventLayout(Struct):
    """One way in which the bytes of an event lie, up to its stack.

    `numbered` says which numbers its items get: those in slots, or (in protocol 4 and later) the
    next ones, which are counted from the event's first.
    """

    words: list[tuple[int, int, int]] = field(default_factory=list)  # which, mask, value
    size: int = 0
    slots: dict[str, Slot] = field(default_factory=dict)
    event: Slot | int = NOTHING
    stack: Slot | int = NOTHING
    texts: list[tuple[Slot | int, int]] = field(default_factory=list)  # and its code
    counted: int = 0
    is_open: bool = False  # a list of frames follows
    hits: int = 0


class _Shape:
    """Collects the fixed and the free bytes of one event, token by token."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.mask = bytearray()
        self.layout = EventLayout()

    def fixed(self, size: int) -> None:
        self.mask += b"\xff" * size
        self.at += size

    def free(self, size: int) -> Slot:
        slot = (self.at, size)
        self.mask += b"\0" * size
        self.at += size
        return slot

    @property
    def code(self) -> int:
        return self.raw[self.at]

    def numbered(self) -> Slot | int:
        """The number that the item before gets."""
        if self.code == _MEMOIZE:
            self.fixed(1)
            self.layout.counted += 1
            return self.layout.counted - 1
        if self.code in _PUTS:
            size = _PUTS[self.code]
            self.fixed(1)
            return self.free(size)
        return NOTHING

    def reference(self) -> int | None:
        """The number of the item that is referred to; its bytes are fixed."""
        size = _REFS.get(self.code)
        if size is None:
            return None
        number = int.from_bytes(self.raw[self.at + 1 : self.at + 1 + size], "little")
        self.fixed(1 + size)
        return number

    def number(self) -> Slot | None:
        """Where a number that is written out stands."""
        if self.code in _INTS:
            size = _INTS[self.code]
            self.fixed(1)
            return self.free(size)
        if self.code == _LONG1 and 4 <= self.raw[self.at + 1] <= 8:  # with a sign, as BININT
            size = self.raw[self.at + 1]
            self.fixed(2)
            return self.free(size)
        return None

    def done(self) -> EventLayout | None:
        """The layout, if it is short enough to be compared."""
        if self.at > WIDTH - 8:
            return None
        mask = bytes(self.mask).ljust(WIDTH, b"\0")
        value = bytes(
            a & b for a, b in zip(self.raw[: self.at].ljust(WIDTH, b"\0"), mask, strict=True)
        )
        masks, values = np.frombuffer(mask, "<u8"), np.frombuffer(value, "<u8")
        found = [(at, int(masks[at]), int(values[at])) for at in range(_WORDS) if masks[at]]
        # the first words are those of every layout: what tells them apart comes first
        self.layout.words, self.layout.size = [*found[2:], *found[:2]], self.at
        return self.layout


def learn(
    raw: bytes, recall: Callable[[int], Any], code_of: Callable[[bytes], int]
) -> EventLayout | None:
    """The layout of an event that was read, or None where it has an unusual one."""
    shape = _Shape(raw)
    try:
        layout = shape.layout
        if shape.code != _DICT:
            return None
        shape.fixed(1)
        layout.event = shape.numbered()
        if shape.code != _MARK:
            return None
        shape.fixed(1)
        while shape.code != _SETITEMS:
            number = shape.reference()
            key = recall(number) if number is not None else None
            if not isinstance(key, str):
                return None
            if key == STACK_KEY and shape.code == _LIST:
                shape.fixed(1)
                layout.stack, layout.is_open = shape.numbered(), True
                return shape.done()
            if not _value(shape, key, code_of):
                return None
            if key == STACK_KEY and shape.code != _SETITEMS:
                return None
        shape.fixed(1)
        return shape.done() if shape.at == len(shape.raw) else None
    except IndexError:  # it ends in the middle: a frame of the file lies inside
        return None


def _value(shape: _Shape, key: str, code_of: Callable[[bytes], int]) -> bool:
    """Take the value of a key; False where it is of another kind than events have there."""
    if (slot := shape.number()) is not None:
        if key in COLUMNS:
            shape.layout.slots[key] = slot
        return key not in (ACTION_KEY, STACK_KEY)
    if shape.code in _REFS:
        size = _REFS[shape.code]
        shape.fixed(1)
        shape.layout.slots[key] = shape.free(size)
        return key not in COLUMNS
    if key in NUMBERS:
        return False
    if shape.code in _CONSTANTS:
        shape.fixed(1)
    elif shape.code == _FLOAT:
        shape.fixed(1)
        shape.free(8)
    else:
        return _text(shape, code_of)
    return True


def _text(shape: _Shape, code_of: Callable[[bytes], int]) -> bool:
    head = {_TEXT1: 1, _TEXT4: 4}.get(shape.code)
    if head is None or len(shape.layout.texts) == MOST_TEXTS:
        return False
    at = shape.at + 1
    size = int.from_bytes(shape.raw[at : at + head], "little")
    text = shape.raw[at + head : at + head + size]
    shape.fixed(1 + head + size)
    number = shape.numbered()
    if number != NOTHING:
        shape.layout.texts.append((number, code_of(text)))
    return True


def add_layout(layouts: list[EventLayout], layout: EventLayout) -> None:
    """Know one more layout; the one that was found least makes room for it."""
    if len(layouts) == MOST_LAYOUTS:
        layouts.remove(min(layouts, key=lambda each: each.hits))
    layouts.append(layout)


class EventRows(Struct):
    """The events of a window that have a known layout, one row each, in order.

    `upto` is where the list of frames ends; `first` is where it begins, and 0 where there is none.
    `breaks` are the rows after which the next event does not begin where this one ends.
    """

    at: Numbers
    first: Numbers
    upto: Numbers
    numbers: dict[str, Numbers]
    event: Numbers
    stack: Numbers
    texts: list[tuple[Numbers, Numbers]]
    counted: Numbers
    breaks: Numbers

    def packed(self) -> list[Numbers]:
        """The columns one after the other, for another process."""
        fixed = (self.at, self.first, self.upto, self.event, self.stack, self.counted)
        texts = (column for pair in self.texts for column in pair)
        return [*fixed, *self.numbers.values(), *texts, self.breaks]

    @classmethod
    def unpacked(cls, table: Numbers, count: int, texts: int, breaks: int, by: int) -> EventRows:
        """The rows out of another process; their window now has `by` bytes before it."""
        size = (12 + 2 * texts) * count
        at, first, upto, event, stack, counted, *columns = table[:size].reshape(-1, count)
        numbers = dict(zip(NUMBERS, columns, strict=False))
        pairs = list(zip(columns[6::2], columns[7::2], strict=True))
        first = np.where(first > 0, first + by, 0)
        ends = table[size : size + breaks]
        return cls(at + by, first, upto + by, numbers, event, stack, pairs, counted, ends)

    def run(self, at: int) -> tuple[int, int]:
        """The first and the last row (exclusive) of the run that begins at a byte."""
        row = int(np.searchsorted(self.at, at))
        if row == len(self.at) or self.at[row] != at:
            return 0, 0
        return row, int(self.breaks[np.searchsorted(self.breaks, row)])


def read_window(data: bytes | memoryview, at: int, layouts: list[EventLayout]) -> EventRows | None:
    """Compare every place of the window from `at` on with the layouts."""
    if len(data) - at <= WIDTH:
        return None
    buffer = np.frombuffer(data, np.uint8)
    starts = np.flatnonzero(buffer[at : len(data) - WIDTH] == _DICT) + at
    width = 8 * (max(layout.size for layout in layouts) // 8 + 1)
    heads = np.ndarray((len(data) - WIDTH,), f"V{width}", data, strides=(1,))[starts]
    words = np.ascontiguousarray(heads.view("<u8").reshape(len(starts), -1).T)
    which = _matched(words, layouts)
    rows = np.flatnonzero(which >= 0)
    if not len(rows):
        return None
    return _Decoder(buffer, starts[rows], which[rows], words[:, rows], layouts).rows()


def _matched(words: np.ndarray[Any, Any], layouts: list[EventLayout]) -> Numbers:
    """The number of the layout of each place, -1 for none."""
    which = np.full(words.shape[1], -1)
    left = _plausible(words, layouts)
    for number in sorted(range(len(layouts)), key=lambda at: -layouts[at].hits):
        rows = left
        for at, mask, value in layouts[number].words:
            rows = rows[(words[at][rows] & np.uint64(mask)) == np.uint64(value)]
            if not len(rows):
                break
        else:
            layouts[number].hits += len(rows)
            which[rows] = number
            left = left[which[left] < 0]
    return which


def _plausible(words: np.ndarray[Any, Any], layouts: list[EventLayout]) -> Numbers:
    """The places whose first word has what all layouts have there."""
    firsts = [word for layout in layouts for word in layout.words if word[0] == 0]
    mask, value = firsts[0][1], firsts[0][2]
    for _, other, wanted in firsts:
        mask &= other & ~(value ^ wanted)
    return np.flatnonzero((words[0] & np.uint64(mask)) == np.uint64(value & mask))


class _Decoder:
    """The numbers of matched events."""

    def __init__(
        self,
        buffer: np.ndarray[Any, np.dtype[np.uint8]],
        at: Numbers,
        which: Numbers,
        words: np.ndarray[Any, Any],
        layouts: list[EventLayout],
    ) -> None:
        self.buffer, self.at, self.words = buffer, at, words
        self.groups = [
            (layout, rows)
            for number, layout in enumerate(layouts)
            if len(rows := np.flatnonzero(which == number))
        ]
        self.good = np.ones(len(at), bool)

    def rows(self) -> EventRows:
        """Everything that an event has before its stack."""
        numbers = {name: self.column(name) for name in NUMBERS}
        event = self.places([layout.event for layout, _ in self.groups])
        stack = self.places([layout.stack for layout, _ in self.groups])
        texts = []
        for at in range(MOST_TEXTS):
            wanted = [
                each.texts[at] if at < len(each.texts) else (NOTHING, 0) for each, _ in self.groups
            ]
            if any(code for _, code in wanted):
                codes = self.constant([code for _, code in wanted])
                texts.append((self.places([place for place, _ in wanted]), codes))
        counted = self.constant([layout.counted for layout, _ in self.groups])
        first, upto = self._ends()
        breaks = np.flatnonzero(~self.good)
        return EventRows(self.at, first, upto, numbers, event, stack, texts, counted, breaks)

    def constant(self, values: list[int]) -> Numbers:
        """A column that has one value for each layout."""
        made = np.zeros(len(self.at), np.int64)
        for (_, rows), value in zip(self.groups, values, strict=True):
            made[rows] = value
        return made

    def column(self, name: str) -> Numbers:
        """The numbers under a key, zero where a layout has none; a negative one spoils its row."""
        missing = 0 if name in COLUMNS else NOTHING
        made = np.full(len(self.at), missing, np.int64)
        for layout, rows in self.groups:
            if (slot := layout.slots.get(name)) is not None:
                found, size = self.slot(rows, slot), slot[1]
                if size >= 4 and name in COLUMNS:  # those below are unsigned
                    self.good[rows] &= (found >> np.uint64(8 * size - 1)) == 0
                made[rows] = found.view(np.int64)
        return made

    def places(self, wanted: list[Slot | int]) -> Numbers:
        """The numbers that items get; those that are counted begin at 0."""
        made = np.full(len(self.at), NOTHING, np.int64)
        for (_, rows), place in zip(self.groups, wanted, strict=True):
            made[rows] = place if isinstance(place, int) else self.slot(rows, place).view(np.int64)
        return made

    def slot(self, rows: Numbers, slot: Slot) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The bytes of a slot as a number; they may lie in two words."""
        start, size = slot
        word, shift = start // 8, 8 * (start % 8)
        value: np.ndarray[Any, np.dtype[np.uint64]] = self.words[word][rows] >> np.uint64(shift)
        if shift + 8 * size > 64:
            value |= self.words[word + 1][rows] << np.uint64(64 - shift)
        return value & np.uint64((1 << 8 * size) - 1)

    def _ends(self) -> tuple[Numbers, Numbers]:
        """Where the frames of each event begin and end; an event whose end is unknown is spoiled.

        After an event comes the next one, or the end of a batch and the begin of another.
        """
        end = self.at + self.constant([layout.size for layout, _ in self.groups])
        is_open = self.constant([layout.is_open for layout, _ in self.groups]) > 0
        following = np.append(self.at[1:], 0)
        byte = self.buffer
        batch = (byte[following - 2] == ord("e")) & (byte[following - 1] == _MARK)
        closing = following - np.where(batch, 3, 1)
        good = np.where(
            is_open, (closing >= end) & (byte[closing] == _SETITEMS), closing + 1 == end
        )
        good[-1:] = False
        self.good &= good
        return np.where(is_open, end, 0), closing


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
