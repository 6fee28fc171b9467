"""A large trace with Python frames: the page is small, the GPU is on the first screen, and nothing is
left out. The full sweep has 317,000 events. Times are written to a file, never asserted.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import foretrace
from foretrace.show.html import write_report
from show.browser import made
from show.browser.conftest import ARTIFACTS
from show.browser.looks import HEIGHTS, Look, Page
from sweep import FULL

pytestmark = pytest.mark.browser
EVENTS = 317_000 if FULL else 50_000
MOST_BYTES = 11 * EVENTS + 634_000  # the events, and the page around them
# Zooms in and out around the middle; a frame costs the time from its first callback to the first task after it is painted.
ZOOMING = """
    (async () => {
        const {store} = foretrace, {from, to} = arguments[0], between = [], cost = [];
        let last = 0;
        for (let turn = 0; turn < 90; turn++) {
            const share = 10 ** (-2.5 * Math.abs(Math.sin(turn / 14)));
            const middle = from + (to - from) * (0.5 + 0.1 * Math.sin(turn / 9));
            store.set({view: {from: middle - (to - from) * share / 2, to: middle + (to - from) * share / 2}});
            await new Promise((done) => requestAnimationFrame((now) => {
                if (last) between.push(now - last);
                last = now;
                const {port1, port2} = new MessageChannel(), start = performance.now();
                port1.onmessage = () => { cost.push(performance.now() - start); done(); };
                port2.postMessage(0);
            }));
        }
        return [between, cost];
    })()
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    (folder / "large.json").write_bytes(made.training(EVENTS))
    trace = foretrace.open(folder / "large.json", cache=False)
    assert trace.event_count >= EVENTS
    return write_report(folder / "large.html", [trace])


def test_a_large_report_is_small_and_whole(page: Page, large: Path) -> None:
    assert large.stat().st_size < MOST_BYTES
    measured: dict[str, Any] = {"bytes": large.stat().st_size}
    for width in (1024, 1440):
        page.show(large, Look(width, False))
        strip = page.layout()["rows"][0]
        assert strip["kind"] == "strip"
        assert page.at(page.view()[0])[1] + strip["height"] / 2 < HEIGHTS[width]
    assert page.run("return foretrace.traces[0].facts.leftOut") == 0
    assert page.run("return foretrace.traces[0].source.events.count") > EVENTS * 0.6
    paint = (
        "return performance.getEntriesByType('paint').map((each) => [each.name, each.startTime])"
    )
    measured["paint_ms"] = dict(page.run(paint))
    whole = page.run(
        "const {zero, facts} = foretrace.traces[0]; return {from: -zero, to: facts.end - zero}"
    )
    between, cost = page.answer(ZOOMING, whole)
    for name, times in (("frame_to_frame_ms", between), ("frame_cost_ms", cost)):
        measured[name] = {"median": median(times), "worst": max(times)}
    page.browser.screenshot("report_large.png")
    (ARTIFACTS / "report_large.json").write_text(json.dumps(measured, indent=1))
