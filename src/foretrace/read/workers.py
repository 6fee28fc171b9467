"""Many files, in processes of their own: a few at a time, and each answer as it comes.

A process of its own gives back the memory that reading a file takes. One that the system ends costs
the files that were being read a second reading, each alone; one that ends again costs its file.
Ctrl+C reaches this process alone, which then ends the others.
"""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

from foretrace.base import budget
from foretrace.base.errors import leave_out, warned

T = TypeVar("T")
_WAITING = 2  # files for each process: one is read, the next is ready


def spread(
    read: Callable[[str], T],
    paths: Iterable[str],
    workers: int,
    ended: Callable[[str], T],
    prepare: Callable[[], object] = int,
) -> Iterator[tuple[str, T]]:
    """Each path and what `read` says about it, in the order in which the answers come.

    `ended` answers for a file whose process the system ended. `prepare` runs first in each process.
    """
    queue = deque(paths)
    while queue:
        lost = yield from _until_one_dies(read, queue, workers, prepare)
        for path in lost:  # perhaps for lack of memory: read alone, a file has more of it
            alone = deque((path,))
            dead = yield from _until_one_dies(read, alone, 1, prepare)
            if dead:
                yield path, ended(path)


def _until_one_dies(
    read: Callable[[str], T], queue: deque[str], workers: int, prepare: Callable[[], object]
) -> Generator[tuple[str, T], None, list[str]]:
    """Answers until the queue is empty, or a process dies; returns the files that it cost."""
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (warned(), prepare))
    reading: dict[Future[T], str] = {}
    try:
        while queue or reading:
            with _starting():
                while queue and len(reading) < workers * _WAITING:
                    reading[pool.submit(read, queue[0])] = queue[0]
                    queue.popleft()
            with budget.waiting():
                done, _ = wait(reading, return_when=FIRST_COMPLETED)
            for each in done:
                answer = each.result()
                yield reading.pop(each), answer
    except BrokenProcessPool:
        return sorted(reading.values())
    except BaseException:
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return []


def _begin(said: frozenset[str], prepare: Callable[[], object]) -> None:
    """A process that reads keeps to its ceilings, and repeats no notice."""
    prepare()
    budget.arm()
    leave_out(said)


@contextmanager
def _starting() -> Iterator[None]:
    """Processes started in here never see Ctrl+C, which each would answer with a traceback, and do
    not run the script that called us once more: what they need, they import.
    """
    main = vars(sys.modules["__main__"])
    hidden = [name for name in ("__file__", "__spec__") if name in main]
    script: dict[str, object] = {name: main.pop(name) for name in hidden}
    main["__spec__"] = None
    mask = getattr(signal, "pthread_sigmask", lambda *_: None)  # none on Windows
    before = mask(getattr(signal, "SIG_BLOCK", 0), {signal.SIGINT})
    try:
        yield
    finally:
        main.update(script)
        mask(getattr(signal, "SIG_SETMASK", 0), before)
