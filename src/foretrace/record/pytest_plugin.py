"""Checks predictions about kernels in a test suite: a fixture, marks and snapshots.

    def test_mlp(kernel_trace):
        with kernel_trace(warmup=2, steps=1) as t:
            for _ in t:                      # the warm-up rounds run without the profiler
                model(x)
        t.check("kernels == 5", "layout(gemm) == tn")
        t.check_snapshot()

    @pytest.mark.max_kernels(5)              # of every step that the test records
    @pytest.mark.no_sync
    @pytest.mark.predict("fused(gelu, mul)", reason="Inductor fuses them")
    @pytest.mark.predict("graph_breaks == 0", "recompiles == 0", "graphs == 1")

`kernel_trace("trace.json.gz")` opens a file instead. Nothing here imports torch or reads a trace
before the fixture is used. A prediction that the trace does not decide (no GPU here) is listed as
unknown, and fails the test where the variable CI is set; `--foretrace-unknown` says otherwise.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.base import files
from foretrace.base.errors import UsageError, in_ci
from foretrace.base.units import plural
from foretrace.record.profiling.patches import KERNEL_NAMES, applied

if TYPE_CHECKING:
    from collections import Counter

    from foretrace.check.expecting import Expect
    from foretrace.check.verdict import Verdict
    from foretrace.record.profiling.compiler_records import CompilerRecords
    from foretrace.record.snapshots import SnapshotFile
    from foretrace.trace.trace import Trace


_NO_TORCH = "kernel_trace records with torch: pip install torch"


class RecordedBlock:
    """Recorded when its `with` ends; then `trace`, `kernels`, `expect`, `check` and
    `check_snapshot` can be used.

    `for _ in t:` runs the body `warmup + steps` times and records the last `steps`; calling
    `t.step()` after each round of your own loop does the same. A body that does neither is recorded
    whole, as one step.

    With `why=True` the compiler's records of the whole block, warm-up included, are kept beside the
    trace: they decide `graph_breaks == 0`, `recompiles == 0`, `graphs == 1`,
    `kernels("model.py:41") == 1`. A mark `predict` with such a prediction turns this on. What was
    compiled before the block is not compiled again: make the compiled function inside, or call
    `torch._dynamo.reset()` first.

    With `memory=True` allocations are recorded, and on a GPU the allocator's snapshot is kept:
    they decide `peak < 2 GB`, `peak.held(activations) < 1 GB`, `growth(2, 9) <= 0 B`.
    """

    def __init__(
        self, owner: KernelTraces, path: Path, warmup: int, steps: int, *, why: bool, **how: Any
    ) -> None:
        if warmup < 0 or steps < 1:
            raise UsageError(
                f"kernel_trace(warmup={warmup}, steps={steps}): warmup must be at least 0, "
                "steps at least 1"
            )
        self.owner, self.path, self.warmup, self.steps = owner, path, warmup, steps
        self.why, self.how, self.rounds = why, how, 0
        self.torch_version = ""  # of the torch that recorded it; a file does not say
        self._profiler: Any = None
        self._records: CompilerRecords | None = None
        self._range: Any = None
        self._trace: Trace | None = None

    def __enter__(self) -> RecordedBlock:
        if not self.path.exists():
            if self.why:  # kept from here on, before the first round compiles
                pytest.importorskip("torch", reason=_NO_TORCH)
                from foretrace.record.profiling.compiler_records import CompilerRecords

                self._records = CompilerRecords(self.path.parent, wanted=True)
                self._records.start()
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: object
    ) -> None:
        self._end(keep=True)
        records, self._records = self._records, None
        if records is not None:
            if self.path.exists():
                records.keep(self.path)
            records.finish()
            for note in records.notes if problem is None else []:
                warnings.warn(pytest.PytestWarning(f"kernel_trace(why=True): {note}"), stacklevel=2)
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

    def _begin(self) -> None:
        torch = pytest.importorskip("torch", reason=_NO_TORCH)
        from foretrace.record.profiling.run_record import synchronize
        from foretrace.record.profiling.window import Capture

        synchronize()  # nothing launched before belongs to the block
        self.torch_version = ".".join(torch.__version__.split(".")[:2])
        self._profiler = Capture(self.path, steps=None, overwrite=True, **self.how)
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
            from foretrace.trace import opening

            self._trace = opening.open(self.path, cache=False)
        return self._trace

    @property
    def kernels(self) -> Counter[str]:
        """The kernels of one step by name, as in a snapshot."""
        from foretrace.record.snapshots import kernels

        return kernels(self.trace)

    @property
    def expect(self) -> Expect:
        """Predictions in Python: `assert t.expect.kernels == 5`."""
        from foretrace.check.expecting import expect

        return expect(self.trace)

    def check(
        self, *predictions: str, against: RecordedBlock | None = None, reason: str = ""
    ) -> list[Verdict]:
        """Mark predictions; a miss fails the test."""
        from foretrace.check import check

        __tracebackhide__ = True
        given = [(text, reason) for text in predictions]
        return self.owner.judge(check(self.trace, given, against.trace if against else None))

    def check_snapshot(self, name: str = "") -> None:
        """Compare the kernels with the test's snapshot for this GPU architecture and torch."""
        __tracebackhide__ = True
        self.owner.compare(self, name)


