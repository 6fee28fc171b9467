"""Keeps predictions about kernels in a test suite: a fixture, marks and snapshots.

    def test_mlp(kernel_trace):
        with kernel_trace(warmup=2, steps=1) as t:
            for _ in t:                      # the warm-up rounds run without the profiler
                model(x)
        t.check("per step: kernels == 5", "every gemm has layout tn")
        t.check_snapshot()

    @pytest.mark.max_kernels(5)              # of every step that the test records
    @pytest.mark.no_sync
    @pytest.mark.guess("gelu and mul are fused", reason="Inductor merges them")

`kernel_trace("trace.json.gz")` opens a file instead. Nothing here imports torch or reads a trace
before the fixture is used. A prediction that the trace cannot decide (no GPU here) is listed as
unknown; `--foretrace-unknown` makes it skip or fail.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from foretrace.pytest_plugin.block import CpuKernels
from foretrace.pytest_plugin.judging import JUDGED, KernelTraces

# each is an option of the command line and a setting of the ini file
OPTIONS: dict[str, tuple[bool | str, str]] = {
    "update": (False, "write the kernel snapshots of this run instead of comparing with them"),
    "snapshots": ("__kernels__", "folder beside each test file that holds its kernel snapshots"),
    "keep": (".foretrace", "folder, relative to the root, that keeps the traces of failing tests"),
    "unknown": (
        "report",
        "what a prediction that the trace cannot decide does: report, skip or fail",
    ),
}
MARKS = (
    "max_kernels(count): every recorded step launches at most this many GPU kernels (foretrace)",
    "no_sync: the host never waits for the GPU inside a recorded step (foretrace)",
    "guess(*texts, reason=''): predictions about what the test records (foretrace)",
)
TRACES = pytest.StashKey[KernelTraces]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("foretrace", "predictions about GPU kernels")
    for name, (default, text) in OPTIONS.items():
        kind: dict[str, Any] = (
            {"action": "store_true"} if isinstance(default, bool) else {"metavar": name.upper()}
        )
        if name == "unknown":
            kind = {"choices": ("report", "skip", "fail")}
        group.addoption(
            f"--foretrace-{name}",
            dest=f"foretrace_{name}",
            default=None,
            help=f"{text} [{default}]",
            **kind,
        )
        parser.addini(
            f"foretrace_{name}",
            text,
            type="bool" if isinstance(default, bool) else "string",
            default=default,
        )


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(Summary(), "foretrace-summary")


@pytest.fixture  # type: ignore[untyped-decorator]
def kernel_trace(request: pytest.FixtureRequest) -> Iterator[KernelTraces]:
    """Profiles a block, or opens a trace: `with kernel_trace(warmup=2, steps=1) as t:`,
    `kernel_trace("trace.json.gz")`.
    """
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        traces = KernelTraces(request.node, Path(folder))
        request.node.stash[TRACES] = traces
        cpu_kernels = CpuKernels()
        cpu_kernels.show()
        yield traces
        cpu_kernels.restore()


@pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A test that has passed is judged by its marks, as a part of the test."""
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
    """Adds the section of a failure and the line of the summary."""
    report = yield
    if report.when == "call":
        try:
            _report(item, report)
        except Exception as problem:  # an error in this hook would end the whole run
            report.sections.append(("foretrace", f"no report: {type(problem).__name__}: {problem}"))
    return report


def _report(item: pytest.Item, report: Any) -> None:
    traces = item.stash.get(TRACES, None)
    marked = [name for name in JUDGED if item.get_closest_marker(name)]
    if traces is not None:
        kept = traces.keep() if report.failed else []
        report.foretrace = traces.summary(kept)
        if report.failed:
            report.sections.append(("foretrace", traces.section(kept)))
    elif marked:
        report.foretrace = {"test": item.nodeid, "unjudged": marked}


class Summary:
    """Collects what tests reported, on whichever process they ran, and says it at the end."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = getattr(report, "foretrace", None)
        if isinstance(found, dict) and (found.get("blocks") or found.get("unjudged")):
            self.reports.append(found)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.reports:
            terminalreporter.section("foretrace")
            for line in self.lines():
                terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        marks: Counter[str] = Counter()
        shots: Counter[str] = Counter()
        for report in self.reports:
            marks.update(report.get("verdicts", {}))
            shots.update(snapshot.split()[0] for snapshot in report.get("snapshots", ()))
        blocks = sum(report.get("blocks", 0) for report in self.reports)
        head = (
            f"{blocks} traces, {sum(marks.values())} guesses: {marks['hit']} hit, {marks['miss']} "
            "missed, "
            f"{marks['unknown']} unknown"
        )
        snapshots = ", ".join(f"{count} {word}" for word, count in sorted(shots.items()))
        return [head + (f"; snapshots: {snapshots}" if snapshots else ""), *self._details()]

    def _details(self) -> Iterator[str]:
        for report in self.reports:
            yield from (f"unknown  {report['test']}: {text}" for text in report.get("unknown", ()))
            yield from (
                f"{snapshot.replace(' ', '  ', 1)}"
                for snapshot in report.get("snapshots", ())
                if " " in snapshot
            )
            yield from (f"kept     {path}" for path in report.get("kept", ()))
            if report.get("unjudged"):
                yield (
                    f"not judged  {report['test']}: {', '.join(report['unjudged'])}, but it "
                    "does not use kernel_trace"
                )
