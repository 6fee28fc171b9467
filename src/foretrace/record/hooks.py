"""Records a few steps of a training that another program drives, and never disturbs it.

A `StepRecording` counts steps until torch.compile has compiled nothing new for some of them, then
records. It writes one trace per rank and run, however long the training is. What goes wrong is said
in one line; no error of ours reaches the training.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from foretrace.base.errors import ForetraceError
from foretrace.base.units import plural
from foretrace.record.profiling import capture
from foretrace.record.profiling.window import Capture

PATH = "traces/train"
QUIET = 3  # steps without a new compiled frame before the recording begins
PATIENCE = 200  # after so many steps it begins all the same
WARMUP = 2  # steps that the capture runs before its own


class StepRecording:
    """Call `step()` at the end of each step, and `finish()` when the training ends.

    `steps` steps are recorded to `path`, after those in which torch.compile compiles; the steps
    after them are timed without the profiler. `show` prints the first screen at the end. The other
    options are those of `foretrace.capture`.
    """

    def __init__(
        self, path: str | os.PathLike[str] = PATH, *, steps: int = 3, show: bool = True, **rest: Any
    ) -> None:
        self.path, self.steps, self.show, self.rest = path, steps, show, rest
        self.is_over = False  # recorded and timed, or given up
        self._seen = self._quiet = 0
        self._compiled = _frames_compiled()  # what this process compiled before does not count
        self._capture: Capture | None = None
        self._finished = False
        self._home = os.getpid()
        atexit.register(self.finish)  # a training that raises tells nobody

    def step(self) -> None:
        """A step has ended."""
        if self.is_over or os.getpid() != self._home:
            return
        if self._capture is None:
            self._wait()
            return
        self._guarded(self._capture.step)
        if self._capture.is_timed:
            self._close()

    def finish(self) -> None:
        """The training has ended: write what there is, and say where it is."""
        if self._finished or os.getpid() != self._home:
            return
        self._finished = True
        atexit.unregister(self.finish)
        waited = self._capture is None and not self.is_over and self._seen
        self._close()
        if self._capture is not None and self._capture.trace is not None:
            self._tell(self._capture.trace, self._capture.whole_steps)
        elif waited:
            need = QUIET + WARMUP + 1 + self.steps
            _say(f"nothing was recorded: {self._seen} steps ended, and {need} are needed")

    def _wait(self) -> None:
        """Begin once a few steps in a row compiled nothing."""
        self._seen += 1
        compiled = _frames_compiled()
        self._quiet = 0 if compiled != self._compiled else self._quiet + 1
        self._compiled = compiled
        if self._quiet >= QUIET or self._seen >= PATIENCE:
            self._guarded(self._begin)

    def _begin(self) -> None:
        options = {"region": "train_step", "warmup": WARMUP, "wait": 0, **self.rest}
        begun = capture(self.path, steps=self.steps, **options)
        begun.__enter__()
        self._capture = begun

    def _close(self) -> None:
        if not self.is_over and self._capture is not None:
            self._guarded(lambda: self._capture.__exit__(None, None, None))  # type: ignore[union-attr]
        self.is_over = True

    def _guarded(self, do: Callable[[], object]) -> None:
        """Whatever goes wrong here is a line on stderr: the training goes on."""
        try:
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always", UserWarning)
                do()
        except Exception as problem:  # noqa: BLE001 - none of ours may reach the training
            known = isinstance(problem, ForetraceError)
            _say(str(problem) if known else f"{type(problem).__name__}: {problem}")
            if not self.is_over and self._capture is not None:
                with suppress(Exception):  # its profiler must not run on
                    self._capture.__exit__(type(problem), problem, None)
            self.is_over = True
            return
        for note in notes:
            _say(str(note.message))

    def _tell(self, trace: os.PathLike[str], steps: int) -> None:
        def show() -> None:
            from foretrace import look

            print(look(os.fspath(trace)), flush=True)

        if os.environ.get("RANK", "0") == "0":
            _say(f"{plural(steps, 'step')} in {trace}; see again: foretrace look {trace}")
            if self.show:
                self._guarded(show)


def _frames_compiled() -> int:
    """How often Dynamo compiled so far; 0 while nobody has loaded it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["frames"]["total"]) if dynamo is not None else 0


def _say(text: str) -> None:
    print(f"foretrace: {text}", file=sys.stderr, flush=True)


_WATCHED: dict[str, StepRecording] = {}  # a loop over several epochs is one training


class Watched:
    """A loader whose batches are steps; everything else is the loader's own."""

    def __init__(self, loader: Iterable[Any], recording: StepRecording) -> None:
        self.loader, self.recording = loader, recording

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch
            self.recording.step()
            if self.recording.is_over:
                self.recording.finish()

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # a copy asks before it has one
            raise AttributeError(name)
        return getattr(self.loader, name)


def watch(loader: Iterable[Any], path: str | os.PathLike[str] = PATH, **options: Any) -> Watched:
    """`for batch in watch(loader):` records steps of the loop; options as in `StepRecording`.

    Loops with the same `path`, one for each epoch, count as one training.
    """
    key = os.path.abspath(path)
    if key not in _WATCHED:
        _WATCHED[key] = StepRecording(path, **options)
    return Watched(loader, _WATCHED[key])


def trainer_callback() -> type:
    """The callback for Transformers' Trainer: a step is an optimizer step."""
    base: Any = import_module("transformers").TrainerCallback

    class TrainerCallback(base):  # type: ignore[misc]
        """Records steps of a `transformers.Trainer`; options as in `StepRecording`."""

        def __init__(self, path: str | os.PathLike[str] = PATH, **options: Any) -> None:
            self.recording = StepRecording(path, **options)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.recording.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.recording.finish()

    return TrainerCallback


def lightning_callback() -> type:
    """The callback for Lightning's Trainer: a step ends when `global_step` has grown."""
    base: Any = import_module("lightning").Callback

    class LightningCallback(base):  # type: ignore[misc]
        """Records steps of a `lightning.Trainer`; options as in `StepRecording`."""

        def __init__(self, path: str | os.PathLike[str] = PATH, **options: Any) -> None:
            self.recording, self._last = StepRecording(path, **options), 0

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            if trainer.global_step != self._last:  # batches before it were accumulated
                self._last = trainer.global_step
                self.recording.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.recording.finish()

        def on_exception(self, *_: Any, **__: Any) -> None:
            self.recording.finish()

    return LightningCallback


def accelerate_tracker() -> type:
    """The tracker for Accelerate: a step is a call of `accelerator.log`."""
    base: Any = import_module("accelerate.tracking").GeneralTracker

    class AccelerateTracker(base):  # type: ignore[misc]
        """Records steps between calls of `accelerator.log`, until `accelerator.end_training()`."""

        name = "foretrace"
        requires_logging_directory = False
        main_process_only = False

        def __init__(self, path: str | os.PathLike[str] = PATH, **options: Any) -> None:
            super().__init__()
            self.recording = StepRecording(path, **options)

        @property
        def tracker(self) -> StepRecording:
            return self.recording

        def store_init_configuration(self, values: Any) -> None:
            """Settings are no part of a trace."""

        def log(self, values: Any, step: int | None = None, **_: Any) -> None:
            self.recording.step()

        def finish(self) -> None:
            self.recording.finish()

    return AccelerateTracker


MAKERS: dict[str, Callable[[], type]] = {
    "TrainerCallback": trainer_callback,
    "LightningCallback": lightning_callback,
    "AccelerateTracker": accelerate_tracker,
}
