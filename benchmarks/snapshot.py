"""How fast a large memory snapshot is read, on a file whose truth is known.

    python benchmarks/snapshot.py make snapshot.pickle --gb 5 --protocol 4
    python benchmarks/snapshot.py time snapshot.pickle   # and compare it with the truth

The writer emits the opcodes that `pickle.dump` emits for a snapshot of torch 2.11 with stacks of 20
to 60 frames: shared frames, a new text for each compile context, batches of 1000 events, frames of
64 KiB. It holds one batch. Every step allocates activations and frees them; the step with the
largest ones makes the peak. `FILE.truth.json` has the peak and the bytes of each line there.

101 MB of protocol 4 (480,400 events): 3 to 4 s of CPU time and 400 MB of memory in the process that
unpickles, while other work kept both cores busy (a Xeon at 2.5 GHz).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import struct
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np

from foretrace.read.snapshot import ALLOC, FREE, History, read_snapshot

FRAMES, STACKS = 3000, 2000
KEPT, ACTIVATIONS = 400, 4000  # tensors that live on, and those of a step
BATCH = 1000
FRAME = 64 << 10  # as Python's own pickler
WORDS = (
    ",action,alloc,free_requested,free_completed,addr,stream,time_us,compile_context,user_metadata"
)
BEGIN_US = 1_794_729_779_000_000


def reference(number: int) -> bytes:
    """An item that came before."""
    return b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number)


def whole_number(value: int) -> bytes:
    """A number."""
    if 0 <= value < 1 << 8:
        return b"K%c" % value
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a%c" % size + value.to_bytes(size, "little", signed=True)


class PickleWriter:
    """Writes opcodes as Python's pickler does, and counts what it numbers."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        self.file, self.protocol = file, protocol
        self.named, self.size = 0, 0
        self.held: list[bytes] = []
        self.texts: dict[str, int] = {}
        file.write(b"\x80" + bytes([protocol]))

    def put(self, *parts: bytes) -> None:
        """Write opcodes that lie in one frame."""
        self.held += parts
        self.size += sum(map(len, parts))
        if self.size > FRAME:
            self.flush()

    def flush(self) -> None:
        """End the frame."""
        if self.protocol >= 4:
            self.file.write(b"\x95" + struct.pack("<Q", self.size))
        self.file.write(b"".join(self.held))
        self.held, self.size = [], 0

    def name(self) -> bytes:
        """Number the item before."""
        self.named += 1
        if self.protocol >= 4:
            return b"\x94"
        number = self.named - 1
        return b"q%c" % number if number < 256 else b"r" + struct.pack("<I", number)

    def text(self, text: str, shared: bool = True) -> bytes:
        """A text, or a reference to it."""
        if shared and text in self.texts:
            return reference(self.texts[text])
        self.texts[text] = self.named
        raw = text.encode("utf-8", "replace")
        short = self.protocol >= 4 and len(raw) < 256
        head = b"\x8c%c" % len(raw) if short else b"X" + struct.pack("<I", len(raw))
        return head + raw + self.name()

    def value(self, value: Any) -> None:
        """Plain data; lists and dicts are not referred to again."""
        if isinstance(value, dict):
            self.put(b"}", self.name(), b"(")
            for key, each in value.items():
                self.value(key)
                self.value(each)
            self.put(b"u")
        elif isinstance(value, list | tuple):
            self.put(b"](" if isinstance(value, list) else b"(")
            for each in value:
                self.value(each)
            self.put(b"e" if isinstance(value, list) else b"t")
        elif isinstance(value, str):
            self.put(self.text(value))
        elif isinstance(value, bool):
            self.put(b"\x88" if value else b"\x89")
        elif isinstance(value, float):
            self.put(b"G" + struct.pack(">d", value))
        else:
            self.put(whole_number(value))


