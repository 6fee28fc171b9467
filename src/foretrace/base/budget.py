"""How much one file may take: sizes, time and memory. Each limit can be raised.

The default limits leave two orders of magnitude above what 56 public traces showed: depth 6,
strings of 5,123 characters, events of 6.9 kB, compression 29:1.

Loops call `check` between pieces of work. In a process that is foretrace's own (a command, a
worker) a timer calls it as well, so that one regular expression or one sort cannot run on. The
defaults for time and memory grow with the JSON that was read: a sound trace takes a twentieth of
the time and half of the memory.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import LimitError, UsageError
from foretrace.base.units import bytes_text

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


class Limits(Struct, frozen=True):
    """How much of a file is read before it is refused; sizes in bytes."""

    bytes: int = 16 << 30  # uncompressed
    ratio: int = 200  # uncompressed : compressed, once past `RATIO_FREE_BYTES`
    events: int = 100_000_000
    depth: int = 64
    string: int = 16 << 20
    args: int = 10_000
    event: int = 64 << 20
    members: int = 64  # of a zip
    seconds: int = 0  # 0: in proportion to the file
    memory: int = 0  # that may be added to the process; 0: in proportion to the file


RATIO_FREE_BYTES = 64 << 20  # small files may compress as well as they like


def raised_by(name: str) -> str:
    """The hint for whoever trusts a file that a limit stopped."""
    return f"raise it with --limit {name}=NUMBER"


def keeps_everything(limits: Limits) -> bool:
    """Whether a file that is read under these limits gives what the defaults give."""
    return replace(limits, seconds=0, memory=0) == Limits()


def parse_limits(settings: tuple[str, ...]) -> Limits:
    """`("bytes=64GiB", "depth=200")` -> Limits; a usage error lists the names."""
    names = Limits.__struct_fields__
    changes: dict[str, int] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        match = re.fullmatch(r"(\d+)\s*([a-zA-Z]*)", value.strip())
        if name not in names or match is None or match[2].lower() not in _UNITS:
            known = ", ".join(names)
            raise UsageError(f"--limit {setting!r}: write NAME=NUMBER with NAME one of {known}")
        changes[name] = int(match[1]) * _UNITS[match[2].lower()]
        if not changes[name]:
            raise UsageError(f"--limit {setting!r}: a limit is at least 1")
    return Limits(**changes)


BASE_S, S_PER_MB = 30.0, 1.0
BASE_BYTES, BYTES_PER_BYTE = 512 << 20, 3
EVERY_S = 0.5
PASSING = 0.125  # how much of a second counts in which this process does nothing
GRACE_S = 5.0  # to tidy up in, before the same ceiling is named again

# frames that the timer leaves alone: half a NumPy cannot be imported again, and what takes long in
# `click.echo` is whoever reads the output
_IMPORTING, _WRITING = "<frozen importlib", "echo"
_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def clock() -> float:
    """Seconds of work of this process, and a part of those that pass: what others take of a busy
    machine is not the file's, but workers that are stuck must end.
    """
    return time.process_time() + PASSING * time.monotonic()


def held_memory() -> int:
    """Bytes that this process holds in memory; without Linux's `/proc`, the most it ever held.

    On Linux that maximum is inherited from whoever starts the process, and says nothing.
    """
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


class Budget:
    """What work on one file, or one command, may take; waiting for others is not counted."""

    def __init__(self, label: str, limits: Limits) -> None:
        self.label, self.limits = label, limits
        self.read = 0  # bytes of JSON
        self.started, self.held = clock(), held_memory()
        self.waits, self.waited, self.raised = 0, 0.0, -GRACE_S

    @property
    def seconds(self) -> float:
        """How long it may take."""
        return self.limits.seconds or BASE_S + S_PER_MB * self.read / 1e6

    @property
    def memory(self) -> int:
        """By how many bytes the memory of this process may grow."""
        return self.limits.memory or BASE_BYTES + BYTES_PER_BYTE * self.read

    def took(self, count: int) -> None:
        """Count bytes of JSON, and check."""
        self.read += count
        self.check()

    def check(self) -> None:
        """Raise `LimitError` at a ceiling."""
        now = clock()
        if self.waits or now - self.raised < GRACE_S:
            return
        problem, label = None, self.label or "this command"
        if now - self.started - self.waited > self.seconds:
            what = f"takes longer than {self.seconds:,.0f} s"
            problem = LimitError("E_TOO_SLOW", label, what, hint=raised_by("seconds"))
        elif held_memory() - self.held > self.memory:
            problem = self.needs_memory(f"takes more than {bytes_text(self.memory)} of memory")
        if problem:
            self.raised = now
            raise problem

    def needs_memory(self, what: str) -> LimitError:
        """The error for too much of it."""
        label = self.label or "this command"
        return LimitError("E_TOO_MUCH_MEMORY", label, what, hint=raised_by("memory"))


class _Wait:
    """Stops the clock of a budget; a class, because it is entered for every block of a file."""

    def __init__(self, budget: Budget | None) -> None:
        self.budget, self.begun = budget, 0.0

    def __enter__(self) -> None:
        if self.budget:
            self.budget.waits += 1
            self.begun = clock()

    def __exit__(self, *_: object) -> None:
        if self.budget:
            self.budget.waited += clock() - self.begun if self.budget.waits == 1 else 0
            self.budget.waits -= 1


def check() -> None:
    """Ask the budget of what is being worked on, if there is one."""
    if budget := _current.get():
        budget.check()


def took(count: int) -> None:
    """Count bytes of JSON."""
    if budget := _current.get():
        budget.took(count)


@contextmanager
def ceiling(label: str, limits: Limits) -> Iterator[Budget]:
    """Work on one file; the budget outside of it waits, and grows by what is read."""
    outer, budget = _current.get(), Budget(label, limits)
    token = _current.set(budget)
    try:
        with _Wait(outer):
            yield budget
    except MemoryError:
        memory = "needs more memory than there is"
        raise budget.needs_memory(memory) from None
    finally:
        _current.reset(token)
        if outer:
            outer.label, outer.read = outer.label or label, outer.read + budget.read


def waiting() -> _Wait:
    """Time that passes in here is somebody else's: a pipe, a disk, another process, a browser."""
    return _Wait(_current.get())


@contextmanager
def asking() -> Iterator[None]:
    """A person types in here: the clock stands still, and Ctrl+C ends it at once.

    The timer of `timed` stops, because an alarm beside Ctrl+C is handled while an exception is set,
    which is a SystemError. Polars has SIGINT restart what it interrupts; a prompt must not restart.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    with waiting():
        left = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.siginterrupt(signal.SIGINT, True)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *left)


@contextmanager
def apart() -> Iterator[None]:
    """Work in here is no reading: neither its time nor the memory that it leaves behind counts."""
    outer, before = _current.get(), held_memory()
    token = _current.set(None)
    try:
        with _Wait(outer):
            yield
    finally:
        _current.reset(token)
        if outer:
            outer.held += max(held_memory() - before, 0)


@contextmanager
def timed() -> Iterator[None]:
    """Check twice a second, whatever runs; not where someone else uses the alarm."""
    if not arm():
        yield
        return
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def arm() -> bool:
    """Start the timer, for good; only in the main thread of a process that is foretrace's own."""
    import threading

    alone = threading.current_thread() is threading.main_thread()
    if not alone or not hasattr(signal, "setitimer"):
        return False
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, _ask):
        return False
    signal.signal(signal.SIGALRM, _ask)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
    return True


def _ask(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_IMPORTING) or code.co_name == _WRITING:
            return
        frame = frame.f_back
    check()
