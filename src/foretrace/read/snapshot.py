"""Reads a snapshot of torch's allocator. Nothing in the file is executed.

`torch.cuda.memory._dump_snapshot` writes a pickle, which may be packed with gzip, xz or zstd. A
process of its own unpickles it under limits on memory and time (`unpickle.py`), and sends back
tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from msgspec import Struct, field

from foretrace.base import budget
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.units import bytes_text
from foretrace.read import unpickle
from foretrace.read.bytestream import open_stream, reported
from foretrace.read.ledger import CODES, LedgerBuilder
from foretrace.read.run_record import SNAPSHOTS

_HINTS = {
    "E_PICKLE": "do not load it with pickle either",
    "E_NOT_A_SNAPSHOT": "torch.cuda.memory._dump_snapshot writes one",
    "E_TOO_MANY": raised_by("events"),
}


class UnpickledHead(msgspec.Struct):
    """What the other process says of a snapshot, and the type and the length of each column."""

    refused: tuple[str, str] = ("", "")
    devices: list[int] = []
    segments: list[Segment] = []
    frames: list[StackFrame] = []
    marks: list[Mark] = []
    expandable: bool = False
    owners: list[Owner] = []
    card: str = ""
    card_bytes: int = 0
    lost: dict[str, int] = {}
    sizes: list[tuple[str, int]] = []


class PackedStacks(Sequence[tuple[int, ...]]):
    """Stacks as tuples of the numbers of their frames; held with four bytes for each."""

    def __init__(self, lengths: Numbers, frames: Numbers) -> None:
        self.ends, self.frames = np.cumsum(lengths), frames

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, at: Any) -> Any:
        begin = int(self.ends[at - 1]) if at else 0
        return tuple(self.frames[begin : int(self.ends[at])].tolist())


def read_snapshot(path: str, limits: Limits | None = None) -> Snapshot:
    """The snapshot in a file (`-` is stdin); what is no snapshot raises `TraceError`.

    A file that is cut short is refused. `lost` counts single records that could not be read.
    """
    limits = limits or Limits()
    ledger = LedgerBuilder()
    with budget.ceiling(path, limits):
        stream = open_stream(path, limits, ledger, reported(path))
        with _process(limits) as process:
            size = _write(process.stdin, stream.blocks)
            head, columns = _answer(process, path, size, limits)
    for code, count in ledger.counts.items():
        reason = ledger.texts.get(code, CODES[code][1])
        head.lost[reason] = head.lost.get(reason, 0) + count
    return snapshot_of(path, head, columns)


@contextmanager
def _process(limits: Limits) -> Iterator[subprocess.Popen[bytes]]:
    """The process that unpickles; it ends with this context."""
    words = [sys.executable, "-I", "-S", str(Path(unpickle.__file__))]
    words += [*map(str, (limits.memory, limits.seconds, limits.events)), *ACTIONS]
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=kept,
        start_new_session=True,  # Ctrl+C reaches this process alone
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _write(pipe: IO[bytes] | None, blocks: Iterator[bytes]) -> int:
    """Send the plain bytes; returns how many, also where the other process wants no more."""
    assert pipe
    size = 0
    with suppress(BrokenPipeError), pipe:
        for block in blocks:
            size += len(block)
            with budget.waiting():
                pipe.write(block)
    return size


def _answer(
    process: subprocess.Popen[bytes], path: str, size: int, limits: Limits
) -> tuple[UnpickledHead, list[Numbers]]:
    """What the process sends back."""
    assert process.stdout
    read = process.stdout.read
    with budget.waiting():  # its limits are its own
        packed = read(int.from_bytes(read(8), "little"))
        if not packed:
            raise _ended(process.wait(), path, size, limits)
    head = msgspec.json.decode(packed, type=UnpickledHead)
    code, what = head.refused
    if code:
        kind = LimitError if code == "E_TOO_MANY" else TraceError
        what = f"not an allocator snapshot: {what}" if code == "E_NOT_A_SNAPSHOT" else what
        raise kind(code, path, what, hint=_HINTS[code])
    columns = [
        np.frombuffer(read(count * np.dtype(kind).itemsize), kind).astype(np.int64, copy=False)
        for kind, count in head.sizes
    ]
    return head, columns


def _ended(status: int, path: str, size: int, limits: Limits) -> TraceError:
    """The error for a process that ended without an answer."""
    stated = os.path.getsize(path) if os.path.isfile(path) else 0
    what = f"a snapshot of {bytes_text(max(size, stated))}"
    if status == unpickle.NO_MEMORY:
        most = bytes_text(limits.memory or unpickle.memory_limit(size))
        text = f"{what} that needs more than {most} of memory"
        return LimitError("E_TOO_MUCH_MEMORY", path, text, hint=raised_by("memory"))
    if status == -signal.SIGXCPU:
        most = f"{limits.seconds or unpickle.seconds_limit(size)} s of CPU time"
        text = f"{what} that takes more than {most}"
        return LimitError("E_TOO_SLOW", path, text, hint=raised_by("seconds"))
    if status == -signal.SIGKILL:
        text = f"{what} that needs more memory than there is"
        return LimitError("E_TOO_MUCH_MEMORY", path, text, hint="read it on a larger machine")
    how = f"signal {-status}" if status < 0 else f"status {status}"
    text = f"not an allocator snapshot: unpickling it ended with {how}"
    return TraceError("E_NOT_A_SNAPSHOT", path, text, hint=_HINTS["E_NOT_A_SNAPSHOT"])


def snapshot_of(path: str, head: UnpickledHead, columns: Sequence[Numbers]) -> Snapshot:
    """The snapshot out of its parts: five columns for each device, then the stacks."""
    histories = [
        History(device, *columns[5 * at : 5 * at + 5]) for at, device in enumerate(head.devices)
    ]
    names = ("segments", "frames", "marks", "expandable", "owners", "card", "card_bytes", "lost")
    stated = {name: getattr(head, name) for name in names}
    return Snapshot(path, histories, stacks=PackedStacks(*columns[-2:]), **stated)


def trace_beside(snapshot: str) -> Path | None:
    """The trace of the same run: `run.memory.pickle` lies beside `run.json.gz`."""
    stem = snapshot.removesuffix(SNAPSHOTS[0])
    found = (Path(stem + end) for end in (".json.gz", ".json"))
    return None if stem == snapshot else next((path for path in found if path.is_file()), None)


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
