"""Unpickles a snapshot of torch's allocator and makes tables of it, in a process of its own.

A pickle is a program that may name any function of the computer. Python's own `pickle.Unpickler`
reads it here without names: it builds numbers, text, lists, tuples, sets and dicts, or it stops.
The kernel bounds the memory and the time of this process, both in proportion to the bytes that were
read, and lets it open no file. What goes back is JSON and columns of numbers, never a pickle.

`read/snapshot.py` runs this file as a script that can import the standard library alone.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
from array import array
from collections import Counter
from collections.abc import Callable
from typing import IO, Any, NoReturn

OWN_BYTES = 16 << 20  # of Python itself
BASE_BYTES, BYTES_PER_BYTE = 96 << 20, 12  # sound snapshots take 4 to 10 bytes for each
BASE_S, S_PER_MB = 2, 0.4  # they take 0.01 to 0.05 s of CPU time for each MB
LONGEST = 16 << 20  # bytes of one text, one number or one frame
NO_MEMORY = 12  # exit status
TRACES_KEY, OWN_KEY = "device_traces", "foretrace"  # the second is what `record --memory` adds
NUMBERS = ("addr", "size", "time_us")
LARGEST = (1 << 63) - 1
MOST = 1 << 53  # bytes or microseconds (285 years), exact as a float
MOST_BYTES = 1 << 60  # of all allocations together: sums stay below 64 bits
_CHUNK = 1024  # events whose columns are made at once
_MOST_KNOWN = 100_000  # lists of frames


class Refused(Exception):
    """Ends the reading: a code and one line that says why."""


def memory_limit(size: int) -> int:
    """How many bytes of memory a snapshot of `size` bytes may take."""
    return BASE_BYTES + BYTES_PER_BYTE * size


def seconds_limit(size: int) -> int:
    """How many seconds of CPU time a snapshot of `size` bytes may take."""
    return int(BASE_S + S_PER_MB * size / 1e6)


class PlainUnpickler(pickle.Unpickler):
    """Builds plain data; a name, or data outside the file, ends the reading."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        """Refuse a class or a function."""
        raise Refused("E_PICKLE", "a pickle with the name of a class or a function")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        """Refuse what another file would have."""
        raise Refused("E_PICKLE", "a pickle with data outside the file")


class Source:
    """The bytes of a pickle, as an unpickler asks for them; `raised` gets their number."""

    def __init__(self, file: IO[bytes], raised: Callable[[int], None] = lambda _: None) -> None:
        self.file, self.raised, self.size = file, raised, 0
        self.peek = file.peek  # type: ignore[attr-defined]

    def read(self, size: int) -> bytes:
        """The next bytes; a length that no snapshot has is refused before memory is taken."""
        if size > LONGEST:
            raise Refused("E_NOT_A_SNAPSHOT", f"the pickle states a length of {size:,} bytes")
        return self._count(self.file.read(size))

    def readline(self) -> bytes:
        """The next line, for the opcodes of protocol 0."""
        return self._count(self.file.readline(LONGEST))

    def _count(self, data: bytes) -> bytes:
        self.size += len(data)
        self.raised(self.size)
        return data


def load(source: Source) -> Any:
    """What the pickle holds."""
    try:
        return PlainUnpickler(source, encoding="utf-8", errors="replace").load()
    except (Refused, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - damage raises whatever an opcode raises
        what = " ".join(str(error).split())[:120]
        cut = isinstance(error, EOFError) or "truncated" in what
        what = "the pickle is cut short" if cut else f"the pickle cannot be read ({what})"
        raise Refused("E_NOT_A_SNAPSHOT", what) from None


def text(value: Any) -> str:
    """Text that can be written; anything else has none."""
    return value.encode("utf-8", "replace").decode("utf-8") if type(value) is str else ""


def number(value: Any, most: int = LARGEST) -> int | None:
    """A number from zero to `most`, else None."""
    return value if type(value) is int and 0 <= value <= most else None


def listed(value: Any) -> Any:
    """A list or a tuple; anything else has nothing in it."""
    return value if type(value) in (list, tuple) else ()


def keyed(value: Any) -> dict[Any, Any]:
    """A dict; anything else has no keys."""
    return value if type(value) is dict else {}


class Tables:
    """The tables of an unpickled snapshot; `size` is that of its pickle in bytes.

    `actions` are the names of what an event does; the last one is that of all others. Every list is
    part of `tree`, so that its place in memory (`id`) names it until the end.
    """

    def __init__(self, tree: Any, size: int, most_events: int, actions: list[str]) -> None:
        if type(tree) is not dict or type(tree.get("segments")) is not list:
            raise Refused("E_NOT_A_SNAPSHOT", "it has no segments")
        self.size, self.most_events = size, most_events
        self.action = {name: number for number, name in enumerate(actions)}
        self.records, self.events, self.bytes = 0, 0, 0
        self.lost = Counter[str]()
        self.frames: dict[tuple[str, str, int], int] = {}
        self.stacks: dict[bytes, int] = {b"": 0}
        # numbers of frames and of stacks by their place in memory, and lists by some frames
        self.frame_at: dict[int, int] = {}
        self.list_at: dict[int, int] = {}
        self.similar: dict[tuple[int, ...], tuple[list[Any] | None, int]] = {}
        self.columns: list[array[int]] = []
        self.devices: list[int] = []
        self.segments: list[dict[str, Any]] = []
        # stacks get their numbers in the order of the file
        for key, value in tree.items():
            if key == "segments":
                for segment in self.walk(value):
                    self.add_segment(segment)
            elif key == TRACES_KEY:
                for device, events in enumerate(self.walk(value)):
                    self.add_device(device, events)
        own, settings = (keyed(tree.get(key)) for key in (OWN_KEY, "allocator_settings"))
        self.head = {
            "devices": self.devices,
            "segments": self.segments,
            "frames": [{"name": n, "file": file, "line": line} for n, file, line in self.frames],
            "marks": self.marks(listed(tree.get("external_annotations"))),
            "expandable": settings.get("expandable_segments") is True,
            "owners": self.owners(listed(own.get("owners"))),
            "card": text(own.get("card")),
            "card_bytes": number(own.get("card_bytes"), MOST) or 0,
            "lost": self.lost,
        }
        self.columns += [
            array("q", [len(stack) // 4 for stack in self.stacks]),
            array("i", b"".join(self.stacks)),
        ]

    def walk(self, records: Any) -> Any:
        """The records of a list, each of which takes a byte of the file at least."""
        records = listed(records)
        self.records += len(records)
        if self.records > self.size:
            what = f"one list stands in many places: more records than its {self.size:,} bytes"
            raise Refused("E_NOT_A_SNAPSHOT", what)
        return records

    def add_bytes(self, size: int) -> None:
        """Count what the snapshot says was allocated."""
        self.bytes += size
        if self.bytes > MOST_BYTES:
            raise Refused("E_NOT_A_SNAPSHOT", "its sizes add up to more than any memory has")

    def stack(self, frames: Any) -> int:
        """The number of a list of frames."""
        if type(frames) is not list or not frames:
            return 0
        known = self.list_at.get(id(frames))
        if known is not None:
            return known
        self.walk(frames)
        # most stacks came before, as another list of the same frames
        sample = (len(frames), *map(id, frames[:: len(frames) // 4 + 1]))
        before, made = self.similar.get(sample, (None, 0))
        if before != frames:
            made = self.add_stack(frames)
        if len(self.similar) >= _MOST_KNOWN:
            self.similar = {}
        if len(self.list_at) >= 10 * _MOST_KNOWN:
            self.list_at = {}
        self.similar[sample] = frames, made
        self.list_at[id(frames)] = made
        return made

    def add_stack(self, frames: list[Any]) -> int:
        """Number a list of frames by what it holds."""
        numbers = array("i")
        for frame in frames:
            at = self.frame_at.get(id(frame))
            if at is None:
                at = self.frame_at[id(frame)] = self.add_frame(frame)
            if at >= 0:
                numbers.append(at)
        if len(numbers) < len(frames):
            self.lost["frames that are no records"] += len(frames) - len(numbers)
        return self.stacks.setdefault(numbers.tobytes(), len(self.stacks))

    def add_frame(self, frame: Any) -> int:
        """The number of a frame; -1 for what is none."""
        if type(frame) is not dict:
            return -1
        line = number(frame.get("line"), MOST) or 0
        made = text(frame.get("name")), text(frame.get("filename")), line
        return self.frames.setdefault(made, len(self.frames))

    def add_device(self, device: int, events: Any) -> None:
        """The history of a device."""
        if type(events) is not list:
            self.lost["devices without a list of events"] += 1
            return
        self.events += len(self.walk(events))
        if self.events > self.most_events:
            raise Refused("E_TOO_MANY", f"more than {self.most_events:,} events")
        made = [array("b"), *(array("q") for _ in NUMBERS), array("i")]
        for start in range(0, len(events), _CHUNK):
            self.add_events(events[start : start + _CHUNK], made)
        if made[0]:
            self.add_bytes(sum(made[2]))
            self.columns += made
            self.devices.append(device)

    def add_events(self, events: list[Any], made: list[array[int]]) -> None:
        """Add events to the columns of their device; one that is damaged is counted instead."""
        try:
            # an allocation that failed has no address, but the bytes that the driver had left
            addr = [event.get("addr", event.get("device_free", 0)) for event in events]
            rest = ([event.get(name, 0) for event in events] for name in NUMBERS[1:])
            columns = [array("q", values) for values in (addr, *rest)]
            good = min(map(min, columns)) >= 0 and max(map(max, columns[1:])) <= MOST
        except (AttributeError, TypeError, OverflowError):
            good = False
        if good:
            action, last = self.action.get, len(self.action) - 1
            names = (event.get("action") for event in events)
            made[0].extend([action(n, last) if type(n) is str else last for n in names])
            for column, values in zip(made[1:4], columns, strict=True):
                column.extend(values)
            made[4].extend([self.stack(event.get("frames")) for event in events])
        elif len(events) > 1:
            self.add_events(events[: len(events) // 2], made)
            self.add_events(events[len(events) // 2 :], made)
        else:
            what = (
                "with a number that cannot be one"
                if type(events[0]) is dict
                else "that are no records"
            )
            self.lost[f"events {what}"] += 1

    def add_segment(self, segment: Any) -> None:
        """A segment and its blocks."""
        found = keyed(segment)
        device, addr = (number(found.get(key)) for key in ("device", "address"))
        size = number(found.get("total_size"), MOST)
        if device is None or addr is None or size is None or addr + size > LARGEST:
            self.lost["segments with a number that cannot be one"] += 1
            return
        self.add_bytes(size)
        blocks, at = [], addr  # a block of an old torch has no address of its own
        for block in self.walk(found.get("blocks")):
            entry = keyed(block)
            size_of = number(entry.get("size"), MOST)
            at = number(entry.get("address")) or at
            if size_of is None or at + size_of > LARGEST:
                self.lost["blocks with a number that cannot be one"] += 1
                continue
            self.add_bytes(size_of)
            requested = number(entry.get("requested_size"), MOST)
            blocks.append(
                {
                    "addr": at,
                    "size": size_of,
                    "requested": size_of if requested is None else requested,
                    "state": text(entry.get("state")),
                    "stack": self.stack(entry.get("frames")),
                }
            )
            at += size_of
        self.stack(found.get("frames"))  # the first stack of a line gives it its place among lines
        self.segments.append(
            {
                "device": device,
                "addr": addr,
                "size": size,
                "graph": any(listed(found.get("segment_pool_id"))[:2]),
                "expandable": bool(found.get("is_expandable")),
                "blocks": blocks,
            }
        )

    def marks(self, annotations: Any) -> list[dict[str, Any]]:
        """The starts and ends of annotated ranges."""
        made = []
        for each in self.walk(annotations):
            found = keyed(each)
            time_us = number(found.get("time_us"), MOST)
            if time_us is None:
                self.lost["annotations that are no records"] += 1
                continue
            name, start = text(found.get("name")), text(found.get("stage")) == "START"
            made.append({"name": name, "is_start": start, "time_us": time_us})
        return made

    def owners(self, owners: Any) -> list[dict[str, Any]]:
        """The tensors that the recording program named."""
        made = []
        for each in self.walk(owners):
            found = listed(each)
            if len(found) < 4:
                self.lost["owners that are no records"] += 1
            elif number(found[0]) is None:
                self.lost["owners with a number that cannot be one"] += 1
            else:
                made.append({"addr": found[0], "kind": text(found[2]), "name": text(found[3])})
        return made


def main() -> None:
    """Read a pickle from stdin; write the length of a head in JSON, the head, and the columns."""
    import resource

    memory, seconds, most_events = map(int, sys.argv[1:4])
    actions = sys.argv[4:]

    def limit(what: int, most: int) -> None:
        hard = resource.getrlimit(what)[1]
        bounded = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (bounded, hard))

    def raised(size: int) -> None:
        limit(resource.RLIMIT_DATA, OWN_BYTES + (memory or memory_limit(size)))
        limit(resource.RLIMIT_CPU, seconds or seconds_limit(size))

    gc.disable()  # millions of records without a circle
    raised(0)
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE):
        resource.setrlimit(what, (0, 0))
    columns: list[array[int]] = []
    try:
        with open(0, "rb", buffering=1 << 18, closefd=False) as file:
            source = Source(file, raised)
            tree = load(source)
            read = source.size
            while source.read(1 << 20):
                pass
        made = Tables(tree, read, most_events, actions)
        if source.size > read:
            made.lost["bytes after the end of the snapshot"] += source.size - read
        columns = made.columns
        head = {**made.head, "sizes": [(each.typecode, len(each)) for each in columns]}
        packed = json.dumps(head).encode()
    except Refused as refused:
        packed = json.dumps({"refused": refused.args}).encode()
        columns = []
    except RecursionError:  # frames inside frames are compared
        packed = json.dumps({"refused": ("E_NOT_A_SNAPSHOT", "its frames hold frames")}).encode()
    except MemoryError:
        os._exit(NO_MEMORY)
    out = sys.stdout.buffer
    out.write(len(packed).to_bytes(8, "little") + packed)
    for column in columns:
        column.tofile(out)
    out.flush()
    os._exit(0)  # to free millions of records takes a second


if __name__ == "__main__":
    main()
