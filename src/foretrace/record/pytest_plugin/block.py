"""`RecordedBlock`: a `with` block of a test, recorded with torch, or a trace from a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from foretrace.base.errors import UsageError
from foretrace.base.units import plural

if TYPE_CHECKING:
    from collections import Counter

    from foretrace.analyze.guess.expecting import Expect
    from foretrace.model.trace import Trace
    from foretrace.record.profiling.compiler_records import CompilerRecords
    from foretrace.schema.finding import Verdict

_NO_TORCH = "kernel_trace records with torch: pip install torch"


class Judge(Protocol):
    """What a block needs of the fixture: to fail the test on a miss or on a changed snapshot."""

    def judge(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Remember the verdicts; fail on a miss."""

    def compare(self, block: RecordedBlock, name: str) -> None:
        """Compare the kernels of a block with its snapshot."""


class RecordedBlock:
    """Recorded when its `with` ends; then `trace`, `kernels`, `expect`, `check` and
    `check_snapshot` can be used.

    `for _ in t:` runs the body `warmup + steps` times and records the last `steps`; calling
    `t.step()` after each round of your own loop does the same. A body that does neither is recorded
    whole, as one step.

    With `why=True` the compiler's records of the whole block, warm-up included, are kept beside the
    trace: they decide `graph breaks == 0`, `recompiles == 0`, `graphs == 1`, `kernels from
    model.py:41 == 1`. A mark `guess` with such a prediction turns this on. What was compiled before
    the block is not compiled again: make the compiled function inside, or call
    `torch._dynamo.reset()` first.
    """

    def __init__(
        self,
        owner: Judge,
        path: Path,
        *,
        warmup: int = 0,
        steps: int = 1,
        shapes: bool = True,
        why: bool = False,
    ) -> None:
        if warmup < 0 or steps < 1:
            raise UsageError(
                f"kernel_trace(warmup={warmup}, steps={steps}): warmup must be at least 0, "
                "steps at least 1"
            )
        self.owner, self.path, self.shapes, self.why = owner, path, shapes, why
        self.warmup, self.steps = warmup, steps
        self.rounds = 0
        self.torch_version = ""  # of the torch that recorded it; a file does not say
        self._profiler: Any = None
        self._records: CompilerRecords | None = None
        self._range: Any = None
        self._trace: Trace | None = None

    def __enter__(self) -> RecordedBlock:
        if not self.path.exists():
            self._keep_records()
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: object
    ) -> None:
        self._end(keep=True)
        self._finish_records(said=problem is None)
        if problem is None and not self.path.exists():
            raise UsageError(
                f"nothing was recorded: {plural(self.rounds, 'round')} ran; "
                f"warmup={self.warmup} and steps={self.steps} need {self.warmup + self.steps}"
            )

    def __iter__(self) -> Iterator[int]:
        self._end(keep=False)
        if self.warmup == 0:
            self._begin()
        for number in range(self.warmup + self.steps):
            yield number
            self.step()

    def step(self) -> None:
        """The end of one round."""
        self.rounds += 1
        recorded = self.rounds - self.warmup
        if recorded <= 0:
            # a warm-up round, recorded only because the block could have had no rounds at all
            self._end(keep=False)
        if recorded == 0:
            self._begin()
        elif recorded == self.steps:
            self._end(keep=True)
        elif 0 < recorded < self.steps:
            self._mark(self.rounds)

    def _keep_records(self) -> None:
        """Keep the compiler's records from here on, before the first round compiles."""
        if self.why:
            pytest.importorskip("torch", reason=_NO_TORCH)
            from foretrace.record.profiling.compiler_records import CompilerRecords

            self._records = CompilerRecords(self.path.parent, wanted=True)
            self._records.start()

    def _finish_records(self, *, said: bool) -> None:
        records, self._records = self._records, None
        if records is not None:
            if self.path.exists():
                records.keep(self.path)
            records.finish()
            for note in records.notes if said else []:
                warnings.warn(pytest.PytestWarning(f"kernel_trace(why=True): {note}"), stacklevel=3)

    def _begin(self) -> None:
        torch = pytest.importorskip("torch", reason=_NO_TORCH)
        from foretrace.record.profiling.step_times import synchronize
        from foretrace.record.profiling.window import Capture

        synchronize()  # nothing launched before belongs to the block
        self.torch_version = ".".join(torch.__version__.split(".")[:2])
        self._profiler = Capture(self.path, steps=None, shapes=self.shapes, overwrite=True)
        self._profiler.start()
        self._mark(self.rounds)

    def _mark(self, number: int | None) -> None:
        """End the open step, and begin the next unless it was the last."""
        from torch.profiler import record_function

        if self._range is not None:
            self._range.__exit__(None, None, None)
        self._range = None if number is None else record_function(f"ProfilerStep#{number}")
        if self._range is not None:
            self._range.__enter__()

    def _end(self, *, keep: bool) -> None:
        if self._profiler is None:
            return
        self._mark(None)
        profiler, self._profiler = self._profiler, None
        if not keep:
            profiler.on_trace_ready = None  # stop, and write nothing
        profiler.stop()
        if keep and self.warmup and self.rounds == 0:
            said = (
                f"kernel_trace(warmup={self.warmup}): the block ran once, without warm-up; write "
                "`for _ in t:` in it, or call t.step() after each round"
            )
            warnings.warn(pytest.PytestWarning(said), stacklevel=3)

    @property
    def trace(self) -> Trace:
        """The recording, opened."""
        if self._trace is None:
            if self._profiler is not None:
                raise UsageError("the block is still recording: use its trace after the `with`")
            from foretrace.model import opening

            self._trace = opening.open(self.path, cache=False)
        return self._trace

    @property
    def kernels(self) -> Counter[str]:
        """The kernels of one step by name, as in a snapshot."""
        from foretrace.analyze.guess.snapshots import kernels

        return kernels(self.trace)

    @property
    def expect(self) -> Expect:
        """Predictions in Python: `assert t.expect.each_step.kernels == 5`."""
        from foretrace.analyze.guess import expect

        return expect(self.trace)

    def check(
        self, *guesses: str, against: RecordedBlock | None = None, reason: str = ""
    ) -> list[Verdict]:
        """Mark predictions; a miss fails the test."""
        from foretrace.analyze.guess import check
        from foretrace.analyze.guess.marking import parse_or_error

        __tracebackhide__ = True
        parsed = [parse_or_error(text, reason) for text in guesses]
        return self.owner.judge(check(self.trace, parsed, against.trace if against else None))

    def check_snapshot(self, name: str = "") -> None:
        """Compare the kernels with the test's snapshot for this GPU architecture and torch."""
        __tracebackhide__ = True
        self.owner.compare(self, name)
