"""Stops for a profiler that the program starts itself, and keeps a copy of its trace.

torch allows one profiler at a time. When the program starts its own, ours stops first, and the
program's trace is kept, with the program's schedule and options. An export works only once, so it
goes to a private file first, from which both copies are made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.autograd.profiler import profile as LegacyProfile
from torch.profiler.profiler import _KinetoProfile

from foretrace.base import files
from foretrace.record.profiling.export import copy_trace
from foretrace.record.profiling.window import Capture


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
            original = getattr(owner, name)
            self._patches.callback(setattr, owner, name, original)
            setattr(owner, name, watched(original))
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
