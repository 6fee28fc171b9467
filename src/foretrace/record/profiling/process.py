"""What a recorded script may do to the process it shares with us: signals, streams, forks.

The recording outlives all three: a signal ends the script and what was recorded is still written;
our output goes where it went before the script redirected or closed it; a forked child leaves
without touching the profiler of its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """A signal asked the process to end; the exit code is what a shell reports for it."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number).name
        super().__init__(128 + number)


class EndingSignals:
    """Inside `with`, a signal to end raises `Ended` while the script runs, and is kept after it.

    A second one ends the process at once. A signal that was ignored (`nohup`) stays so. A forked
    child has the signals of a plain Python: one that arrives during the fork waits for them.
    """

    def __init__(self) -> None:
        self.script_runs = True
        self.late: Ended | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> EndingSignals:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._ended)
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, self._before),
            after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, self._before),
            after_in_child=self._forked,
        )
        return self

    def __exit__(self, *problem: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _forked(self) -> None:
        for number in self._before:
            if signal.getsignal(number) == self._ended:  # else the script has its own
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._before)

    def _ended(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if self.script_runs:
            raise Ended(number)
        self.late = Ended(number)


@contextlib.contextmanager
def alarm(seconds: int, ring: Callable[[], None]) -> Iterator[None]:
    """Call `ring` in the main thread after `seconds`, unless the program uses the alarm itself."""
    if seconds <= 0 or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, lambda number, frame: ring())
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextlib.contextmanager
def own_streams() -> Iterator[None]:
    """Give us standard output and error back after the block, as they were before it."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    copies = {number: os.dup(number) for number in (1, 2) if _is_open(number)}
    home = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == home:
            _flush()
            for number, copy in copies.items():
                os.dup2(copy, number)
                os.close(copy)
            for name, stream in streams.items():
                setattr(sys, name, _reopened(stream, 1 if name == "stdout" else 2))


def _reopened(stream: io.TextIOWrapper | None, number: int) -> io.TextIOWrapper | None:
    if stream is None or not stream.closed:
        return stream
    return open(number, "w", encoding=stream.encoding, errors=stream.errors, closefd=False)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or an object of the script
            stream.flush()


def leave_fork(exit_code: int) -> None:
    """End a child that the script forked, as Python would, but without the parent's profiler."""
    atexit._run_exitfuncs()
    _flush()
    os._exit(exit_code & 0xFF)


def report(problem: BaseException, where: TracebackType | None) -> None:
    """Report what the script raised as Python would: by the script's own hook, if it has one."""
    import traceback

    if sys.excepthook is not sys.__excepthook__:
        try:
            sys.excepthook(type(problem), problem.with_traceback(where), where)
            return
        except Exception:  # noqa: BLE001 (the hook is the script's)
            print("Error in sys.excepthook:", file=sys.stderr)
            traceback.print_exc()
            print("\nOriginal exception was:", file=sys.stderr)
    traceback.print_exception(type(problem), problem, where)
