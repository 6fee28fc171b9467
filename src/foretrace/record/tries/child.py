"""Runs the script in a process of its own, follows a plan from step to step, and reports.

The plan: some steps with the fixes on, whose losses are kept; then blocks of steps with the fixes
off and on in turns, timed from wall to wall; then, where asked, a recording. The script ends after
that. Off and on take turns in one process, because two processes of one program differ by up to 40%
in host time.

In place of a script stands a user's own code: `module:callable` or `path/to/file.py:callable`. The
callable takes no arguments, or numbers. It returns what to compile and its inputs: a tuple, a dict
of keywords, or one value. A result that is itself callable is called without inputs. With any other
result the callable is the subject, called with no arguments or with the numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import random
import sys
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from types import ModuleType
from typing import Any

import msgspec
import torch

from foretrace.base.errors import UsageError, first_line, nearest
from foretrace.record.profiling.script import WindowDone, run_script
from foretrace.record.profiling.script_hooks import EndingSignals, StepFinder, leave_fork
from foretrace.record.profiling.window import Capture
from foretrace.record.tries import session as sessions
from foretrace.record.tries.applied import applied
from foretrace.record.tries.judging import is_narrow
from foretrace.record.tries.rounds import RUNS, Block, End, Facts, Kept, Said, TrySpec
from foretrace.record.tries.session import Session

Steps = Generator[None, None, None]
# A block lasts this long at least: shorter ones measure the clock and the scheduler.
BLOCK_NS = {"cuda": 120_000_000, "cpu": 250_000_000}
MOST_STEPS = 200  # of a block
SETTLING = 2  # steps after a switch that count for neither side
MORE_PAIRS = 3  # so many times the pairs while the interval is wide
ENOUGH_PAIRS, NO_GAIN, LEAST_GAIN = 5, 1.005, 1.03  # after so many pairs below both: no gain


class StepPlan:
    """What happens in which step; `mark` is called when a step begins."""

    def __init__(self, spec: TrySpec, session: Session, say: Callable[[Said], None]) -> None:
        self.spec, self.session, self.say = spec, session, say
        known = applied(*spec.further)
        watched = list(known) if spec.watch else [*spec.on, *spec.turned]
        self.switches = {name: known[name](session) for name in watched}
        self._keep_on()
        self.steps = 0
        self.over = False
        self._plan = self._steps()

    def mark(self) -> None:
        """A step begins."""
        if self.over:  # the script caught what was raised to end it
            os._exit(0)
        self.steps += 1
        try:
            next(self._plan)
        except StopIteration:
            self.over = True
            self.say(End(self.steps, finished=True))
            raise WindowDone from None

    def _steps(self) -> Steps:
        self._keep_on()  # now that the model is known
        self._turn(True)
        yield from self._same()
        if self.spec.watch:
            self._report_facts()
        if self.spec.pairs:
            yield from self._pairs()
        if self.spec.trace:
            yield from self._recorded(Path(self.spec.trace))

    def _keep_on(self) -> None:
        for name in self.spec.on:
            self.switches[name].turn(True)

    def _turn(self, on: bool) -> None:
        # the last one on is the first one off: it may have wrapped what those before it made
        for name in self.spec.turned if on else reversed(self.spec.turned):
            self.switches[name].turn(on)

    def _same(self) -> Steps:
        """The losses and outputs of the first steps, with the fixes on."""
        self.session.losses, self.session.outputs = [], []
        start = perf_counter_ns()
        for _ in range(self.spec.same_steps):
            self.session.losses.append([])
            yield
        self._wait()
        took = perf_counter_ns() - start
        losses = [sum(map(float, each)) / len(each) for each in self.session.losses if each]
        outputs = [[v for each in kept for v in each.tolist()] for kept in self.session.outputs]
        self.session.losses = self.session.outputs = self.session.seed = None
        self.say(Kept(losses, outputs, took))

    def _pairs(self) -> Steps:
        """Blocks with the fixes off and on in turns; which comes first alternates."""
        self._turn(False)
        yield from _passed(SETTLING)
        length = self.spec.block
        if not length:  # from how long two steps take
            two = yield from self._time(2)
            wanted = math.ceil(BLOCK_NS[self.session.device] / two)
            length = min(max(wanted, 1), MOST_STEPS)
        self._turn(True)
        yield from _passed(SETTLING)
        pairs: list[tuple[float, float]] = []
        most = self.spec.pairs * (MORE_PAIRS if self.spec.turned else 1)
        for pair in range(most):
            both: dict[bool, float] = {}
            for on in (False, True) if pair % 2 == 0 else (True, False):
                self._turn(on)
                yield from _passed(SETTLING)
                both[on] = yield from self._timed(length, pair, on)
            pairs.append((both[False], both[True]))
            enough = pair + 1 >= self.spec.pairs and is_narrow(pairs)
            ratios = sorted(off / on for off, on in pairs)
            hopeless = ratios[len(ratios) // 2] < NO_GAIN and ratios[-1] < LEAST_GAIN
            if self.spec.turned and (enough or (len(ratios) >= ENOUGH_PAIRS and hopeless)):
                return

    def _timed(self, length: int, pair: int, on: bool) -> Generator[None, None, float]:
        gpu = self.session.device == "cuda"
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        ns = yield from self._time(length)
        peak = torch.cuda.max_memory_allocated() if gpu else 0
        self.say(Block(pair, on, ns, length, peak))
        return ns

    def _time(self, length: int) -> Generator[None, None, float]:
        self._wait()
        start = perf_counter_ns()
        yield from _passed(length)
        self._wait()
        return (perf_counter_ns() - start) / length

    def _wait(self) -> None:
        if self.session.device == "cuda":
            sessions.synchronize()

    def _recorded(self, trace: Path) -> Steps:
        """A recording of three steps, for the replay."""
        capture = Capture(trace, steps=3, warmup=2, wait=1, shapes=True, overwrite=True)
        capture.start()
        while capture.trace is None:
            yield
            capture.step()
        capture.stop()

    def _report_facts(self) -> None:
        session = self.session
        name = torch.cuda.get_device_name() if session.device == "cuda" else "CPU"
        why_not = {}
        for key, each in applied(*self.spec.further).items():
            other = "" if session.device in each.devices else f"needs {each.devices[0]}"
            why_not[key] = other or _why_not(self.switches[key])
        stepping = "optimizer.step" if session.optimizers else "a call of the model"
        found_by = "a call of the function" if self.spec.function else stepping
        edits = {key: self.switches[key].edits() for key, no in why_not.items() if not no}
        self.say(Facts(session.device, name, found_by, why_not, edits, str(torch.__version__)))


def _why_not(switch: sessions.Switch) -> str:
    """Why a fix does not apply; one that cannot even say so ends nothing."""
    try:
        return switch.why_not()
    except Exception as problem:  # noqa: BLE001 - it asks packages that may not fit each other
        return first_line(problem)


def _passed(count: int) -> Steps:
    for _ in range(count):
        yield


def run(spec: TrySpec, say: Callable[[Said], None]) -> int:
    """Run the script under its plan; returns its exit code."""
    session = Session(spec.script, spec.seed)
    plan = StepPlan(spec, session, say)
    problems: list[str] = []
    home = os.getpid()
    torch.manual_seed(0)
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    with session.watching(), EndingSignals():
        if spec.function:
            try:
                numbers = map(int, spec.arguments)

                def seen(work: Any) -> Any:  # through the session: a fix may compile it
                    session.call = work
                    return lambda *given, **options: session.call(*given, **options)

                call = call_of(find(spec.script), seen, *numbers)
                # a function may call a module, which fixes want to know; its calls are no steps
                with StepFinder(lambda: None, "forward", session.begin_with):
                    call()
                    while not plan.over:
                        with contextlib.suppress(WindowDone):
                            plan.mark()
                            session.keep_output(call())
                code = 0
            except UsageError as problem:  # there is no such function
                code, problems = problem.exit_code, [str(problem)]
        else:
            with StepFinder(plan.mark, spec.find, session.begin_with):
                arguments = list(spec.arguments)
                code = run_script(spec.script, arguments, spec.module, problems.append, spec.source)
    if os.getpid() != home:
        leave_fork(code)
    if not plan.over:
        say(End(plan.steps, False, code, problems[0] if problems else ""))
    return code


def perform(path: str) -> int:
    """Run the plan in the file `path`; what is said goes into the report, a line each."""
    spec = msgspec.json.decode(Path(path).read_bytes(), type=TrySpec)
    encoder = msgspec.json.Encoder()
    with open(spec.report, "ab", buffering=0) as report:

        def say(said: Said) -> None:
            report.write(encoder.encode(said) + b"\n")

        return run(spec, say)


def main() -> None:
    """Fork a process for each request on stdin, and say how one ended, or that it runs."""
    for line in sys.stdin:
        words = msgspec.json.decode(line)
        if "ended" in words:
            ended, status = os.waitpid(words["ended"], os.WNOHANG)
            print(os.waitstatus_to_exitcode(status) if ended else RUNS, flush=True)
            continue
        child = os.fork()
        if not child:
            os.setsid()
            os.environ |= words["environment"]
            output = os.open(words["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
                os.dup2(source, number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 - to the end
            sys.exit(perform(words["spec"]))
        print(child, flush=True)
        # while the first one runs: an optimizer loads Dynamo, which takes seconds in each process
        torch.optim.SGD([torch.zeros(1)])


FORMS = "write module:callable or path/to/file.py:callable"


def find(target: str) -> Callable[..., Any]:
    """The callable that `target` names; the current folder comes first on the path."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise UsageError(f"{target!r} names no callable: {FORMS}")
    if not place.endswith(".py") and (place.startswith(".") or "/" in place):
        raise UsageError(f"{place} is neither a module nor a .py file: {FORMS}")
    module = _file(place) if place.endswith(".py") else _module(place)
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None:
        raise UsageError(f"{place} has no {name!r}: {nearest(name, vars(module), FORMS)}")
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__} and cannot be called")
    return found


def call_of(
    function: Callable[..., Any], compiler: Callable[[Any], Any], *numbers: int, **named: int
) -> Callable[[], object]:
    """One call of the user's code, compiled by `compiler`."""
    made = function(*numbers, **named)
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        work, inputs = made
        if isinstance(inputs, dict):
            return partial(compiler(work), **inputs)
        return partial(compiler(work), *(inputs if isinstance(inputs, tuple | list) else (inputs,)))
    if callable(made):
        return partial(compiler(made))
    return partial(compiler(function), *numbers, **named)


def _file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise UsageError(f"no such file: {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # as an import does: dataclasses and Dynamo look their module up there
    sys.modules[name] = module
    _add_to_path(os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _add_to_path(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{name}.".startswith(f"{problem.name}."):
            raise  # something that their module imports
        message = f"no module {name!r} in this folder or among the installed packages"
        raise UsageError(message) from problem


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


if __name__ == "__main__":
    main()
