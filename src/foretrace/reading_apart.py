"""Documents of many traces, in the order asked for: from the cache, here one after another, or in a
process per core.

A process of its own gives back what reading a trace took. Ctrl+C reaches this process alone, which
then ends the others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from foretrace.errors import TraceError
from foretrace.opening import is_kept, kept_document, look_document, shown
from foretrace.sources.kineto.parallel import cores
from foretrace.sources.limits import Limits

# bytes on disk, in all: a process takes 0.7 s to start, in which one reads about 20 MB of plain
# JSON
WORTHWHILE = 16 << 20
MOST = 8  # processes: each holds a whole trace


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that is no readable trace, in plain words: errors do not travel between processes."""

    path: str
    code: str
    text: str

    @classmethod
    def of(cls, path: str, problem: TraceError) -> Refused:
        return cls(
            shown(path),
            problem.code,
            shown(f"{problem.message}; {problem.hint}" if problem.hint else problem.message),
        )


Found = dict[str, Any] | Refused


def documents(paths: Sequence[str], limits: Limits, cache: bool) -> Iterator[Found]:
    """For each path its look and what a set is told by, or why there is none."""
    kept = (
        {path: found for path in paths if (found := kept_document(path))}
        if cache and is_kept(limits)
        else {}
    )
    fresh = _read([path for path in paths if path not in kept], limits, cache)
    for path in paths:
        yield kept.pop(path) if path in kept else next(fresh)


def _read(paths: Sequence[str], limits: Limits, cache: bool) -> Iterator[Found]:
    workers = min(cores(), MOST, len(paths))
    size = sum(
        os.path.getsize(file)
        for file in {path.partition("::")[0] for path in paths}
        if os.path.isfile(file)
    )
    if workers > 1 and size > WORTHWHILE:
        yield from _apart(paths, limits, cache, workers)
    else:
        yield from (one(path, limits, cache) for path in paths)


def one(path: str, limits: Limits, cache: bool) -> Found:
    """One trace, without what only its own page shows."""
    try:
        document = look_document(path, cache=cache, limits=limits)
    except TraceError as problem:
        return Refused.of(path, problem)
    return {"look": document["look"], "run": document["run"]}


def _apart(paths: Sequence[str], limits: Limits, cache: bool, workers: int) -> Iterator[Found]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        with _interrupts_held():
            waiting = [pool.submit(one, path, limits, cache) for path in paths]
        for path, found in zip(paths, waiting, strict=True):
            try:
                yield found.result()
            except (
                BrokenProcessPool
            ):  # one died, perhaps for want of memory: alone here there is more of it
                yield one(path, limits, cache)
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started in here never see Ctrl+C: each would print where it was."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
