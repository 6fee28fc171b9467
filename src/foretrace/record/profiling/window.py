"""`Capture` and `capture_call`: record steps of a block, or calls of one function.

A `Capture` is a torch profiler with a schedule, a warm-up, a region per step and a run record.
`GraphCaptures` writes `run.captures/` beside a trace: one trace for each CUDA graph that the block
made. A replayed kernel has no op, but the calls recorded during the capture of its graph have one.
So each `torch.cuda.graph` block gets its own profiler where none runs. torch.compile with
`mode="reduce-overhead"` captures its graphs in such blocks as well.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Self

import torch
from torch.profiler import ProfilerAction, ProfilerActivity, record_function

from foretrace.base.errors import UsageError
from foretrace.record.profiling.allocator_history import AllocatorHistory, ran_out
from foretrace.record.profiling.compiler_records import Bundle, CompilerRecords
from foretrace.record.profiling.export import (
    captures_path,
    export,
    is_captures,
    replacing_folder,
    trace_path,
)
from foretrace.record.profiling.patches import replaced
from foretrace.record.profiling.run_record import (
    TORCH_NAMES,
    CallTimes,
    RunRecord,
    StepTimes,
    keep_times,
    on_cuda,
    on_xpu,
    synchronize,
)

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
        for name, watched in (("__enter__", self._before), ("__exit__", self._after)):
            self._patches.enter_context(replaced(torch.cuda.graph, name, watched))
        self._patches.callback(lambda: self.notes.extend([] if self.seen else [NOTHING]))

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
        try:
            with self._driving(), replacing_folder(captures_path(trace), is_captures) as draft:
                for number, profiler in enumerate(self._stopped):
                    export(profiler, draft / NAME.format(number))
        except FileExistsError as problem:
            self.notes.append(f"{problem}: no captures")
        else:
            self._stopped = []

    def finish(self) -> None:
        """Put torch back as it was."""
        self._patches.close()

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


KINETO_SILENT = "6"  # above its highest level, at which torch 2.13 logs every start and stop


class Capture(torch.profiler.profile):  # type: ignore[misc]
    """Record `steps` steps of the loop inside the `with` block to `path` (`.json.gz` by default).

    A `torch.profiler.profile` that writes one trace and one run record. `warmup` steps run first
    without the profiler and give the times of the record, then `wait` more, then one while the
    profiler warms up. Call `step()` at the end of each. `steps=None` records the whole block.
    Where the loop goes on, the steps after the recorded ones give better times, with a spread.

    `region` puts a `record_function` range around each step. `shapes` lets the reader compute flops
    and bytes and slows the host a little: turn it off to read host times. `stacks`, `memory` and
    `modules` record Python stacks, allocations and the module of each op. On a GPU `memory` also
    keeps a snapshot of torch's allocator, for `foretrace memory`. `why` keeps what
    torch.compile writes down in the block, for `foretrace why`. `graphs` records each CUDA graph
    while it is captured in the block, so that replayed kernels have ops. `facts` are added to the
    run record.

    After the block `trace` and `record_file` are the paths written, and `bundle` tells of the
    compiler's records. An exception inside the block
    keeps what was recorded so far and propagates. A block that ends before the last step warns, and
    the record has a note; one that ends before the first whole step raises an error. In a process
    that the block forks, `step()` and the end of the block do nothing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        steps: int | None = 3,
        warmup: int = 3,
        wait: int = 1,
        region: str | None = None,
        shapes: bool = True,
        stacks: bool = False,
        memory: bool = False,
        modules: bool = False,
        why: bool = False,
        graphs: bool = False,
        overwrite: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.target, self.overwrite, self.region = trace_path(path), overwrite, region
        self.steps, self.plain_steps = steps, warmup + wait
        self.trace: Path | None = None
        self.record_file: Path | None = None
        self.compiler = CompilerRecords(self.target.parent, wanted=why)
        self.allocator = AllocatorHistory(wanted=memory)
        self.graphs = GraphCaptures(
            lambda: torch.profiler.profile(activities=activities(), **torch_options(options)),
            self.is_idle,
            wanted=graphs,
        )
        options = {"shapes": shapes, "stacks": stacks, "memory": memory, "modules": modules}
        profile = {"steps": steps, "wait": wait, "warmup": warmup, **options}
        self.record = RunRecord(profile, facts=dict(facts or {}))
        self._range = contextlib.ExitStack()
        self._home = os.getpid()
        self._empty = False  # the block is over, and no step of it is whole
        self._began = self._recording_since = 0
        self._times: StepTimes | None = None  # of the steps after the recorded ones
        # The clock is read at these step counts; the other steps pay for torch's profiler alone.
        self._borders: frozenset[int] = frozenset()
        how: dict[str, Any] = {"activities": activities(), **torch_options(options)}
        if steps is not None:
            plain = self.plain_steps
            self._borders = frozenset((1, plain, plain + 1, plain + 1 + steps))
            waits = {"skip_first": warmup, "wait": wait, "warmup": 1, "repeat": 1}
            how["schedule"] = torch.profiler.schedule(active=steps, **waits)
        super().__init__(on_trace_ready=lambda _: self._save(), **how)

    def prepare_trace(self) -> None:
        """As torch's, without its warnings."""
        with quiet_profiler():
            super().prepare_trace()

    def start(self) -> None:
        """As torch's; refuses where another profiler runs."""
        refuse_second_profiler()
        super().start()
        self.compiler.start()
        self.graphs.start()
        self.allocator.start()
        self._began = perf_counter_ns()
        self._enter_region()

    def step(self) -> None:
        """The end of a step; also reads the clock for the times of the run record."""
        if self._forked:
            return
        self._range.close()
        if self._times is not None:  # one of the steps after the recorded ones
            if not self._times.is_over and self._times.step():
                self._keep_times()
            self._enter_region()
            return
        done = self.step_num + 1
        if done in self._borders:
            self._clock(done)
        super().step()
        if done == self.plain_steps + 1:
            self._recording_since = perf_counter_ns()
        if self.trace is not None and self.steps is not None:
            self._times = StepTimes(self.record.timing)
        self._enter_region()

    def _keep_times(self) -> None:
        if self._times is not None and self._times.keep() and self.trace is not None:
            self.record.write(self.trace)

    def stop(self) -> None:
        """As torch's; ends the region of the step."""
        if self._forked:
            return
        self._range.close()
        if self._times is not None and not self._times.is_over:
            self._keep_times()
        try:
            super().stop()
        finally:
            self.compiler.finish()
            self.graphs.finish()
            if self.trace is not None and ran_out(self.record.error):
                self.allocator.keep_failure(self.trace)
            self.allocator.finish()

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._forked:
            return
        if problem is not None:
            self.record.error = f"{type(problem).__name__}: {problem}"
            self.allocator.ended(self.record.error)
        if self.steps is not None and self.whole_steps < self.steps:
            self.record.note = (
                f"{self.whole_steps} of {self.steps} steps were recorded: the block ended early; "
                f"warmup+wait+1+steps = {self.plain_steps + 1 + self.steps} steps are needed"
            )
            self._empty = problem is None and self.whole_steps == 0
        try:
            super().__exit__(kind, problem, where)
        except Exception:
            if problem is None:  # else an interrupt in torch's start left no way to stop
                raise
        if problem is not None:
            return
        if self.trace is None:
            raise UsageError(self._nothing_recorded())
        notes = [*self.compiler.notes, *self.graphs.notes, *self.allocator.notes]
        for note in filter(None, [self.record.note, *notes]):
            warnings.warn(note, stacklevel=2)

    @property
    def _forked(self) -> bool:
        """Whether this is a child of the recording process: torch's threads are not in it, and
        waiting for them would never end.
        """
        return os.getpid() != self._home

    def is_idle(self) -> bool:
        """Whether no profiler runs, this one included: it may wait for its steps."""
        idle = self.current_action is ProfilerAction.NONE
        return idle and not torch.autograd.profiler._is_profiler_enabled

    @property
    def is_timed(self) -> bool:
        """Whether enough of the steps after the recorded ones were timed."""
        return self._times is not None and self._times.is_over

    @property
    def bundle(self) -> Bundle | None:
        """The compiler's records beside the trace, where `why` kept some."""
        return None if self.trace is None else self.compiler.bundles.get(self.trace)

    @property
    def whole_steps(self) -> int:
        """How many of the recorded steps have ended with `step()`."""
        return max(0, int(self.step_num) - self.plain_steps - 1)

    def _save(self) -> None:
        if not self._empty:
            self.trace = export(self, self.target, overwrite=self.overwrite)
            self.record_file = self.record.write(self.trace)
            self.compiler.keep(self.trace)
            self.graphs.keep(self.trace)
            self.allocator.keep(self.trace)

    def _enter_region(self) -> None:
        if self.region is not None:
            self._range.enter_context(record_function(self.region))

    def _clock(self, done: int) -> None:
        """Times at the end of the first step, the last one without the profiler, the last one."""
        timing, now = self.record.timing, perf_counter_ns()
        if done == 1 and self.plain_steps > 1:
            synchronize()
            timing.first_call_ns = perf_counter_ns() - self._began
            self._began = perf_counter_ns()
        elif done == self.plain_steps and done > 1:
            synchronize()
            timing.calls_timed = done - 1
            timing.host_ns_per_call = (now - self._began) // (done - 1)
            timing.wall_ns_per_call = (perf_counter_ns() - self._began) // (done - 1)
        elif done == self.plain_steps + 1:
            # the recorded steps start on an idle device; this wait is before the recording
            synchronize()
        elif self.steps is not None and done == self.plain_steps + 1 + self.steps:
            timing.profiled_host_ns_per_call = (now - self._recording_since) // self.steps

    def _nothing_recorded(self) -> str:
        nothing = f"nothing was recorded for {self.target}"
        if self.steps is None:
            return nothing
        first, need = self.plain_steps + 2, self.plain_steps + 1 + self.steps
        return (
            f"{nothing}: step() was called {self.step_num} times, and recording starts with step "
            f"{first} of {need}; call step() after each iteration, lower warmup=, or pass "
            "steps=None to record the whole block"
        )


