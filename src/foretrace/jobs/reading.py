"""Which files a job has, and who reads them: processes of this machine, or tasks of a Ray cluster.

Here one process per core reads one file at a time. On a Ray cluster each file is a task: it gets a
path and limits, and returns plain bytes. Ray runs it again when its worker or its node dies. Every
node needs foretrace and access to the files, in a shared folder or a bucket. A file that a node
cannot open, or whose nodes are lost, is read here if it exists here. What Ray prints goes to
stderr: stdout has the answer alone.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.budget import Limits, clock
from foretrace.base.errors import MissingError, UsageError, report
from foretrace.base.units import bytes_text, span_text, whole
from foretrace.jobs.reduce import answer, size_of
from foretrace.jobs.whole_job import FileAnswer
from foretrace.read.bytestream import UNPACKED
from foretrace.read.door import NamedFiles, Opened, TraceFolder
from foretrace.read.kineto.parallel import cores
from foretrace.read.ledger import LeftOut
from foretrace.read.workers import spread
from foretrace.trace import opening
from foretrace.trace.metadata import rank_in_name

WORTHWHILE = 16 << 20  # bytes: a process starts in 0.7 s, and reads 20 MB of JSON in that time
_BASE, _PER_BYTE = 128 << 20, 4  # memory of a process: its own, and for each byte of JSON
RETRIES = 3  # of a Ray task whose worker or node died
_WAITING = 2  # Ray tasks for each core: one runs, the next is ready
_LOOK_S = 10  # between two looks at whether a cluster that does not answer still has nodes
LOST = "the Ray workers that read it were lost; see `ray status`, or read it without --ray"

Answers = Iterator[tuple[str, FileAnswer]]


class JobFiles(Struct, frozen=True):
    """The files of a job with their sizes, by path, and files named like traces that cannot be
    read. `limits` apply to its files.
    """

    files: dict[str, int]
    left_out: list[LeftOut]
    limits: Limits


def list_files(found: Opened, limits: Limits) -> JobFiles:
    """The files of a job."""
    if isinstance(found, NamedFiles):
        return JobFiles(found.files, [], found.limits)
    if isinstance(found, TraceFolder):
        left_out = [opening.refused(*problem) for problem in found.problems]
        return JobFiles(found.sizes, left_out, limits)
    return JobFiles({found.path: size_of(found.path)}, [], limits)


def of_ranks(files: Mapping[str, int], ranks: frozenset[int] | None) -> dict[str, int]:
    """The files whose names have one of these ranks; all files where names do not give the rank.

    A number in a name may be that of a process or of a GPU in its host. It is taken as the rank
    only where all files have different numbers, below twice the number of files.
    """
    named = {path: rank_in_name(path) for path in files}
    stated = [rank for rank in named.values() if rank is not None]
    sure = len(set(stated)) == len(files) and max(stated, default=0) < 2 * len(files)
    if ranks is None or not sure:
        return dict(files)
    chosen = {path: size for path, size in files.items() if named[path] in ranks}
    return chosen or dict(files)  # the names may be wrong: the headers decide


def numbers(option: str, text: str | None) -> frozenset[int] | None:
    """`0-63,128` as numbers; None where nothing is chosen."""
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last) if dash else whole(first)
        if low is None or high is None or low < 0 or not 0 <= high - low < 1 << 20:
            raise UsageError(f"{option} {text!r}: write numbers and ranges, as in 0-63,128")
        chosen.update(range(low, high + 1))
    return frozenset(chosen)


def read_progress(answers: Answers, sizes: Mapping[str, int]) -> Iterator[FileAnswer]:
    """The answers as they come, with the sizes of their files; reports files, bytes and time left.

    The size of a member of a zip is known from the zip alone.
    """
    begun, read, total = clock(), 0, sum(sizes.values())
    for done, (path, found) in enumerate(answers, start=1):
        read += sizes[path]
        left = (clock() - begun) * (total - read) / read if read else 0
        amount = f", {bytes_text(read)} of {bytes_text(total)}" if total else ""
        wait = f", {span_text(left)} left" if left >= 1 else ""
        report(f"read {done:,} of {len(sizes):,} files{amount}{wait}")
        if found.part is None:
            yield found
        else:
            facts = replace(found.part.facts, file_bytes=sizes[path])
            yield FileAnswer(replace(found.part, facts=facts))
    report()


def local_answers(files: Mapping[str, int], limits: Limits, cache: bool) -> Answers:
    """The answers of processes of this machine; small jobs are read in this one."""
    sizes = [size * (1 if path.endswith(".json") else UNPACKED) for path, size in files.items()]
    fitting = free_memory() // (_BASE + _PER_BYTE * max(sizes, default=0))
    workers = min(cores(), len(files), max(fitting, 1))
    if workers < 2 or sum(sizes) < WORTHWHILE:
        yield from ((path, answer(path, limits, cache)) for path in files)
        return
    read = partial(encoded, limits=limits, cache=cache)
    for path, content in spread(read, files, workers, _ended, _one_thread):
        yield path, _decoded(content)


def free_memory() -> int:
    """Bytes that processes of this machine can have; very many where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            stated = dict(line.split(":", 1) for line in file)
        return int(stated["MemAvailable"].split()[0]) << 10
    except (OSError, LookupError, ValueError):
        return 1 << 62


