"""Checks predictions about kernels in a test suite: a fixture, marks and snapshots.

    def test_mlp(kernel_trace):
        with kernel_trace(warmup=2, steps=1) as t:
            for _ in t:                      # the warm-up rounds run without the profiler
                model(x)
        t.check("per step: kernels == 5", "every gemm has layout tn")
        t.check_snapshot()

    @pytest.mark.max_kernels(5)              # of every step that the test records
    @pytest.mark.no_sync
    @pytest.mark.guess("gelu and mul are fused", reason="Inductor fuses them")
    @pytest.mark.guess("graph breaks == 0", "recompiles == 0", "graphs == 1")

`kernel_trace("trace.json.gz")` opens a file instead. Nothing here imports torch or reads a trace
before the fixture is used. A prediction that the trace does not decide (no GPU here) is listed as
unknown, and fails the test where the variable CI is set; `--foretrace-unknown` says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from foretrace.base import files
from foretrace.base.units import plural
from foretrace.record.profiling.compiler_settings import KERNEL_NAMES, applied
from foretrace.record.pytest_plugin.judging import JUDGED, KernelTraces

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
    "guess(*texts, reason=''): predictions about what the test records (foretrace)",
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
    marked = [name for name in JUDGED if item.get_closest_marker(name)]
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
        guesses = plural(sum(marks.values()), "guess", "guesses")
        score = f"{marks['hit']} hit, {marks['miss']} missed, {marks['unknown']} unknown"
        snapshots = ", ".join(f"{count} {word}" for word, count in sorted(shots.items()))
        return f"{traces}, {guesses}: {score}" + (f"; snapshots: {snapshots}" if snapshots else "")

    def _details(self) -> Iterator[str]:
        for report in self.reports:
            test, unjudged = report["test"], ", ".join(report.get("unjudged", ()))
            yield from (f"unknown  {test}: {text}" for text in report.get("unknown", ()))
            written = [text for text in report.get("snapshots", ()) if " " in text]
            yield from (text.replace(" ", "  ", 1) for text in written)
            yield from (f"kept     {path}" for path in report.get("kept", ()))
            if unjudged:
                yield f"not judged  {test}: {unjudged}, but it does not use kernel_trace"
