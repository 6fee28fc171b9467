"""Reads a snapshot of torch's allocator. Nothing in the file is executed.

A pickle may name any function of the machine. This reader accepts none: it builds numbers, text,
lists, tuples and dicts, and refuses the file at the first name of a class or a function.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from foretrace.base.errors import TraceError
from foretrace.schema.snapshot import (
    ACTION,
    HeldBlock,
    History,
    Mark,
    Owner,
    Segment,
    Snapshot,
    StackFrame,
)

OWN_KEY = "foretrace"  # what `record --memory` adds; other readers ignore it
_COLUMNS = ("addr", "size", "time_us", "stream")
_LARGEST = (1 << 63) - 1


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain containers; a name of a class or a function ends the load."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which plain data does not")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it refers to data outside the file")


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file; what is no snapshot raises `TraceError`."""
    data = Path(path).read_bytes()
    try:
        tree = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        raise TraceError("E_NOT_A_SNAPSHOT", path, f"not a pickle of plain data: {error}") from None
    return from_tree(path, tree)


def from_tree(path: str, tree: Any) -> Snapshot:
    """The tables of an unpickled snapshot."""
    if not isinstance(tree, dict) or not isinstance(tree.get("segments"), list):
        hint = "torch.cuda.memory._dump_snapshot writes one"
        raise TraceError("E_NOT_A_SNAPSHOT", path, "no allocator snapshot", hint=hint)
    stacks, lost = _Stacks(), Counter[str]()
    traces = tree.get("device_traces") or []
    histories = [_history(at, events, stacks, lost) for at, events in enumerate(traces)]
    segments = [
        found for each in tree["segments"] if (found := _segment(each, stacks, lost)) is not None
    ]
    own = tree.get(OWN_KEY)
    own = own if isinstance(own, dict) else {}
    return Snapshot(
        path,
        [history for history in histories if len(history)],
        segments,
        stacks.frames,
        list(stacks.stacks),
        list(_marks(tree.get("external_annotations") or [], lost)),
        _settings(tree.get("allocator_settings")),
        list(_owners(own.get("owners") or [], lost)),
        str(own.get("card", "")),
        _number(own.get("card_bytes")) or 0,
        dict(lost),
    )


class _Stacks:
    """Numbers every frame and every stack once."""

    def __init__(self) -> None:
        self.frames: list[StackFrame] = []
        self.stacks: dict[tuple[int, ...], int] = {(): 0}
        self._frame: dict[StackFrame, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}  # a dict or list that was numbered before

    def number(self, frames: Any) -> int:
        """The number of a stack; one list serves many events."""
        if not isinstance(frames, list) or not frames:
            return 0
        if (known := self._known.get(id(frames))) is not None:
            return known[1]
        stack = tuple(at for each in frames if (at := self._frame_number(each)) is not None)
        number = self.stacks.setdefault(stack, len(self.stacks))
        self._known[id(frames)] = (frames, number)  # keeps the list alive, and so its id
        return number

    def _frame_number(self, frame: Any) -> int | None:
        if not isinstance(frame, dict):
            return None
        if (known := self._known.get(id(frame))) is not None:
            return known[1]
        name, file = str(frame.get("name", "")), str(frame.get("filename", ""))
        made = StackFrame(name, file, _number(frame.get("line")) or 0)
        number = self._frame.setdefault(made, len(self.frames))
        if number == len(self.frames):
            self.frames.append(made)
        self._known[id(frame)] = (frame, number)
        return number


def _history(device: int, events: Any, stacks: _Stacks, lost: Counter[str]) -> History:
    rows: list[tuple[int, ...]] = []
    for event in events if isinstance(events, list) else []:
        if not isinstance(event, dict):
            lost["events that are no records"] += 1
            continue
        numbers = [_number(event.get(name, 0)) for name in _COLUMNS]
        if None in numbers:
            lost["events with a number that cannot be one"] += 1
            continue
        action = ACTION.get(str(event.get("action")), ACTION["other"])
        rows.append((action, *numbers, stacks.number(event.get("frames"))))  # type: ignore[arg-type]
    table = np.array(rows, np.int64).reshape(-1, 6)
    action, addr, size, time_us, stream, stack = np.ascontiguousarray(table.T)
    return History(device, action, addr, size, time_us, stream, stack)


def _number(value: Any) -> int | None:
    """A whole number from zero to the largest that a column holds, else None."""
    is_one = isinstance(value, int) and not isinstance(value, bool)
    return value if is_one and 0 <= value <= _LARGEST else None


def _segment(found: Any, stacks: _Stacks, lost: Counter[str]) -> Segment | None:
    numbers = [
        _number(found.get(name)) if isinstance(found, dict) else None
        for name in ("device", "address", "total_size", "stream")
    ]
    if None in numbers:
        lost["segments with a number that cannot be one"] += 1
        return None
    device, address, size, stream = (number or 0 for number in numbers)
    pool = found.get("segment_pool_id")
    graph = isinstance(pool, list | tuple) and any(pool)
    blocks = list(_blocks(found.get("blocks") or [], address, stacks, lost))
    return Segment(device, address, size, stream, graph, bool(found.get("is_expandable")), blocks)


def _blocks(
    found: Iterable[Any], address: int, stacks: _Stacks, lost: Counter[str]
) -> Iterator[HeldBlock]:
    at = address  # a block of an old torch has no address of its own
    for block in found:
        size = _number(block.get("size")) if isinstance(block, dict) else None
        if size is None:
            lost["blocks with a number that cannot be one"] += 1
            continue
        at = _number(block.get("address")) or at
        asked = _number(block.get("requested_size"))
        state, stack = str(block.get("state", "")), stacks.number(block.get("frames"))
        yield HeldBlock(at, size, size if asked is None else asked, state, stack)
        at += size


def _marks(found: Iterable[Any], lost: Counter[str]) -> Iterator[Mark]:
    for each in found:
        time_us = _number(each.get("time_us")) if isinstance(each, dict) else None
        if time_us is None:
            lost["annotations that are no records"] += 1
            continue
        device = _number(each.get("device")) or 0
        yield Mark(str(each.get("name", "")), each.get("stage") == "START", device, time_us)


def _owners(found: Iterable[Any], lost: Counter[str]) -> Iterator[Owner]:
    for each in found:
        if not isinstance(each, list | tuple) or len(each) < 4:
            lost["owners that are no records"] += 1
            continue
        addr, size, *words = each
        if _number(addr) is None or _number(size) is None:
            lost["owners with a number that cannot be one"] += 1
            continue
        yield Owner(addr, size, *(str(word) for word in words[:3]))


def _settings(found: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return (
        {str(k): v for k, v in found.items() if isinstance(v, plain)}
        if isinstance(found, dict)
        else {}
    )
