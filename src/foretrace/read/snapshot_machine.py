"""The stack machine for allocator snapshots: events become columns while they are read.

The events of a device may fill gigabytes, so no more than one batch of them exists as dicts. A
stack becomes a number as soon as it is the value of `frames`, and so does each frame in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.base import budget
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError
from foretrace.base.patterns import regex
from foretrace.read.event_layouts import (
    ACTION_KEY,
    COLUMNS,
    MOST_LAYOUTS,
    NOTHING,
    STACK_KEY,
    WIDTH,
    DeviceEvents,
    EventLayout,
    EventRows,
    FrameNumber,
    StackNumber,
    StackTable,
    add_layout,
    learn,
    plain_text,
    read_window,
)
from foretrace.read.kineto.parallel import cores, may_fork
from foretrace.read.pickles import Forgotten, PickleDamage, PlainPickle
from foretrace.read.snapshot_ahead import WORTHWHILE, ReadAhead
from foretrace.schema.snapshot import ACTION, Numbers

TRACES_KEY = "device_traces"
AHEAD = 64 << 10  # fewer bytes than that are not worth a comparison with layouts
LITTLE = 1 << 10  # the same, where another process has compared what follows
SETTLED = 32 << 20  # bytes after which new layouts are rare
MOST_MISSED = 100  # events of a window before it is compared here: as much work
FEW = 64  # events that are tried at once after one that no layout fits
LEARNED_PER = 20_000  # events that layouts found, for each further layout
MOST_LISTS = 100_000  # of frames that are known by their bytes
_FRAMES = regex(rb"(?:\((?:h.|j.{4})++e)*+|(?:h.|j.{4})a", re.DOTALL)
_FRAME = regex(rb"h(.)|j(.{4})", re.DOTALL)


class _Codes:
    """What the numbers of many items stand for, in four bytes each.

    Above zero: a stack. Below zero: a text. Zero: nothing, or an event.
    """

    def __init__(self) -> None:
        self.codes = np.zeros(1 << 16, np.int32)

    def store(self, numbers: Numbers, codes: Numbers) -> None:
        """Remember codes."""
        most = int(numbers.max(initial=0))
        if most >= len(self.codes):
            grown = np.zeros(max(most + 1, len(self.codes) * 3 // 2), np.int32)
            grown[: len(self.codes)] = self.codes
            self.codes = grown
        self.codes[numbers] = codes

    def get(self, number: int) -> int:
        """The code of one item."""
        return int(self.codes[number]) if 0 <= number < len(self.codes) else 0

    def many(self, numbers: Numbers) -> Numbers:
        """The codes of items; zero for those beyond the last."""
        inside = np.minimum(numbers, len(self.codes) - 1)
        return np.where(numbers == inside, self.codes[inside], 0).astype(np.int64)


class SnapshotMachine(PlainPickle):
    """Reads a snapshot; the lists in `device_traces` are `DeviceEvents` in the end."""

    def __init__(
        self, label: str, blocks: Iterator[bytes], limits: Limits, likely_size: int = 0
    ) -> None:
        super().__init__(label, blocks, limits)
        self.likely_size = likely_size  # of a plain file; 0 for a packed one
        self.stacks = StackTable(self.lost)
        self.traces: list[Any] | None = None
        self.devices: list[DeviceEvents] = []
        self.events = 0
        self.codes_of = _Codes()
        self.written: list[str] = []  # texts that have a code
        self.highest = -1  # number of an item
        self.named_dicts: list[int] = []
        self.named_lists: list[int] = []
        self.event_at = -1  # where the event on the stack begins
        self.runs = _Runs(self)

    def push(self, value: Any) -> None:
        """Put a value on the stack: the list of a device becomes columns."""
        self.stack.append(value)
        if type(value) is list:
            if self._is_traces():
                self.traces = value
            elif self.traces is not None and self._is_device():
                self.stack[-1] = DeviceEvents()
                self.devices.append(self.stack[-1])

    def _is_traces(self) -> bool:
        if self.traces is not None or self.stack[-2:-1] != [TRACES_KEY]:
            return False
        depth = len(self.marked)
        return len(self.stack) == 3 if depth == 0 else depth == 1 and len(self.marked[0]) == 1

    def _is_device(self) -> bool:
        """One device follows the list itself, several follow a mark."""
        if self.stack[-2:-1] == [self.traces] and self.stack[-2] is self.traces:
            return True
        return bool(self.marked and self.marked[-1] and self.marked[-1][-1] is self.traces)

    def extend(self, target: Any, values: list[Any]) -> None:
        """Add to a list, or to the events of a device."""
        if type(target) is DeviceEvents:
            self.flush(target, values)
            self.event_at = -1
        else:
            super().extend(target, values)

    def update(self, target: Any, items: list[Any]) -> None:
        """Set keys of a dict; a list of frames becomes a number."""
        super().update(target, items)
        if type(frames := target.get(STACK_KEY)) is list:
            # the number of a stack; its list and its frames are not needed any more
            number = self.stacks.number(frames)
            if self.named_lists and self.memo.get(self.named_lists[-1]) is frames:
                name = self.named_lists.pop()
                while self.named_dicts and self.named_dicts[-1] > name:
                    inside = self.named_dicts.pop()
                    frame = self.stacks.frame(self.memo[inside])
                    if frame is not None:
                        self.memo[inside] = FrameNumber(frame)
                if name < self.base + self.at:  # a number beyond that leaves a gap
                    self.codes_of.store(np.array([name]), np.array([number + 1]))
                    del self.memo[name]
                else:
                    self.memo[name] = StackNumber(number)
            target[STACK_KEY] = StackNumber(number)

    def remember(self, number: int, value: Any) -> None:
        """Number a value; to use a number twice spoils what was learned from the first."""
        if number <= self.highest:
            self.runs.forget()
            if self.codes_of.get(number):
                self.codes_of.codes[number] = 0
        self.highest = max(self.highest, number)
        self.named += 1
        self.memo[number] = value
        if type(value) is dict:
            self.named_dicts.append(number)
        elif type(value) is list:
            self.named_lists.append(number)

    def recall(self, number: int) -> Any:
        """What was numbered so; an event that became a row is `Forgotten`."""
        if number in self.memo:
            return self.memo[number]
        code = self.codes_of.get(number)
        if code:
            return StackNumber(code - 1) if code > 0 else self.written[-code - 1]
        if 0 <= number <= self.highest and self.events:
            return Forgotten
        raise PickleDamage(f"refers to item {number:,}, which is not there")

    def code_of_text(self, raw: bytes) -> int:
        """The code of a text that many events have."""
        text = self.text(raw)
        if text not in self.written:
            self.written.append(text)
        return -1 - self.written.index(text)

    def flush(self, target: DeviceEvents, events: list[Any]) -> None:
        """Make rows of events."""
        self.count(len(events))
        for event in events:
            if problem := target.add(event, self.stacks):
                self.lost[problem] += 1
        gone = {id(event) for event in events}
        for name in self.named_dicts:
            if id(self.memo.get(name)) in gone:
                del self.memo[name]
        self.named_dicts, self.named_lists = [], []

    def count(self, events: int) -> None:
        """Count events; raises `LimitError` for too many."""
        self.events += events
        if self.events > self.limits.events:
            what, hint = f"more than {self.limits.events:,} events", raised_by("events")
            raise LimitError("E_TOO_MANY", self.label, what, offset=self.offset, hint=hint)

    def _op_empty_dict(self) -> None:
        below = self.marked[-1] if self.marked else ()
        target = below[-1] if below else None
        if type(target) is DeviceEvents:  # the items above the mark belong to a device
            self.at -= 1
            # make a row of the event before, then take as many as have a known layout
            start = self.event_at - self.base
            if start >= 0 and len(self.stack) == 1:
                self.runs.learn(self.data[start : self.at])
            if self.stack:
                events, self.stack = self.stack, []
                self.flush(target, events)
            self.runs.take(target)
            self.event_at = self.base + self.at
            self.at += 1
        self.stack.append({})

    def end(self) -> None:
        """Stop the process that reads ahead."""
        if self.runs.ahead:
            self.runs.ahead.end()

    def salvage(self) -> dict[str, Any]:
        """The snapshot as far as it was built when damage ended the reading."""
        frames = [*self.marked, self.stack]
        if not frames[0] or type(frames[0][0]) is not dict:
            return {}
        root: dict[str, Any] = frames[0][0]
        body = frames[1] if len(frames) > 1 else frames[0][1:]
        for level in range(1, len(frames)):
            below = frames[level - 1]
            target = below[-1] if below else None
            if type(target) is DeviceEvents or (level == 2 and type(target) is list):
                whole = frames[level] if level == len(frames) - 1 else frames[level][:-1]
                self.extend(target, [each for each in whole if each != {}])
                self.lost["records cut off by damage"] += 1
                break
        for key, value in zip(body[::2], body[1::2], strict=False):
            if type(key) is str:
                root[key] = value
        return root | {TRACES_KEY: self.devices}


class _Runs:
    """Takes events of known layouts out of the machine's window."""

    def __init__(self, machine: SnapshotMachine) -> None:
        self.machine = machine
        self.layouts: list[EventLayout] = []
        self.learned, self.found = 0, 0
        self.most = FEW
        self.data, self.seen = b"", -1  # the window of `rows`, and what was learned until then
        self.rows: EventRows | None = None
        self.lists: dict[bytes, int] = {}
        self.actions: dict[int, int] = {NOTHING: ACTION["other"]}
        self.ahead: ReadAhead | None = None
        self.missed, self.trusts = 0, True

    def forget(self) -> None:
        """Start again: a number has another meaning now."""
        self.layouts, self.lists, self.data = [], {}, b""
        self.learned, self.trusts = self.learned + 1, False
        self.actions = {NOTHING: ACTION["other"]}

    def learn(self, raw: bytes) -> None:
        """Learn the layout of an event that the machine has read."""
        if self.learned >= MOST_LAYOUTS + self.found // LEARNED_PER:
            return
        layout = learn(raw, self.machine.recall, self.machine.code_of_text)
        if layout is None:
            return
        if any(layout.words == each.words for each in self.layouts):
            # an event of a known layout came to the machine: the other process may not know it
            self.missed += 1
            if self.ahead and self.missed > MOST_MISSED:
                self.missed, self.seen = 0, -1
            return
        add_layout(self.layouts, layout)
        self.learned += 1
        if self.ahead:
            self.ahead.fresh.append(layout)

    def take(self, target: DeviceEvents) -> None:
        """Take events while they have known layouts; the machine stands at the next one then."""
        machine = self.machine
        while self.layouts and self._is_ahead():
            rows = self._window()
            first, last = rows.run(machine.at) if rows else (0, 0)
            if rows is None or last <= first:
                return
            last = min(last, first + self.most)
            run = _Run(machine, self, rows, first, last)
            self.most = 2 * self.most if run.last == last else FEW
            if not run.columns:
                return
            target.add_rows(run.columns)
            machine.at = int(rows.at[run.last])
            self.found += run.last - first
            machine.count(run.last - first)

    def _is_ahead(self) -> bool:
        """Whether there is enough ahead to compare; reads on where the window is almost used."""
        machine = self.machine
        ahead = len(machine.data) - machine.at
        if ahead < (LITTLE if self.ahead else AHEAD) and not machine.exhausted:
            self._start_reading_ahead()
            if self.ahead:
                self.ahead.head = None
            machine.refill(ahead + 1)
            budget.check()
            if self.ahead and self.trusts and (rows := self.ahead.rows(ahead)):
                self.rows, self.missed = rows, 0
                self.data, self.seen = machine.data, self.learned
        return len(machine.data) - machine.at > WIDTH

    def _start_reading_ahead(self) -> None:
        """Let another process read the rest, once the layouts are known and much is left."""
        machine = self.machine
        left = machine.likely_size - machine.offset
        if self.ahead or machine.base < SETTLED or left < WORTHWHILE:
            return
        if cores() > 1 and may_fork():
            self.ahead = ReadAhead(machine.blocks, machine.dropped, self.layouts)
            machine.blocks = self.ahead.windows()

    def _window(self) -> EventRows | None:
        machine = self.machine
        if self.data is not machine.data or self.seen != self.learned:
            self.data, self.seen = machine.data, self.learned
            self.rows = read_window(self.data, machine.at, self.layouts)
        return self.rows

    def list_number(self, raw: bytes) -> int | None:
        """The number of the stack that a list of references stands for."""
        if raw in self.lists:
            return self.lists[raw]
        if not _FRAMES.fullmatch(raw):
            return None
        numbers = [int.from_bytes(a or b, "little") for a, b in _FRAME.findall(raw)]
        try:
            number = self.machine.stacks.number([self.machine.recall(each) for each in numbers])
        except PickleDamage:
            return None
        if len(self.lists) >= MOST_LISTS:
            self.lists.clear()
        self.lists[raw] = number
        return number

    def action(self, number: int) -> int | None:
        """What the event does whose action is this item."""
        try:
            name = plain_text(self.machine.recall(number))
        except PickleDamage:
            return None
        self.actions[number] = ACTION.get(name, ACTION["other"])
        return self.actions[number]