class KernelTraces:
    """`kernel_trace(...)` makes a block to record, `kernel_trace("trace.json.gz")` opens a file."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self.item, self.folder, self.config = item, folder, item.config
        self.blocks: list[RecordedBlock] = []
        self.verdicts: list[Verdict] = []
        self.snapshots: list[str] = []
        self.changes: list[str] = []

    def __call__(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        warmup: int = 0,
        steps: int = 1,
        shapes: bool = True,
        why: bool | None = None,
        memory: bool = False,
    ) -> RecordedBlock:
        """A block that records `steps` rounds after `warmup` others, with input `shapes`.

        `why` keeps the compiler's records, by default where a mark of the test needs them; `memory`
        records allocations.
        """
        path = self.folder / f"block{len(self.blocks)}.json.gz" if source is None else Path(source)
        keep = self._need_records() if why is None and source is None else bool(why)
        block = RecordedBlock(self, path, warmup, steps, shapes=shapes, why=keep, memory=memory)
        if source is not None:
            _ = block.trace  # a file that is not a trace fails here, by name
        self.blocks.append(block)
        return block

    def _need_records(self) -> bool:
        """Whether a mark has a prediction that the compiler's records decide."""
        texts = [text for mark in self.item.iter_markers("predict") for text in _texts(mark)]
        if not texts:
            return False
        from foretrace.check.marking import needs_records

        return any(map(needs_records, texts))

    def judge(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Remember the verdicts; fail on a miss, and on an unknown do what the settings say."""
        from foretrace.check.lines import verdicts_text

        __tracebackhide__ = True
        self.verdicts += verdicts
        policy = option(self.config, "unknown") or ("fail" if in_ci() else "report")
        failing = ("error", "miss", "unknown") if policy == "fail" else ("error", "miss")
        failed = [verdict for verdict in verdicts if verdict.verdict in failing]
        if failed:
            raise AssertionError(verdicts_text(failed))
        unknown = next((verdict for verdict in verdicts if verdict.verdict == "unknown"), None)
        if unknown is not None and policy == "skip":
            pytest.skip(f"unknown: {unknown.text}: {unknown.why}")
        return verdicts

    def judge_marks(self) -> None:
        """Judge `max_kernels`, `no_sync` and `predict` on every block of the test."""
        from foretrace.check import check

        __tracebackhide__ = True
        marks = list(self.item.iter_markers())
        given = [
            (text, str(mark.kwargs.get("reason", ""))) for mark in marks for text in _texts(mark)
        ]
        if given and not self.blocks:
            raise AssertionError(
                f"{given[0][0]}: the test recorded nothing; write `with kernel_trace() as t:`"
            )
        for block in self.blocks if given else []:
            self.judge(check(block.trace, given))

    def compare(self, block: RecordedBlock, name: str) -> None:
        """Compare a block with its snapshot, or write the snapshot when there is none."""
        from foretrace.check.language import Unknown
        from foretrace.record.snapshots import SnapshotFile

        __tracebackhide__ = True
        test = self.item.nodeid.split("::", 1)[-1] + (f".{name}" if name else "")
        folder = self.item.path.parent / option(self.config, "snapshots") / self.item.path.stem
        file = SnapshotFile(folder, test, block.trace, block.torch_version)
        try:
            kernels = block.kernels
        except Unknown as missing:
            raise AssertionError(f"no snapshot: {missing}") from None
        known = file.path.exists() or file.others() or in_ci()
        if option(self.config, "update") or not known:
            self.snapshots.append(f"written {file.write(kernels)}")
        elif file.path.exists():
            self._compare(file, kernels)
        elif file.others():
            self.snapshots.append("skipped")
            pytest.skip(
                f"no kernel snapshot for {file.key}; found {', '.join(file.others())} "
                "(--foretrace-update writes this one)"
            )
        else:
            self.snapshots.append("missing")
            raise AssertionError(
                f"no kernel snapshot {file.path}: run once with --foretrace-update, and commit it"
            )

    def _compare(self, file: SnapshotFile, kernels: Counter[str]) -> None:
        from foretrace.record.snapshots import difference

        __tracebackhide__ = True
        found = difference(file.read(), kernels)
        self.snapshots.append("changed" if found else "same")
        if found:
            lines = found.lines()
            self.changes += [f"{file.path.name}:", *lines]
            head = f"the kernels differ from {file.path}"
            raise AssertionError("\n".join([head, *lines, "--foretrace-update writes it again"]))

    def keep(self) -> list[str]:
        """Copy the traces of a failed test to the folder that keeps them; returns the paths."""
        from foretrace.record.snapshots import file_stem

        paths = [block.path for block in self.blocks]
        recorded = [path for path in paths if path.parent == self.folder and path.exists()]
        folder = self.config.rootpath / option(self.config, "keep")
        stem = file_stem(self.item.nodeid.replace("/", "."))
        kept = []
        for number, path in enumerate(recorded):
            folder.mkdir(parents=True, exist_ok=True)
            kept.append(folder / f"{stem}{f'-{number}' if number else ''}.json.gz")
            shutil.copyfile(path, kept[-1])
            records = path.with_name(path.name.removesuffix(".json.gz") + ".why")
            if records.is_dir():
                beside = kept[-1].name.removesuffix(".json.gz") + ".why"
                shutil.copytree(records, kept[-1].with_name(beside), dirs_exist_ok=True)
        return [str(path) for path in kept]

    def summary(self, kept: list[str]) -> dict[str, Any]:
        """The data of the terminal summary, plain: xdist sends it from worker to controller."""
        unknown = [verdict for verdict in self.verdicts if verdict.verdict == "unknown"]
        return {
            "test": self.item.nodeid,
            "blocks": len(self.blocks),
            "kept": kept,
            "snapshots": list(self.snapshots),
            "verdicts": dict(Counter(verdict.verdict for verdict in self.verdicts)),
            "unknown": [f"{verdict.text}: {verdict.why}" for verdict in unknown],
        }

    def section(self, kept: list[str]) -> str:
        """The section of a failure report: every verdict, what changed, and where the trace is."""
        from foretrace.check.lines import verdicts_text

        verdicts = verdicts_text(self.verdicts) if self.verdicts else ""
        paths = "\n".join(f"the trace is kept in {path}" for path in kept)
        return "\n\n".join(filter(None, (verdicts, "\n".join(self.changes), paths)))


def _texts(mark: pytest.Mark) -> list[str]:
    """The predictions that a mark stands for."""
    if mark.name == "max_kernels":
        most = mark.args[0] if mark.args else mark.kwargs.get("count", "")
        return [f"kernels <= {most}"]
    if mark.name == "no_sync":
        return ["waits == 0"]
    return [str(text) for text in mark.args] if mark.name == "predict" else []


def option(config: pytest.Config, name: str) -> Any:
    """The command line first, the ini file second."""
    given = config.getoption(f"foretrace_{name}", None)
    return config.getini(f"foretrace_{name}") if given is None else given


# each is an option of the command line and a setting of the ini file
OPTIONS: dict[str, tuple[bool | str, str]] = {
    "update": (False, "write the kernel snapshots of this run instead of comparing with them"),
    "snapshots": ("__kernels__", "folder beside each test file for its kernel snapshots"),
    "keep": (".foretrace", "folder, relative to the root, for the traces of failing tests"),
    "unknown": ("", "what an unknown prediction does: report, skip or fail [fail in CI]"),
}
_FORMS: dict[str, dict[str, Any]] = {
    "update": {"action": "store_true"},
    "unknown": {"choices": ("report", "skip", "fail")},
}
MARKS = (
    "max_kernels(count): every recorded step launches at most this many GPU kernels (foretrace)",
    "no_sync: the host never waits for the GPU inside a recorded step (foretrace)",
    "predict(*texts, reason=''): predictions about what the test records (foretrace)",
)
TRACES = pytest.StashKey[KernelTraces]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini settings."""
    group = parser.getgroup("foretrace", "predictions about GPU kernels")
    for name, (default, text) in OPTIONS.items():
        setting = f"foretrace_{name}"
        shown = text if default == "" else f"{text} [{default}]"
        how = _FORMS.get(name, {"metavar": name.upper()})
        group.addoption(f"--foretrace-{name}", dest=setting, default=None, help=shown, **how)
        kind = "bool" if default is False else "string"
        parser.addini(setting, text, type=kind, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and the summary."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(Summary(), "foretrace-summary")


@pytest.fixture  # type: ignore[untyped-decorator]
def kernel_trace(request: pytest.FixtureRequest) -> Iterator[KernelTraces]:
    """Profiles a block (`with kernel_trace(warmup=2) as t:`), or opens a trace file."""
    # it must be on before something compiles
    with files.scratch() as folder, applied((KERNEL_NAMES,)):
        traces = request.node.stash[TRACES] = KernelTraces(request.node, folder)
        yield traces


@pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Judge the marks of a test that passed, as a part of the test."""
    __tracebackhide__ = True
    result = yield
    traces = pyfuncitem.stash.get(TRACES, None)
    if traces is not None:
        traces.judge_marks()
    return result


@pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Add the section of a failure and the data of the summary."""
    report = yield
    if report.when == "call":
        try:
            _report(item, report)
        except Exception as problem:  # noqa: BLE001  an error in this hook would end the whole run
            report.sections.append(("foretrace", f"no report: {type(problem).__name__}: {problem}"))
    return report


def _report(item: pytest.Item, report: Any) -> None:
    traces = item.stash.get(TRACES, None)
    marked = [
        name for name in ("max_kernels", "no_sync", "predict") if item.get_closest_marker(name)
    ]
    if traces is not None:
        kept = traces.keep() if report.failed else []
        report.foretrace = traces.summary(kept)
        if report.failed:
            report.sections.append(("foretrace", traces.section(kept)))
    elif marked:
        report.foretrace = {"test": item.nodeid, "unjudged": marked}


class Summary:
    """Collects what tests reported, on whichever process they ran, and prints it at the end."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the data of one test."""
        found = getattr(report, "foretrace", None)
        if isinstance(found, dict) and (found.get("blocks") or found.get("unjudged")):
            self.reports.append(found)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the summary."""
        if self.reports:
            terminalreporter.section("foretrace")
            for line in (self._head(), *self._details()):
                terminalreporter.write_line(line)

    def _head(self) -> str:
        marks, shots = Counter[str](), Counter[str]()
        for report in self.reports:
            marks.update(report.get("verdicts", {}))
            shots.update(snapshot.split()[0] for snapshot in report.get("snapshots", ()))
        traces = plural(sum(report.get("blocks", 0) for report in self.reports), "trace")
        predictions = plural(sum(marks.values()), "prediction")
        score = f"{marks['hit']} hit, {marks['miss']} missed, {marks['unknown']} unknown"
        snapshots = ", ".join(f"{count} {word}" for word, count in sorted(shots.items()))
        return f"{traces}, {predictions}: {score}" + (
            f"; snapshots: {snapshots}" if snapshots else ""
        )

    def _details(self) -> Iterator[str]:
        for report in self.reports:
            test, unjudged = report["test"], ", ".join(report.get("unjudged", ()))
            yield from (f"unknown  {test}: {text}" for text in report.get("unknown", ()))
            written = [text for text in report.get("snapshots", ()) if " " in text]
            yield from (text.replace(" ", "  ", 1) for text in written)
            yield from (f"kept     {path}" for path in report.get("kept", ()))
            if unjudged:
                yield f"not judged  {test}: {unjudged}, but it does not use kernel_trace"
