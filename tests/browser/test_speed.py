"""A trace of 180,000 events: the page is small, and what it draws is the whole of it. Times are
printed, never asserted.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import foretrace
from browser.conftest import ARTIFACTS, Browser
from foretrace.recordings import traces
from foretrace.render.html import write_report

pytestmark = pytest.mark.browser
EVENTS = 180_000


def repeated(events: int) -> bytes:
    """The recorded training steps, repeated until there are at least so many events; ids and times
    move on.

    Each turn runs a little slower than the one before, so that no two have the same times and
    packing them is no easier than packing as many recorded ones.
    """
    with gzip.open(traces()["llama_train_eager"]) as file:
        document: dict[str, Any] = json.load(file)
    once = document["traceEvents"]
    lasting = [event for event in once if event.get("ph") != "M"]
    times = [event["ts"] for event in lasting if event.get("ph") == "X"]
    first, span = min(times), max(times) - min(times) + 1_000_000
    for turn in range(1, -(-events // len(once)) + 1):
        for event in lasting if len(document["traceEvents"]) < events else []:
            document["traceEvents"].append(_moved(event, turn, first, span))
    return gzip.compress(json.dumps(document).encode(), 1)


def _moved(event: dict[str, Any], turn: int, first: float, span: float) -> dict[str, Any]:
    moved = dict(event)
    slower = 1 + 0.0137 * turn
    if "ts" in moved:
        moved["ts"] = round(first + (moved["ts"] - first) * slower + 2 * turn * span, 3)
    if "dur" in moved:
        moved["dur"] = round(moved["dur"] * slower, 3)
    if moved["name"].startswith("ProfilerStep#"):
        moved["name"] = f"ProfilerStep#{int(moved['name'].partition('#')[2]) + turn * 3}"
    arguments = dict(moved.get("args", {}))
    for key in ("correlation", "External id"):
        if key in arguments:
            arguments[key] += turn * 10_000_000
    return moved | {"args": arguments}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    (folder / "large.json.gz").write_bytes(repeated(EVENTS))
    trace = foretrace.open(folder / "large.json.gz", cache=False)
    assert trace.event_count >= EVENTS
    return write_report(folder / "large.html", [trace])


def test_a_large_report_is_small_and_whole(browser: Browser, page: Path) -> None:
    assert page.stat().st_size < 3_000_000
    browser.open(page.as_uri())
    assert browser.run("return panes[0].facts.left_out") == 0
    assert browser.run("return panes[0].timeline.events.count") > 120_000
    browser.run("panes[0].timeline.move(0, panes[0].facts.end)")
    frames = browser.run("""
        const {timeline} = panes[0];
        timeline.frames.length = 0;
        for (let turn = 0; turn < 20; turn++) timeline.draw();
        return timeline.frames;
    """)
    shown = browser.driver.execute_async_script("""
        const done = arguments[0], {timeline} = panes[0], times = [];
        const next = (now) => {
            times.push(now);
            timeline.redraw();
            if (times.length > 30) done(times.slice(1).map((time, at) => time - times[at])); else requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
    """)
    paint = browser.run(
        "return performance.getEntriesByType('paint').map((entry) => [entry.name, entry.startTime])"
    )
    measured = {
        "bytes": page.stat().st_size,
        "paint_ms": dict(paint),
        "draw_ms": frames,
        "frame_to_frame_ms": shown,
    }
    browser.screenshot("report_large.png")
    (ARTIFACTS / "report_large.json").write_text(json.dumps(measured, indent=1))