class SnapshotWriter:
    """A snapshot of one device, step by step."""

    def __init__(self, file: IO[bytes], protocol: int, seed: int) -> None:
        self.out, self.chance = PickleWriter(file, protocol), random.Random(seed)
        self.events, self.time_us = 0, BEGIN_US
        self.live, self.by_line = 0, Counter[str]()
        self.truth: dict[str, Any] = {"peak": 0}
        self.frames: list[int] = []
        self.stacks = [
            [self.chance.randrange(FRAMES) for _ in range(self.chance.randint(20, 60))]
            for _ in range(STACKS)
        ]
        self.written: dict[int, bytes] = {}
        self.fixed: dict[str, tuple[bytes, ...]] = {}

    def head(self) -> None:
        """Segments, of which one block has every frame in its stack."""
        out = self.out
        out.put(b"}", out.name(), b"(", out.text("segments"), b"]", out.name())
        out.put(b"}", out.name(), b"(")
        for key, value in (
            ("device", 0),
            ("address", 1 << 46),
            ("total_size", 2 << 20),
            ("stream", 0),
        ):
            out.put(out.text(key), whole_number(value))
        out.put(out.text("blocks"), b"]", out.name(), b"}", out.name(), b"(")
        out.put(out.text("size"), whole_number(2 << 20), out.text("state"), out.text("inactive"))
        out.put(out.text("frames"), b"]", out.name())
        for begin in range(0, FRAMES, BATCH):
            out.put(b"(")
            for number in range(begin, min(begin + BATCH, FRAMES)):
                self.frame(number)
            out.put(b"e")
        out.put(b"uaua")
        out.put(out.text("words"), b"]", out.name(), b"(")  # so that events refer to all of them
        for word in WORDS.split(","):
            out.put(out.text(word))
        out.put(b"e", out.text("device_traces"), b"]", out.name(), b"]", out.name(), b"(")

    def frame(self, number: int) -> None:
        """One frame."""
        out = self.out
        self.frames.append(out.named)
        out.put(b"}", out.name(), b"(", out.text("name"), out.text(f"function_{number % 700}"))
        out.put(out.text("filename"), out.text(f"/home/user/model/layer_{number % 90}.py"))
        out.put(out.text("line"), whole_number(number), b"u")

    def line(self, stack: int) -> str:
        """The innermost line of a stack."""
        number = self.stacks[stack][0]
        return f"/home/user/model/layer_{number % 90}.py:{number}"

    def event(self, action: str, addr: int, size: int, stack: int, known: int = -1) -> int:
        """One event; returns the number of its list of frames."""
        out = self.out
        if self.events and self.events % BATCH == 0:
            out.put(b"e(")
        self.events += 1
        self.time_us += self.chance.getrandbits(1)
        named = out.name()
        action, addr_key, size_key, stream, time_key, context, rest = self.keys(action)
        parts = [
            b"}",
            named,
            action,
            addr_key,
            whole_number(addr),
            size_key,
            whole_number(size),
            stream,
            time_key,
        ]
        parts += [whole_number(self.time_us), context, out.text("N/A", False), rest]
        if known < 0:
            known = out.named
            parts += [b"]", out.name(), self.content(stack), b"u"]
        else:
            parts += [reference(known), b"u"]
        out.put(b"".join(parts))
        return known

    def keys(self, action: str) -> tuple[bytes, ...]:
        """What is the same in every event of an action."""
        known = self.fixed.get(action)
        if known is None:
            text = self.out.text
            known = (
                b"(" + text("action") + text(action),
                text("addr"),
                text("size"),
                text("stream") + whole_number(0),
                text("time_us"),
                text("compile_context"),
                text("user_metadata") + text("") + text("frames"),
            )
            self.fixed[action] = known
        return known

    def content(self, stack: int) -> bytes:
        """The references to the frames of a stack."""
        if stack not in self.written:
            frames = (reference(self.frames[each]) for each in self.stacks[stack])
            self.written[stack] = b"(" + b"".join(frames) + b"e"
        return self.written[stack]

    def alloc(self, addr: int, size: int, stack: int) -> None:
        """Allocate."""
        self.event("alloc", addr, size, stack)
        self.live += size
        self.by_line[self.line(stack)] += size

    def free(self, addr: int, size: int, stack: int) -> None:
        """Free, which is requested first."""
        known = self.event("free_requested", addr, size, self.chance.randrange(STACKS))
        self.event("free_completed", addr, size, stack, known)
        self.live -= size
        self.by_line[self.line(stack)] -= size

    def step(self) -> None:
        """Allocate activations, note a peak, and free them."""
        scale, made = self.chance.randint(1, 1000), []
        for number in range(ACTIVATIONS):
            addr = (1 << 46) + (number << 26) + (self.chance.randrange(64) << 9)
            made.append((addr, scale * self.chance.choice((8, 128, 1024, 65536)), number % STACKS))
            self.alloc(*made[-1])
        if self.live > self.truth["peak"]:
            lines = {line: size for line, size in self.by_line.items() if size}
            self.truth = {"peak": self.live, "lines": lines}
        for each in reversed(made):
            self.free(*each)

    def tail(self) -> None:
        """What follows the events."""
        out = self.out
        out.put(b"ea", out.text("allocator_settings"), b"}", out.name(), b"u.")
        out.flush()