def torch_options(options: Mapping[str, bool]) -> dict[str, bool]:
    """Our options of a profiler as torch names them."""
    return {theirs: options[ours] for ours, theirs in TORCH_NAMES.items()}


@contextlib.contextmanager
def quiet_profiler() -> Iterator[None]:
    """Without torch's warning that a second cycle clears the first: every recording has one."""
    # Kineto reads its level with the first profiler; on a CPU it logs two lines per recording.
    name = "KINETO_LOG_LEVEL"
    silence = name not in os.environ and activities() == [ProfilerActivity.CPU]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
        if silence:
            os.environ[name] = KINETO_SILENT
        try:
            yield
        finally:
            if silence:
                os.environ.pop(name, None)


def activities() -> list[ProfilerActivity]:
    """The host, and every accelerator that this torch can see."""
    there = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        there.append(ProfilerActivity.CUDA)
    if on_xpu():
        there.append(ProfilerActivity.XPU)
    return there


def refuse_second_profiler() -> None:
    """torch keeps one profiler per process, and a second one corrupts the first."""
    if torch.autograd.profiler._is_profiler_enabled:
        raise UsageError(
            "a torch profiler is already running in this process: stop it first, or give it "
            "on_trace_ready=foretrace.handler('traces/') and let it write the trace"
        )


