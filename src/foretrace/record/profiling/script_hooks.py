"""What a recorded script does to the process it shares with us: steps, profilers, signals, forks.

`StepFinder` finds the steps of a program that marks none, by the rule of `docs/capture.md`. A
global hook finds the outermost module, removes itself, and leaves one hook on that module: inner
modules run at full speed, and torch.compile traces compiled ones as before. `optimizer.step` cannot
end a step: its range in the trace is still open in its hooks. Other threads and forked workers
never mark steps: the profiler belongs to the main thread.

A profiler exports only once, so the program's own one exports to a private file that is copied
twice. Our output goes where it went before the script redirected it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.autograd.profiler import profile as LegacyProfile
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler.profiler import _KinetoProfile

from foretrace.base import files
from foretrace.record.profiling.export import copy_trace
from foretrace.record.profiling.patches import ModuleHook, replaced
from foretrace.record.profiling.run_record import on_cuda
from foretrace.record.profiling.window import Capture


class StepFinder:
    """Calls `mark()` at the start of every step that it finds inside its `with` block.

    `kind`: `auto` is the rule above; `forward` marks every call of the outermost module,
    `optimizer` only what follows an optimizer's step, `none` nothing. `found` is called with the
    outermost module before its first call.
    """

    def __init__(
        self,
        mark: Callable[[], None],
        kind: str = "auto",
        found: Callable[[Any], None] = lambda module: None,
    ) -> None:
        self.kind = kind
        self._mark, self._found = mark, found
        self._home = (os.getpid(), threading.get_ident())
        self._optimizer: int | None = None  # the id of the first optimizer that stepped
        self._pending = False  # it has stepped, and the next iteration has not begun
        self._made = self._training = False  # an optimizer; the first iteration has begun
        self._outer: Any = None  # the outermost module
        self._handles: list[Any] = []
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> StepFinder:
        if self.kind != "none":
            # Our own hook would cause it, and is gone before the module runs.
            message = "Using `torch.compile.module.` when there are global hooks"
            warnings.filterwarnings("ignore", message=message)
            self._handles = [register_module_forward_pre_hook(self._outermost)]
            self._patches.enter_context(replaced(torch.nn.Module, "compile", self._compiling))
        if self.kind in ("auto", "optimizer"):
            self._handles.append(register_optimizer_step_post_hook(self._stepped))
            for name, watched in (("__init__", self._making), ("zero_grad", self._zeroing)):
                self._patches.enter_context(replaced(torch.optim.Optimizer, name, watched))
        return self

    def __exit__(self, *problem: object) -> None:
        self._patches.close()
        for handle in self._handles:
            handle.remove()

    def _outermost(self, module: Any, arguments: Any) -> None:
        # Inside a traced function this hook would be traced too; there it must do nothing at all.
        if torch.compiler.is_compiling() or not self._at_home():
            return
        self._handles[0].remove()
        self._outer = module
        self._found(module)
        self._handles[0] = module.register_forward_pre_hook(ModuleHook(self._called))
        self._called(module, arguments)

    def _called(self, module: Any, arguments: Any) -> None:
        if torch.compiler.is_compiling() or not self._at_home():
            return
        if self._pending or self.kind == "forward" or (self.kind == "auto" and self._alone(module)):
            self._begin()

    def _alone(self, module: Any) -> bool:
        """Whether a call of the outermost module begins a step before any optimizer has stepped."""
        if self._optimizer is not None:
            return False
        trains = self._made and module.training and torch.is_grad_enabled()
        begins = not (trains and self._training)
        self._training |= trains
        return begins

    def _stepped(self, optimizer: Any, arguments: Any, options: Any) -> None:
        if torch.compiler.is_compiling() or not self._at_home():
            return
        if self._optimizer in (None, id(optimizer)):
            self._optimizer, self._pending = id(optimizer), True

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(optimizer: Any, *arguments: Any, **options: Any) -> None:
            self._made = True
            original(optimizer, *arguments, **options)

        return make

    def _zeroing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(optimizer: Any, *arguments: Any, **options: Any) -> Any:
            if self._pending and self._at_home():
                self._begin()
            return original(optimizer, *arguments, **options)

        return zero_grad

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A module that `compile()` compiled in place runs its hooks inside the compiled code."""

        def compile_in_place(module: Any, *arguments: Any, **options: Any) -> None:
            original(module, *arguments, **options)
            compiled = module._compiled_call_impl

            def call(*given: Any, **named: Any) -> Any:
                if self._outer is None:
                    self._outermost(module, given)
                elif self._outer is module:
                    self._called(module, given)
                return compiled(*given, **named)

            module._compiled_call_impl = call

        return compile_in_place

    def _begin(self) -> None:
        # a profiler that starts or stops waits for the GPU, which breaks the capture of a graph
        if not (on_cuda() and torch.cuda.is_current_stream_capturing()):
            self._pending = False
            self._mark()

    def _at_home(self) -> bool:
        return self._home == (os.getpid(), threading.get_ident())


class ForeignProfilers:
    """Reports profilers that are not `ours()`, and each trace that they export, inside `with`.

    `began()` is called just before such a profiler starts; `exported(profiler, file)` for each
    trace, as a temporary plain JSON file. `finish()` exports what the program never wrote.
    """

    def __init__(
        self,
        ours: Callable[[], bool],
        began: Callable[[], None],
        exported: Callable[[Any, str], None],
    ) -> None:
        self._ours, self._began, self._exported = ours, began, exported
        self._unsaved: Any = None  # stopped, and not exported yet
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> ForeignProfilers:
        for owner, name, watched in (
            (_KinetoProfile, "prepare_trace", self._before),
            (_KinetoProfile, "stop_trace", self._after_stop),
            (_KinetoProfile, "export_chrome_trace", self._around_export),
            (LegacyProfile, "__enter__", self._before),
            (Capture, "start", self._before),  # it refuses where a profiler runs
        ):
            self._patches.enter_context(replaced(owner, name, watched))
        return self

    def __exit__(self, *problem: object) -> None:
        self._patches.close()

    def finish(self) -> None:
        """Export what a profiler of the program recorded and the program did not write."""
        if self._unsaved is not None:
            with files.scratch() as folder:
                self._unsaved.export_chrome_trace(os.path.join(folder, "trace.json"))

    def _before(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def started(profiler: Any, *arguments: Any) -> Any:
            if not self._ours():
                self._began()
            return original(profiler, *arguments)

        return started

    def _after_stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(profiler: Any) -> Any:
            result = original(profiler)
            if not self._ours():
                self._unsaved = profiler
            return result

        return stopped

    def _around_export(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def exported(profiler: Any, path: Any, *arguments: Any, **options: Any) -> Any:
            if self._ours():
                return original(profiler, path, *arguments, **options)
            self._unsaved = None
            with files.scratch() as folder:
                plain = os.path.join(folder, "trace.json")
                result = original(profiler, plain, *arguments, **options)
                self._exported(profiler, plain)
                target = Path(os.fspath(path))
                if target.parent.is_dir():  # torch's export is silent without a folder
                    copy_trace(plain, target)
                return result

        return exported


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
    copies: dict[int, int] = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            copies[number] = os.dup(number)
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
                if stream is not None and stream.closed:
                    how = {"encoding": stream.encoding, "errors": stream.errors}
                    stream = open(1 if name == "stdout" else 2, "w", closefd=False, **how)  # noqa: SIM115
                setattr(sys, name, stream)


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