class _Run:
    """Events that follow each other, from row `first` to row `last` (exclusive).

    The run becomes shorter at the first event that must be read opcode by opcode.
    """

    def __init__(
        self, machine: SnapshotMachine, runs: _Runs, rows: EventRows, first: int, last: int
    ) -> None:
        self.machine, self.runs, self.rows = machine, runs, rows
        self.first, self.last = first, last
        counted = rows.counted[first:last]
        base = machine.named + np.cumsum(counted) - counted
        self.shift = np.where(counted > 0, base, 0)
        self.event, self.stack = self._absolute(rows.event), self._absolute(rows.stack)
        self.texts = [(self._absolute(place), code[first:last]) for place, code in rows.texts]
        self._keep_order()
        stacks = self._lists()
        actions = self._actions()
        self._store(stacks)
        stacks = self._references(stacks)
        self.columns: list[Numbers] = []
        if size := self.last - first:
            # copies: a view would hold all columns of the window
            numbers = (rows.numbers[name][first : self.last].copy() for name in COLUMNS)
            self.columns = [
                actions[:size].astype(np.int8),
                *numbers,
                stacks[:size].astype(np.int32),
            ]

    @property
    def size(self) -> int:
        return self.last - self.first

    def _absolute(self, places: Numbers) -> Numbers:
        mine = places[self.first : self.last]
        return np.where(mine == NOTHING, NOTHING, mine + self.shift)

    def _cut(self, good: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """End the run at the first row that is not good."""
        bad = np.flatnonzero(~good[: self.size])
        if len(bad):
            self.last = self.first + int(bad[0])

    def _keep_order(self) -> None:
        """Numbers must rise from item to item, as every pickler counts them."""
        places = np.stack([self.event, *(place for place, _ in self.texts), self.stack])
        most = np.maximum.accumulate(np.append(self.machine.highest, places.max(axis=0)))
        least = np.where(places == NOTHING, np.iinfo(np.int64).max, places).min(axis=0)
        ends = self.machine.base + len(self.machine.data)
        self._cut((least > most[:-1]) & (most[1:] < max(ends, self.machine.highest + 1)))
        self.most = most

    def _lists(self) -> Numbers:
        """The number of the stack of each event that writes one; -1 for the others."""
        data, upto = self.machine.data, self.rows.upto[self.first : self.last]
        begins = self.rows.first[self.first : self.last]
        made = np.full(self.size, NOTHING, np.int64)
        opens = np.flatnonzero(begins)
        starts, ends = begins[opens].tolist(), upto[opens].tolist()
        # a slice at a time: thousands of them would wake the garbage collector
        lists = map(data.__getitem__, map(slice, starts, ends))
        found = list(map(self.runs.lists.get, lists))
        unknown = [at for at, number in enumerate(found) if number is None] if None in found else ()
        for at in unknown:
            found[at] = self.runs.list_number(data[starts[at] : ends[at]])
            if found[at] is None:
                self.last = self.first + int(opens[at])
                del found[at:]
                break
        made[opens[: len(found)]] = np.array(found, np.int64)
        return made

    def _actions(self) -> Numbers:
        wanted = self.rows.numbers[ACTION_KEY][self.first : self.last]
        made = np.full(self.size, ACTION["other"], np.int64)
        left = np.ones(self.size, bool)
        while left.any():
            number = int(wanted[np.argmax(left)])
            action = self.runs.actions.get(number)
            action = self.runs.action(number) if action is None else action
            if action is None:
                self._cut(wanted != number)
                break
            same = wanted == number
            made[same] = action
            left &= ~same
        return made

    def _store(self, stacks: Numbers) -> None:
        """Remember what later events may refer to."""
        codes = self.machine.codes_of
        stack, size = self.stack[: self.size], self.size
        named = (stack >= 0) & (stacks[:size] >= 0)
        codes.store(stack[named], stacks[:size][named] + 1)
        for place, code in self.texts:
            there = place[:size] >= 0
            codes.store(place[:size][there], code[:size][there])

    def _references(self, stacks: Numbers) -> Numbers:
        """The stacks of events that refer to a list which came before."""
        machine, before = self.machine, self.size
        wanted = self.rows.numbers[STACK_KEY][self.first : self.last]
        refers = wanted >= 0
        found = machine.codes_of.many(np.where(refers, wanted, 0))
        own = np.where(self.event >= 0, self.event, np.iinfo(np.int64).max)[: self.size]
        self._cut(~refers | ((found > 0) & (wanted < own)))
        for places in (self.stack, *(place for place, _ in self.texts)):
            unused = places[self.size : before]
            machine.codes_of.store(unused[unused >= 0], np.zeros(1, np.int64))
        self._advance()
        return np.where(refers, found - 1, np.maximum(stacks[:before], 0))

    def _advance(self) -> None:
        """Count what the events of the run have numbered."""
        if self.size:
            machine = self.machine
            places = (self.event, self.stack, *(place for place, _ in self.texts))
            machine.named += sum(int((place[: self.size] >= 0).sum()) for place in places)
            machine.highest = int(self.most[self.size])
