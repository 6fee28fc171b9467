"""The lanes of a timeline, in the order in which they are read: GPUs, launching threads, others.

A stream is a lane; so is a thread. The Python frames of a thread are a lane of their own below it,
so that its ops stay together and a page may hide the frames.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.host import Host
from foretrace.model.intervals import Ints, union_length
from foretrace.model.trace import Trace
from foretrace.schema.tables import WORK_KINDS
from foretrace.show.render.safe import plain

GPU_KINDS = ("gpu_user_annotation", *WORK_KINDS)


class Lane(Struct, frozen=True):
    """A stream, a thread or its Python frames; `rows` high.

    `key` names it in an address. `launches` counts the GPU operations that a thread launched,
    `busy_ns` is the time in which at least one event runs, `gpu_number` a `Gpu.device_number`.
    """

    label: str
    gpu: bool
    rows: int
    kind: str = "stream"  # stream, thread or python
    key: str = ""
    launches: int = 0
    busy_ns: int = 0
    gpu_number: int | None = None


class Tracks:
    """Which track each event is drawn on; frames of Python have their own."""

    def __init__(self, trace: Trace, shown: Ints) -> None:
        host = trace.host
        self.trace = trace
        frames = host.is_kind("python_function")[shown]
        self.count = len(trace.tracks)
        self.of: Ints = host.track[shown] + np.where(frames, self.count, 0)
        self.gpus = set(np.unique(host.track[shown][host.is_kind(*GPU_KINDS)[shown]]).tolist())
        # a device by the name of its process: merged traces have several GPUs 0
        work = host.track[trace.gpu.id]
        found = zip(work.tolist(), trace.gpu.device_number.tolist(), strict=True)
        self.numbers = {self._pid(track): number for track, number in dict(found).items()}
        self.stepping = set(np.unique(host.track[host.is_step]).tolist())
        linked = trace.gpu.launch[trace.gpu.launch >= 0]
        self.launches = np.bincount(host.track[linked], minlength=self.count)
        self.busy = {
            track: union_length(host.start[mine], host.end[mine])
            for track in np.unique(self.of).tolist()
            for mine in [shown[self.of == track]]
        }

    def _pid(self, track: int) -> str:
        return plain(str(self.trace.tracks["pid"][track]))

    def ordered(self) -> list[int]:
        """GPUs first, then the thread that has the steps, then threads by what they launched."""
        return sorted(self.busy, key=self._place)

    def _place(self, track: int) -> tuple[object, ...]:
        base, is_frames = track % self.count, track >= self.count
        if base in self.gpus:
            return (0, *self._numbers(base), is_frames)
        ops = self.busy.get(base, 0)
        launches = int(self.launches[base])
        return (1, launches == 0, base not in self.stepping, -launches, -ops, base, is_frames)

    def _numbers(self, track: int) -> tuple[int, ...]:
        row = self.trace.tracks.row(track, named=True)
        return tuple(_number(str(row[name])) for name in ("pid", "tid"))

    def lane(self, track: int, rows: int) -> Lane:
        """What a page knows of a lane."""
        base = track % self.count
        found = self.trace.tracks.row(base, named=True)
        pid, tid = plain(str(found["pid"])), plain(str(found["tid"]))
        if base in self.gpus:
            label, key = f"GPU {pid} · stream {tid}", f"gpu{pid}/stream{tid}"
            return Lane(
                label, True, rows, "stream", key, 0, self.busy[track], self.numbers.get(pid)
            )
        label, key = plain(str(found["thread"] or f"thread {tid}")), f"{pid}/{tid}"
        if track >= self.count:
            return Lane(label, False, rows, "python", f"{key}/python", 0, self.busy[track])
        launched = int(self.launches[base])
        return Lane(label, False, rows, "thread", key, launched, self.busy[track])


def depths(host: Host, shown: Ints) -> Ints:
    """The depth of each event among its own: frames of Python, or everything else."""
    frames = host.is_kind("python_function")
    above = np.zeros((2, host.count), np.int32)  # of each sort, how many are around an event
    for depth in range(1, int(host.depth[shown].max(initial=0)) + 1):
        level = np.flatnonzero(host.depth == depth)
        parent = host.parent[level]
        above[:, level] = above[:, parent]
        above[0, level] += ~frames[parent]
        above[1, level] += frames[parent]
    found: Ints = np.where(frames[shown], above[1, shown], above[0, shown])
    return found


def _number(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 16 else 1 << 60