def make(path: Path, size: int, protocol: int, seed: int = 0) -> dict[str, Any]:
    """Write a snapshot of about `size` bytes; returns its truth."""
    with path.open("wb", buffering=1 << 20) as file:
        writer = SnapshotWriter(file, protocol, seed)
        writer.head()
        for number in range(KEPT):
            writer.alloc((1 << 45) + (number << 20), 1 << 19, number)
        while file.tell() < size:
            writer.step()
        writer.tail()
    return writer.truth | {"events": writer.events, "live": writer.live}


def peak_lines(history: History, frames: list[str], stacks: Any) -> dict[str, Any]:
    """The peak of the live bytes and the bytes of each line there."""
    sign = (history.action == ALLOC).astype(np.int64) - (history.action == FREE)
    live = np.cumsum(sign * history.size)
    at = int(np.argmax(live))
    moved = np.flatnonzero(sign[: at + 1])[::-1]
    _, first = np.unique(history.addr[moved], return_index=True)
    held = moved[first][sign[moved[first]] > 0]
    lines = Counter[str]()
    for stack in np.unique(history.stack[held]).tolist():
        lines[frames[stacks[stack][0]]] += int(
            history.size[held][history.stack[held] == stack].sum()
        )
    return {"peak": int(live[at]), "lines": dict(lines), "live": int(live[-1])}


def timed(path: Path) -> None:
    """Read a snapshot and compare it with its truth."""
    begun = time.perf_counter()
    snapshot = read_snapshot(str(path))
    seconds = time.perf_counter() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    size, events = path.stat().st_size, sum(map(len, snapshot.histories))
    print(
        f"{size / 1e9:.2f} GB, {events:,} events: {seconds:.1f} s, {size / seconds / 1e6:.0f} MB/s,"
    )
    print(f"{held / 1e9:.2f} GB of memory: {held / size:.2f} times the file; lost: {snapshot.lost}")
    frames = [f"{frame.file}:{frame.line}" for frame in snapshot.frames]
    found = peak_lines(snapshot.histories[0], frames, snapshot.stacks) | {"events": events}
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    wrong = {key: found[key] for key in truth if found[key] != truth[key]}
    print(f"wrong: {wrong}" if wrong else f"as written: peak {truth['peak']:,} bytes, every line")


def main() -> None:
    """Make or time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "time"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--protocol", type=int, default=4)
    given = parser.parse_args()
    if given.what == "make":
        truth = make(given.path, int(given.gb * 1e9), given.protocol)
        given.path.with_suffix(".truth.json").write_text(json.dumps(truth))
    else:
        timed(given.path)


if __name__ == "__main__":
    main()