def encoded(path: str, limits: Limits, cache: bool) -> bytes:
    """The answer of one file as plain bytes: no process unpickles the content of a trace."""
    return msgspec.msgpack.encode(answer(path, limits, cache))


def _decoded(content: bytes) -> FileAnswer:
    return msgspec.msgpack.decode(content, type=FileAnswer)


def _ended(path: str) -> bytes:
    return msgspec.msgpack.encode(FileAnswer(left_out=opening.ended(path)))


def _one_thread() -> None:
    """Every core has a process: one Polars thread each, set before Polars starts."""
    os.environ["POLARS_MAX_THREADS"] = "1"


def ray_answers(files: Mapping[str, int], limits: Limits, cache: bool, address: str) -> Answers:
    """The answers of a Ray cluster."""
    lost = []
    with redirect_stdout(sys.stderr):
        ray, started = _connected(address)
        try:
            for path, content in _contents(ray, files, limits, cache):
                lost_there = FileAnswer(left_out=LeftOut(opening.shown(path), "E_UNREADABLE", LOST))
                found = _decoded(content) if content else lost_there
                absent = found.left_out is not None and found.left_out.code == "E_UNREADABLE"
                if absent and os.path.isfile(path):
                    lost.append(path)
                else:
                    yield path, found
        finally:
            if started:
                ray.shutdown()
    # in a process apart: a file may have ended those that read it
    read = partial(encoded, limits=limits, cache=cache)
    for path, content in spread(read, lost, 1, _ended, _one_thread):
        yield path, _decoded(content)


def _connected(address: str) -> tuple[Any, bool]:
    """Ray, and whether this call connected it."""
    try:
        import ray
    except ImportError:
        needs = "--ray needs Ray: pip install 'foretrace[ray]'"
        raise MissingError(needs) from None
    if ray.is_initialized():
        return ray, False
    try:
        # fail at once where nothing listens: Ray would wait for minutes
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as problem:
        what = f"--ray {address}: no Ray cluster answers ({problem})"
        raise UsageError(f"{what}; start one with: ray start --head") from None
    return ray, True


def _contents(
    ray: Any, files: Mapping[str, int], limits: Limits, cache: bool
) -> Iterator[tuple[str, bytes | None]]:
    """The bytes of each file's answer; None where every worker that read it died.

    Ray waits for ever for nodes that are lost; a cluster that grows on demand may begin with none.
    """
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(encoded)
    begun = int(ray.cluster_resources().get("CPU", 0))
    most = max(begun, 1) * _WAITING
    queue, running = deque(files), dict[Any, str]()
    try:
        while queue or running:
            while queue and len(running) < most:
                path = queue.popleft()
                running[task.remote(path, limits, cache)] = path
            done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
            for each in done:
                yield running.pop(each), _content(ray, each)
            if begun and not done and not ray.cluster_resources().get("CPU", 0):
                yield from ((path, None) for path in (*running.values(), *queue))
                return
    finally:
        for each in running:  # after Ctrl+C nothing waits for the tasks that still run
            ray.cancel(each, force=True)


def _content(ray: Any, task: Any) -> bytes | None:
    errors = ray.exceptions
    try:
        content: bytes = ray.get(task)
    except errors.RayTaskError as problem:
        if "import" in str(problem):
            what = "a node of the Ray cluster cannot import foretrace"
            raise MissingError(f"{what}: install the same version on every node") from None
        raise
    except errors.RayError:  # its worker died, and so did those that tried again
        return None
    return content
