"""The statistics of a range in a page, against the trace itself and the document of `look`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrace.pages import write_report
from foretrace.pages.timeline import Timeline
from foretrace.read.recordings import traces
from foretrace.trace.idle import windows_of
from foretrace.trace.intervals import shared_lengths
from foretrace.trace.trace import Trace
from opened_traces import opened, overview
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser
STATS = """
    const [ranges, done] = arguments, {source} = foretrace.traces[0];
    Promise.all(ranges.map(([from, to]) => source.rangeStats({from, to}))).then(done);
"""
MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"


@pytest.fixture(scope="module", params=["mlp_eager_train", "mlp_compiled", "modules"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return opened(traces().get(request.param, MODULES))


@pytest.fixture(scope="module")
def page(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(tmp_path_factory.mktemp("ranges") / "page.html", [trace]).as_uri()


def _asked(browser: Browser, page: str, ranges: list[tuple[int, int]]) -> list[dict[str, Any]]:
    if browser.run("return location.href.split('#')[0]") != page:
        browser.open(page)
    found: list[dict[str, Any]] = browser.driver.execute_async_script(STATS, ranges)
    return found


def test_the_whole_recording_has_the_totals_of_look(
    browser: Browser, page: str, trace: Trace
) -> None:
    timeline, document = Timeline(trace), overview(Path(trace.path)).look
    [found] = _asked(browser, page, [(0, timeline.end_ns + 1)])
    totals = document.totals
    assert (found["busyNs"], found["launches"]) == (totals.gpu_busy_ns, totals.launches)
    kernels = sorted((part["ns"], part["count"]) for part in found["kernels"])
    assert kernels == sorted((row.total_ns, row.count) for row in document.kernels)
    assert sum(part["ns"] for part in found["groups"]) == pytest.approx(totals.gpu_busy_ns)


def test_any_range_has_what_the_trace_has(browser: Browser, page: str, trace: Trace) -> None:
    timeline, gpu = Timeline(trace), trace.gpu
    random = np.random.default_rng(7)
    ranges = np.sort(random.integers(0, timeline.end_ns, (12, 2)), axis=1).tolist()
    for (low, high), found in zip(ranges, _asked(browser, page, ranges), strict=True):
        begin, end = low + timeline.origin_ns, high + timeline.origin_ns
        moments = np.array([begin]), np.array([end])
        assert found["busyNs"] == sum(int(busy.between(*moments)[0]) for busy in trace.gpu.covered)
        calls = trace.host.start[trace.host.is_launch]
        assert found["launches"] == int(((calls >= begin) & (calls < end)).sum())
        rows = np.flatnonzero(gpu.usable & (gpu.start < end) & (gpu.end > begin))
        start, stop = np.maximum(gpu.start[rows], begin), np.minimum(gpu.end[rows], end)
        time = shared_lengths(gpu.device_number[rows], start, stop)
        roles = trace.work_roles[rows]
        wanted = {str(role): float(time[roles == role].sum()) for role in np.unique(roles)}
        groups = {timeline.groups[part["number"]]: part["ns"] for part in found["groups"]}
        assert groups == pytest.approx(wanted)
        causes = {row["cause"]: row["ns"] for row in found["idle"] if row["cause"] != "outside"}
        windows = [(device, begin, end) for device in range(len(trace.gpu.covered))]
        assert causes == trace.gaps.inside(windows).by_cause()
        assert sum(row["ns"] for row in found["idle"]) == high - low - found["busyNs"]


def test_a_typical_step_is_idle_for_the_causes_of_its_finding(
    browser: Browser, page: str, trace: Trace
) -> None:
    said = [each for each in overview(Path(trace.path)).look.findings if each.rule == "idle_gaps"]
    if not said or said[0].state != "found" or not trace.spans.steps:
        pytest.skip("no step of this recording is idle")
    typical, origin = trace.gaps.typical, Timeline(trace).origin_ns
    assert typical is not None
    windows = [windows_of(trace, span)[0] for span in trace.spans.steps]
    inside = [trace.gaps.inside([window]).length.sum() for window in windows]
    _, begin, end = windows[inside.index(typical.length.sum())]
    [found] = _asked(browser, page, [(begin - origin, end - origin)])
    causes = {row["cause"]: row["ns"] for row in found["idle"]}
    assert causes == said[0].evidence["causes"]
    assert sum(causes.values()) == said[0].evidence["idle_ns"]
