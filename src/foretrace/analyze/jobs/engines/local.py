"""One process per core of this machine, each with one file at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from foretrace.analyze.jobs.parts import FileAnswer
from foretrace.base.budget import Limits
from foretrace.model import opening
from foretrace.read.bytestream import UNPACKED
from foretrace.read.kineto.parallel import cores
from foretrace.read.workers import spread

WORTHWHILE = 16 << 20  # bytes: a process starts in 0.7 s, and reads 20 MB of JSON in that
_BASE, _PER_BYTE = 128 << 20, 4  # what a process holds: of its own, and for each byte of JSON


def answers(
    files: Mapping[str, int], limits: Limits, cache: bool
) -> Iterator[tuple[str, FileAnswer]]:
    """What each file (with its size) is reduced to, as the answers come."""
    sizes = [size * (1 if path.endswith(".json") else UNPACKED) for path, size in files.items()]
    fitting = free_memory() // (_BASE + _PER_BYTE * max(sizes, default=0))
    workers = min(cores(), len(files), max(fitting, 1))
    if workers < 2 or sum(sizes) < WORTHWHILE:
        from foretrace.analyze.jobs.reduce import answer

        yield from ((path, answer(path, limits, cache)) for path in files)
        return
    read = partial(encoded, limits=limits, cache=cache)
    for path, content in spread(read, files, workers, _ended, _alone):
        yield path, msgspec.msgpack.decode(content, type=FileAnswer)


def free_memory() -> int:
    """Bytes that processes of this machine can have; many where nobody tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        return int(told["MemAvailable"].split()[0]) << 10
    except (OSError, LookupError, ValueError):
        return 1 << 62


def encoded(path: str, limits: Limits, cache: bool) -> bytes:
    """The answer of one file as plain bytes: no process unpickles what a trace says."""
    from foretrace.analyze.jobs.reduce import answer

    return msgspec.msgpack.encode(answer(path, limits, cache))


def _ended(path: str) -> bytes:
    return msgspec.msgpack.encode(FileAnswer(left_out=opening.ended(path)))


def _alone() -> None:
    """Every core has a process: one thread each, before Polars starts its own."""
    os.environ["POLARS_MAX_THREADS"] = "1"
