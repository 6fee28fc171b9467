"""The captures beside a trace: `run.captures/` holds one trace for each CUDA graph that was made.

A replayed kernel has no op. The calls that were recorded while its graph was captured have one, so
each `torch.cuda.graph` block gets a profiler of its own where none runs; graphs of torch.compile
(`mode="reduce-overhead"`) are made in such blocks as well. A graph that is made while another
profiler records is in that recording.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from foretrace.base import files
from foretrace.record.profiling.export import captures_path, export, is_captures

NAME = "graph_{:03}.json.gz"
NOTHING = "no CUDA graph was captured: start the recording before the graphs are made"


class GraphCaptures:
    """Records the graphs that are captured between `start` and `finish`, if they are wanted.

    `profiler` makes one that is ready to start; `is_free` says whether none runs now, and `driving`
    is entered around what it does. `keep` writes the captures beside a trace. `notes` says what
    went wrong; nothing here costs the user a trace.
    """

    def __init__(
        self,
        profiler: Callable[[], Any],
        is_free: Callable[[], bool],
        *,
        wanted: bool,
        driving: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self.notes: list[str] = []
        self.seen = 0  # graphs that were captured, also while another profiler ran
        self._driving = driving
        self._profiler, self._is_free, self._wanted = profiler, is_free, wanted
        self._stopped: list[Any] = []  # one profiler for each graph
        self._running: Any = None
        self._patches = contextlib.ExitStack()

    def start(self) -> None:
        """Watch `torch.cuda.graph` from here on."""
        if not self._wanted:
            return
        self._wanted = False
        owner: Any = torch.cuda.graph
        for name, watched in (("__enter__", self._before), ("__exit__", self._after)):
            original = getattr(owner, name)
            self._patches.callback(setattr, owner, name, original)
            setattr(owner, name, watched(original))
        self._patches.callback(self._note_nothing)

    def add(self, profiler: Any) -> None:
        """Keep the recording of another profiler, if it saw a graph being captured."""
        self._stopped += [profiler] if self.seen else []

    def forget(self, profiler: Any) -> None:
        """This recording is a trace of its own, and a profiler exports only once."""
        self._stopped = [each for each in self._stopped if each is not profiler]

    def keep(self, trace: Path) -> None:
        """Write the captures so far beside `trace`, in the place of earlier ones of ours."""
        if not self._stopped:
            return
        target = captures_path(trace)
        if os.path.lexists(target) and not is_captures(target):
            self.notes.append(f"{target} is there, and foretrace did not write it: no captures")
            return
        with self._driving(), files.scratch(trace.parent) as private:
            draft = private / target.name
            draft.mkdir(0o700)
            for number, profiler in enumerate(self._stopped):
                export(profiler, draft / NAME.format(number))
            if target.exists():
                os.rename(target, private / "before")
            os.rename(draft, target)
        self._stopped = []

    def finish(self) -> None:
        """Put torch back as it was."""
        self._patches.close()

    def __enter__(self) -> GraphCaptures:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.finish()

    def _note_nothing(self) -> None:
        if not self.seen:
            self.notes.append(NOTHING)

    def _before(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def entered(block: Any) -> Any:
            self.seen += 1
            if self._running is None and self._is_free():
                with self._driving():
                    self._running = self._profiler()
                    self._running.start()
            try:
                return original(block)
            except BaseException:
                self._stop()
                raise

        return entered

    def _after(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def left(block: Any, *problem: Any) -> Any:
            try:
                return original(block, *problem)
            finally:
                done = self._stop()
                if done is not None and problem[:1] == (None,):
                    self._stopped.append(done)

        return left

    def _stop(self) -> Any:
        done, self._running = self._running, None
        if done is not None:
            with self._driving():
                done.stop()
        return done
