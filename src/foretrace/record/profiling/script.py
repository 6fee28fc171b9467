"""Runs a user's script under the profiler and keeps its trace, however the script ends.

What is recorded:

1. Everything from the first line on, for at most `limit_s` seconds: the script may be short, or
   have no steps.
2. After `warmup` steps (see `steps`), the window: wait, warm up, record `steps`, write the trace.
3. If the script ends before the window recorded a step, the first recording is the trace.
4. If the script starts its own profiler, ours stops and the script's own trace is kept (see
   `foreign`).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from foretrace.base.errors import UsageError
from foretrace.record.profiling.export import trace_path
from foretrace.record.profiling.process import (
    Ended,
    EndingSignals,
    alarm,
    leave_fork,
    own_streams,
    report,
)
from foretrace.record.profiling.recorder import RecordedScript, Recorder, ScriptOptions, WindowDone
from foretrace.record.profiling.steps import StepFinder
from foretrace.record.profiling.window import refuse_second_profiler

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


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
                code = run_script(script, list(arguments), module, recorder.fail)
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


def run_script(script: str, arguments: list[str], module: bool, fail: Callable[[str], None]) -> int:
    """Run a script or a module as `__main__`; returns its exit code."""
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(script))
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except WindowDone:
        return 0
    except Ended as ending:
        fail(f"ended by {ending.signal}")
        return int(ending.code or 0)
    except SystemExit as leaving:  # as in the interpreter
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as problem:  # noqa: BLE001 (reported as Python would)
        fail(f"{type(problem).__name__}: {problem}")
        report(problem, their_frames(problem.__traceback__))
        return INTERRUPTED if isinstance(problem, KeyboardInterrupt) else 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def their_frames(where: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is neither ours nor Python's import or runpy."""
    package = str(Path(__file__).parents[2]) + os.sep
    ours = (package, os.path.dirname(importlib.__file__), "<frozen ")
    while where is not None and where.tb_next is not None:
        if not where.tb_frame.f_code.co_filename.startswith(ours):
            break
        where = where.tb_next
    return where