# The times are medians of at most SAMPLES batches within BUDGET_NS: enough to see the spread of a
# fast call, and three calls for one that takes seconds.
SAMPLES = 5
BUDGET_NS = 1_000_000_000


def capture_call(
    call: Callable[[], object],
    path: str | os.PathLike[str],
    *,
    region: str,
    steps: int = 3,
    warmup: int = 3,
    facts: Mapping[str, Any] | None = None,
    **options: Any,
) -> Capture:
    """Run `call` as one step, repeatedly, and write its trace and record; options of `Capture`.

    The first call is timed alone (it includes compilation and lazy loading), then `warmup - 1` more
    warm up, then the wall time is measured without the profiler. The profiler starts after that:
    wait 1, warmup 1, `steps` recorded.
    """
    refuse_second_profiler()
    if on_cuda():
        torch.cuda.reset_peak_memory_stats()
    window = Capture(path, steps=steps, warmup=0, region=region, facts=facts, **options)
    window.record.profile = {**window.record.profile, "warmup": warmup}
    with contextlib.ExitStack() as kept:
        for part in (window.compiler, window.graphs):
            kept.callback(part.finish)
            part.start()
        warm = [batch(call, 1)[0] for _ in range(warmup)]
        window.record.timing = CallTimes(first_call_ns=warm[0] if warm else None)
        one = batch(call, 1)[0]
        count = max(1, min(20, BUDGET_NS // SAMPLES // max(one, 1)))
        samples = SAMPLES if one * SAMPLES < 4 * BUDGET_NS else 2
        batches = [batch(call, count) for _ in range(samples)]
        keep_times(window.record.timing, batches, count * samples)
        with window:
            for _ in range(window.plain_steps + 1 + steps):
                call()
                window.step()
    return window


def batch(call: Callable[[], object], count: int) -> tuple[int, int]:
    """Wall and host nanoseconds per call over `count` calls; wall ends with the device idle."""
    synchronize()
    began = perf_counter_ns()
    for _ in range(count):
        call()
    issued = perf_counter_ns()
    synchronize()
    return (perf_counter_ns() - began) // count, (issued - began) // count
