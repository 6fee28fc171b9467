"""Runs a user's script under the profiler and keeps its trace, however the script ends.

`Recorder` has three stages: `early` records everything, for at most `limit_s` seconds; `window`
steps a `Capture` from outside, after `warmup` steps; `over` only counts. If the script ends before
the window recorded a step, the first recording is the trace. If the script starts its own profiler,
ours stops and the script's own trace is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function

from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.record.profiling.allocator_history import AllocatorHistory, ran_out
from foretrace.record.profiling.compiler_records import Bundle, CompilerRecords
from foretrace.record.profiling.export import export, place, trace_path
from foretrace.record.profiling.run_record import TORCH_NAMES, RunRecord, profile_options
from foretrace.record.profiling.script_hooks import (
    Ended,
    EndingSignals,
    ForeignProfilers,
    StepFinder,
    alarm,
    leave_fork,
    own_streams,
    report,
)
from foretrace.record.profiling.window import (
    Capture,
    GraphCaptures,
    activities,
    quiet_profiler,
    refuse_second_profiler,
    torch_options,
)


class WindowDone(BaseException):
    """Ends the script after its window is written, on request; only `script` catches it."""


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    """How to record; `find` is the kind of `StepFinder`; `stop` ends the script after that."""

    steps: int = 3
    warmup: int = 3
    wait: int = 1
    find: str = "auto"
    limit_s: int = 60
    stop: bool = False
    overwrite: bool = False
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    modules: bool = False
    why: bool = False
    graphs: bool = False

    def recording(self) -> dict[str, Any]:
        """The options of the profiler."""
        return {name: getattr(self, name) for name in TORCH_NAMES}


@dataclass(slots=True)
class RecordedScript:
    """The traces (best first), the script's exit code, and what a user should know.

    `memory` and `oom` are the snapshots of the allocator that were written: of the recorded steps,
    and of the moment when memory ran out.
    """

    traces: list[Path] = field(default_factory=list)
    exit_code: int = 0
    steps: int = 0
    notes: list[str] = field(default_factory=list)
    bundles: dict[Path, Bundle] = field(default_factory=dict)
    memory: Path | None = None
    oom: Path | None = None


class Recorder:
    """One of three gives the trace: the early recording, the window, the script's own profiler."""

    def __init__(self, target: Path, options: ScriptOptions, say: Callable[[str], None]) -> None:
        self.target, self.options, self.say = target, options, say
        self.compiler = CompilerRecords(target.parent, wanted=options.why)
        self.result = RecordedScript(bundles=self.compiler.bundles)
        self.graphs = GraphCaptures(
            self._own_profiler, self._is_idle, wanted=options.graphs, driving=self._ours
        )
        self.allocator = AllocatorHistory(wanted=options.memory)
        self.foreign = ForeignProfilers(
            lambda: self._driving, self._stand_aside, self._keep_foreign
        )
        self._stage = "early"
        self._driving = False  # one of our own profilers is being driven right now
        self._record = RunRecord({"steps": None, **options.recording()})
        self._early: Any = self._own_profiler()
        self._early_runs = False
        self._range = contextlib.ExitStack()  # of the step that the early recording is in
        self._window: Capture | None = None
        self._detached = contextlib.ExitStack()  # while steps are timed

    def start(self) -> None:
        """Record everything from here on."""
        self.compiler.start()
        self.graphs.start()
        self.allocator.start()
        with self._ours(), quiet_profiler():
            self._early.start()
        self._early_runs = True

    def mark(self) -> None:
        """A step begins."""
        number, self.result.steps = self.result.steps, self.result.steps + 1
        if self._stage == "window":
            self._step_window()
        elif self._stage == "early" and number >= self.options.warmup:
            self._stop_early()
            self.graphs.add(self._early)
            self._start_window()
        elif self._early_runs:
            self._range.close()
            self._range.enter_context(record_function(f"ProfilerStep#{number}"))

    def too_long(self) -> None:
        """The time limit of the early recording is over; a window may still come."""
        if self._early_runs:
            self._stop_early()
            note = f"stopped recording everything after {self.options.limit_s} s (--limit)"
            self.result.notes.append(note)

    def fail(self, problem: str) -> None:
        """The script raised: the record of the kept trace has its error."""
        self._record.error = problem
        self.allocator.ended(problem)
        if self._window is not None:
            self._window.record.error = problem
            if self._window.trace is not None:
                self._window.record.write(self._window.trace)

    def finish(self) -> None:
        """Stop whatever runs and write what has not been written."""
        for part in (self._stop_early, self._stop_window, self.foreign.finish, self._write_early):
            with self._apart():
                part()
        self._stage = "over"
        if self.result.traces and ran_out(self._record.error):
            self.result.oom = self.allocator.keep_failure(self.result.traces[0])
        self.compiler.finish()
        self.graphs.finish()
        self.allocator.finish()
        self.result.notes += [*self.compiler.notes, *self.graphs.notes, *self.allocator.notes]

    def _own_profiler(self) -> Any:
        recording = torch_options(self.options.recording())
        return torch.profiler.profile(activities=activities(), **recording)

    def _is_idle(self) -> bool:
        window = self._window if self._stage == "window" else None
        return window is not None and window.trace is None and window.is_idle()

    def _steps_needed(self) -> int:
        return self.options.warmup + self.options.wait + 2 + self.options.steps

    def _start_window(self) -> None:
        self._stage = "window"
        asked = {"warmup": self.options.warmup, "wait": self.options.wait}
        recording: dict[str, Any] = {"steps": self.options.steps, **self.options.recording()}
        steps: dict[str, Any] = {"warmup": self.options.wait, "wait": 1}
        self._window = Capture(self.target, overwrite=self._replaces(), **steps, **recording)
        self._window.record.profile = {**self._window.record.profile, **asked}
        self._window.record.compiling = self._record.compiling
        self._window.allocator = AllocatorHistory(wanted=False)  # ours began with the script
        with self._ours():
            self._window.start()
        last = self._steps_needed()
        self.say(f"recording steps {last - self.options.steps + 1} to {last}")

    def _step_window(self) -> None:
        assert self._window is not None
        self._window.record.facts = self._facts()
        with self._ours():
            self._window.step()
            # the script's first call was long before
            self._window.record.timing.first_call_ns = None
        if self._window.trace is not None and not self.result.traces:
            self._keep(self._window.trace)
            with self._ours():
                self._detached.enter_context(cupti_detached())
            self.say("timing further steps without the profiler")
        if self._window.is_timed:
            self._stop_window()
            if self.options.stop:
                raise WindowDone

    def _stop_window(self) -> None:
        if self._stage != "window" or self._window is None:
            return
        self._stage = "over"
        self._detached.close()  # a profiler of the script's starts without the variable
        done, asked = self._window.step_num - self._window.plain_steps, self.options.steps
        if done < asked:
            early = "the script ended inside the window"
            self._window.record.note = f"{early}: {done} of {asked} steps are recorded"
        with self._ours():
            self._window.stop()
        if self._window.trace is not None and not self.result.traces:
            self._keep(self._window.trace, self._window.record.note)

    def _stop_early(self) -> None:
        if self._early_runs:
            self._early_runs = False
            self._range.close()
            with self._ours():
                self._early.stop()

    def _write_early(self) -> None:
        if self.result.traces:
            return
        with self._ours():
            trace = export(self._early, self.target, overwrite=self._replaces())
        self.graphs.forget(self._early)
        seen, need = self.result.steps, self._steps_needed()
        self._record.note = "no step was found: this is the whole script (see --steps-at)"
        if seen:
            counted = f"{plural(seen, 'step was', 'steps were')} seen and the window needs {need}"
            counted += " (see --warmup)"
            self._record.note = f"{counted}: this is the script from its first line"
        self._record.facts = self._facts()
        self._record.write(trace)
        self._keep(trace, self._record.note)

    def _stand_aside(self) -> None:
        self._stop_early()
        self._stop_window()
        if "own_profiler" not in self._record.facts:
            note = "the script has its own profiler: foretrace stopped and keeps its trace"
            self.result.notes.append(note)
        self._record.facts["own_profiler"] = True
        self._stage = "over"

    def _keep_foreign(self, profiler: Any, plain: str) -> None:
        if os.path.exists(plain):
            trace = place(plain, self.target, overwrite=self._replaces())
            self._record.profile = profile_options(profiler)
            self._record.facts |= self._facts()
            self._record.write(trace)
            self._keep(trace)

    def _keep(self, trace: Path, note: str | None = None) -> None:
        self.result.traces.append(trace)
        self.compiler.keep(trace)
        self.graphs.keep(trace)
        self.result.memory = self.result.memory or self.allocator.keep(trace)
        self.result.notes += [note] if note else []

    def _replaces(self) -> bool:
        # an older run's trace, never one of this run
        return self.options.overwrite and not self.result.traces

    def _facts(self) -> dict[str, Any]:
        return {"script": {"steps_seen": self.result.steps, "found_by": self.options.find}}

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """After an interrupt inside torch's profiler, a lost part must not cost the others."""
        try:
            yield
        except Exception as problem:
            if self._record.error is None:
                raise
            lost = f"{type(problem).__name__}: {problem}"
            self.result.notes.append(f"a part of the recording is lost: {lost}")

    @contextlib.contextmanager
    def _ours(self) -> Iterator[None]:
        self._driving = True
        try:
            yield
        finally:
            self._driving = False


