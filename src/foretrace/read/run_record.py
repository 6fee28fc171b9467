"""The run record: the JSON file that `foretrace record` writes beside a trace, as it is read.

`run.json.gz` has `run.run.json`. A trace holds times with the profiler on, which slows the host: by
1.1 to 7.5 times in the recordings of the ladder. The record holds the same call without it.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

SUFFIX = ".run.json"
# what `record --memory` leaves: of the recorded steps, else of the moment when memory ran out
SNAPSHOTS = (".memory.pickle", ".oom.pickle")
# A run record is a few kilobytes; anything larger beside a trace is something else.
MOST_BYTES = 1 << 20
# A call takes a nanosecond to 30 years, and a cost is at most as long: arithmetic stays finite.
MOST_NS, MOST_S = 1e18, 1e9
# Another program takes a core this often in a second on a machine that is in use: on two cores 150
# to 260 times beside a test suite; alone 1 to 7 times on one thread, 33 to 44 on two.
CROWDED = 100.0
Nanoseconds = Annotated[float, Meta(ge=1, le=MOST_NS)]
Positive = Annotated[float, Meta(ge=0, le=MOST_S)]


class RunTiming(Struct, frozen=True):
    """Times without the profiler. `block_ns` are times per call of several blocks of calls, and
    `wall_spread` is their range over their median. `preempted_per_s` is how often another program
    took a core meanwhile.
    """

    wall_ns_per_call: Nanoseconds | None = None
    wall_spread: Positive | None = None
    host_ns_per_call: Nanoseconds | None = None
    block_ns: Annotated[tuple[Nanoseconds, ...], Meta(max_length=1000)] = ()
    preempted_per_s: Positive | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether other programs used the cores."""
        return (self.preempted_per_s or 0) >= CROWDED


class RunCompile(Struct, frozen=True):
    """What torch.compile took, once."""

    seconds: Positive | None = None


class RunRung(Struct, frozen=True):
    """`region` is the record_function range around each call, `name` that of the rung."""

    region: str | None = None
    name: str | None = None


class RunDevice(Struct, frozen=True):
    """The GPU."""

    name: str | None = None


class RunTorch(Struct, frozen=True):
    """The torch that ran."""

    version: str | None = None


class RunMemory(Struct, frozen=True):
    """The peak of torch's allocator on the GPU, in bytes."""

    peak_device_bytes: Annotated[int, Meta(ge=0, le=1 << 62)] | None = None


class RunEnd(Struct, frozen=True):
    """How the script failed; `note` says which steps are recorded, where some are missing."""

    error: str | None = None
    note: str | None = None


class RecordedRun(Struct, frozen=True):
    """What a run record says; None where it was not measured or is not stated.

    `ignored` names the entries whose value is not valid (a negative time, a word for a number).
    """

    kind: Literal["foretrace-run"]
    timing: RunTiming = RunTiming()
    compile: RunCompile = RunCompile()
    rung: RunRung = RunRung()
    device: RunDevice | None = None
    torch: RunTorch | None = None
    memory: RunMemory = RunMemory()
    ended: RunEnd = RunEnd()
    ignored: tuple[str, ...] = ()


_PARTS: dict[str, type[Struct]] = {
    "timing": RunTiming,
    "compile": RunCompile,
    "rung": RunRung,
    "device": RunDevice,
    "torch": RunTorch,
    "memory": RunMemory,
}
NO_RECORD = RecordedRun("foretrace-run")


def read_run(trace: str) -> RecordedRun:
    """The record beside a trace; `NO_RECORD` where there is none, or the file there is not ours."""
    try:
        content = content_beside(trace)
        # the record, entry by entry: one that is not valid costs no other
        given = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        if bytes(given.get("kind", b"")) != b'"foretrace-run"':
            return NO_RECORD
        parts: dict[str, Struct] = {}
        ignored: list[str] = []
        for name, kind in _PARTS.items():
            if bytes(given.get(name, b"null")) != b"null":
                parts[name] = _part(name, kind, given[name], ignored)
        parts["ended"] = _part("ended", RunEnd, msgspec.Raw(content), ignored)
        return msgspec.structs.replace(NO_RECORD, **parts, ignored=tuple(ignored))
    except (ValueError, RecursionError):  # also bytes that are not UTF-8
        return NO_RECORD


def content_beside(trace: str) -> bytes:
    """The file beside a trace that is named as its record; empty where there is none."""
    stem = _stem(trace)
    if stem is None:
        return b""
    try:
        with open(stem + SUFFIX, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= MOST_BYTES else b""
    except OSError:
        return b""


def snapshot_beside(trace: str) -> str | None:
    """The allocator's snapshot of a trace: `run.memory.pickle` beside `run.json.gz`."""
    stem = _stem(trace)
    ends = SNAPSHOTS if stem is not None else ()
    return next((f"{stem}{end}" for end in ends if os.path.isfile(f"{stem}{end}")), None)


def _stem(trace: str) -> str | None:
    """What the files of a run begin with; None for a member of an archive."""
    ends = (".json.gz", ".json")
    stem = next((trace.removesuffix(end) for end in ends if trace.endswith(end)), None)
    return None if stem is None or "::" in stem else stem


def _part(name: str, kind: type[Struct], content: msgspec.Raw, ignored: list[str]) -> Struct:
    try:
        given = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except ValueError:
        ignored.append(name)
        return kind()
    found = {}
    for field in msgspec.structs.fields(kind):
        try:
            if field.name in given:
                found[field.name] = msgspec.json.decode(given[field.name], type=field.type)
        except ValueError:
            ignored.append(f"{name}.{field.name}")
    return kind(**found)
