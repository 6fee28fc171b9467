"""`Block`: what a `with` block of a test ran, recorded with torch, or a trace from a file."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter

    from foretrace.guess.expecting import Expect
    from foretrace.model.trace import Trace
    from foretrace.pytest_plugin.judging import KernelTraces
    from foretrace.schema.verdict import Verdict


class Block:
    """Recorded when its `with` ends; then `trace`, `kernels`, `expect`, `check` and
    `check_snapshot` can be used.

    `for _ in t:` runs the body `warmup + steps` times and records the last `steps`; calling
    `t.step()` after each round of your own loop does the same; a body that does neither is recorded
    whole, as one step.
    """

    def __init__(
        self,
        owner: KernelTraces,
        path: Path,
        *,
        warmup: int = 0,
        steps: int = 1,
        shapes: bool = True,
    ) -> None:
        if warmup < 0 or steps < 1:
            raise UsageError(f"kernel_trace(warmup={warmup}, steps={steps}): at least 0 and 1")
        self.owner, self.path, self.warmup, self.steps, self.shapes = (
            owner,
            path,
            warmup,
            steps,
            shapes,
        )
        self.rounds = 0
        self.torch_version = ""  # of the torch that recorded it; a file does not say
        self._profiler: Any = None
        self._range: Any = None
        self._trace: Trace | None = None

    def __enter__(self) -> Block:
        if not self.path.exists():
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: Any
    ) -> None:
        self._end(keep=True)
        if problem is None and not self.path.exists():
            raise UsageError(
                f"nothing was recorded: {self.rounds} rounds ran, and warmup={self.warmup} with "
                f"steps={self.steps} needs {self.warmup + self.steps}"
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
        last = self.warmup + self.steps
        if self.rounds <= self.warmup:
            # a warm-up round, recorded only because the block might have had no rounds at all
            self._end(keep=False)
        if self.rounds == self.warmup:
            self._begin()
        elif self.rounds == last:
            self._end(keep=True)
        elif self.warmup < self.rounds < last:
            self._mark(self.rounds)

    def _begin(self) -> None:
        torch = pytest.importorskip(
            "torch", reason="kernel_trace records with torch: pip install torch"
        )
        from foretrace.profiling.window import Capture, synchronize

        synchronize()  # nothing launched before belongs to the block
        self.torch_version = ".".join(torch.__version__.split(".")[:2])
        self._profiler = Capture(self.path, steps=None, shapes=self.shapes, overwrite=True)
        self._profiler.start()
        self._mark(self.rounds)

    def _mark(self, number: int | None) -> None:
        """End the step that is open, and begin the next unless it was the last."""
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
            warnings.warn(
                pytest.PytestWarning(
                    f"kernel_trace(warmup={self.warmup}): the block ran once, without warm-up; "
                    "write `for _ in t:` in it, "
                    "or call t.step() after each round"
                ),
                stacklevel=3,
            )

    @property
    def trace(self) -> Trace:
        """The recording, opened."""
        if self._trace is None:
            if self._profiler is not None:
                raise UsageError("the block is still recording: use its trace after the `with`")
            import foretrace

            self._trace = foretrace.open(self.path, cache=False)
        return self._trace

    @property
    def kernels(self) -> Counter[str]:
        """The kernels of one step by name, as a snapshot holds them."""
        from foretrace.guess.snapshot import kernels

        return kernels(self.trace)

    @property
    def expect(self) -> Expect:
        """Predictions in Python: `assert t.expect.each_step.kernels == 5`."""
        from foretrace.guess import expect

        return expect(self.trace)

    def check(self, *guesses: str, against: Block | None = None, reason: str = "") -> list[Verdict]:
        """Mark predictions; one that missed fails the test."""
        from foretrace.guess import check, parse

        __tracebackhide__ = True
        read = [parse(text, reason) for text in guesses]
        return self.owner.judge(check(self.trace, read, against.trace if against else None))

    def check_snapshot(self, name: str = "") -> None:
        """Compare the kernels with the snapshot of this test, GPU architecture and torch minor
        version.
        """
        __tracebackhide__ = True
        self.owner.compare(self, name)


class CpuKernels:
    """Has Inductor name its C++ kernels in CPU traces, as long as a test lasts. It must be on
    before something compiles.

    Inductor is never imported for this (it takes seconds): where it is not loaded yet, it will read
    the environment.
    """

    VARIABLE = "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE"

    def __init__(self) -> None:
        self._value = os.environ.get(self.VARIABLE)
        settings = _inductor()
        self._before = self._value == "1" if settings is None else settings.enable_kernel_profile

    def show(self) -> None:
        os.environ[self.VARIABLE] = "1"
        self._set(True)

    def restore(self) -> None:
        del os.environ[self.VARIABLE]
        if self._value is not None:
            os.environ[self.VARIABLE] = self._value
        self._set(self._before)

    def _set(self, value: bool) -> None:
        settings = _inductor()
        if settings is not None:
            settings.enable_kernel_profile = value


def _inductor() -> Any:
    config = sys.modules.get("torch._inductor.config")
    return None if config is None else config.cpp