DETACHES_SINCE = (12, 6)  # CUDA; before, CUDA graphs crashed after it


@contextlib.contextmanager
def cupti_detached() -> Iterator[None]:
    """Leave nothing of CUPTI behind: launches stay slower by up to a quarter with it attached.

    Kineto detaches it at the end of a session if this variable says so, and loses the events of
    that session. So an empty one ends here, after the trace is written. A thread of Kineto's does
    it at a later launch, and attaches it again if the variable is gone by then: it stays for the
    block.
    """
    version = tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2])
    if (
        version < DETACHES_SINCE
        or "TEARDOWN_CUPTI" in os.environ
        or not torch.cuda.is_initialized()
    ):
        yield
        return
    os.environ["TEARDOWN_CUPTI"] = "1"
    try:
        both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with quiet_profiler(), torch.profiler.profile(activities=both):
            pass
        yield
    finally:
        os.environ.pop("TEARDOWN_CUPTI", None)


def record_script(
    script: str,
    arguments: Sequence[str],
    path: str | os.PathLike[str],
    *,
    module: bool = False,
    options: ScriptOptions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> RecordedScript:
    """Run `script` (a file, or a module with `module`) as `__main__`, and record it to `path`."""
    if module and not _is_module(script):
        raise UsageError(f"no module named {script}: install it, or remove -m for a file")
    if not module and os.path.isdir(script):
        raise UsageError(f"{script} is a folder: give the script in it")
    if not module and not os.path.isfile(script):
        raise UsageError(f"no such script: {script}")
    refuse_second_profiler()
    options = options or ScriptOptions()
    recorder = Recorder(trace_path(path), options, say)
    home = os.getpid()
    with recorder.foreign, EndingSignals() as ending:
        recorder.start()
        with own_streams(), StepFinder(recorder.mark, options.find):
            with alarm(options.limit_s, recorder.too_long):
                code = run_script(
                    script, list(arguments), module, recorder.fail, ended=recorder.allocator.take
                )
            ending.script_runs = False
            if os.getpid() != home:
                leave_fork(code)
        recorder.finish()
    recorder.result.exit_code = code if ending.late is None else int(ending.late.code or 0)
    return recorder.result


def _is_module(name: str) -> bool:
    """Whether `python -m name` finds something; a package that raises shows its own traceback."""
    before, sys.path[0] = sys.path[0], os.getcwd()
    try:
        found = None if name.startswith(".") else importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            found = importlib.util.find_spec(f"{name}.__main__")
        return found is not None
    except ModuleNotFoundError as problem:
        return problem.name is None or not f"{name}.__main__.".startswith(f"{problem.name}.")
    except Exception:  # noqa: BLE001 (the user's package may raise anything)
        return True
    finally:
        sys.path[0] = before


def run_script(
    script: str,
    arguments: list[str],
    module: bool,
    fail: Callable[[str], None],
    source: str | None = None,
    ended: Callable[[], None] = lambda: None,
) -> int:
    """Run a script or a module as `__main__`; returns its exit code.

    With `source` that text runs in the place of the script's own, under its name. `ended` is called
    after its last line, while its variables are there.
    """
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(script))
    try:
        if module:
            left = runpy.run_module(script, run_name="__main__", alter_sys=True)
        elif source is not None:
            left = _run_source(script, source)
        else:
            left = runpy.run_path(script, run_name="__main__")
        ended()
        del left
    except WindowDone:
        return 0
    except Ended as ending:
        fail(f"ended by {ending.signal}")
        return int(ending.code or 0)
    except SystemExit as leaving:  # as in the interpreter
        if leaving.code:
            fail(f"SystemExit: {leaving.code}")
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as problem:  # noqa: BLE001 (reported as Python would)
        fail(f"{type(problem).__name__}: {problem}")
        report(problem, their_frames(problem.__traceback__))
        # 128 + SIGINT, as a shell reports it
        return 130 if isinstance(problem, KeyboardInterrupt) else 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def _run_source(script: str, source: str) -> dict[str, Any]:
    """Run a text as `__main__`, as if it stood in the file `script`; its variables."""
    main = ModuleType("__main__")
    main.__file__ = script
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(compile(source, script, "exec"), main.__dict__)
    finally:
        sys.modules["__main__"] = before
    return main.__dict__


def their_frames(where: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is neither ours nor Python's import or runpy."""
    package = str(Path(__file__).parents[2]) + os.sep
    ours = (package, os.path.dirname(importlib.__file__), "<frozen ")
    while where is not None and where.tb_next is not None:
        if not where.tb_frame.f_code.co_filename.startswith(ours):
            break
        where = where.tb_next
    return where
