"""Item 5 in depth: a gap is a range, the timeline shades it, and small findings are folded."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.base.units import time_text
from foretrace.show.html.timeline import Timeline
from foretrace.show.overview.predictions import next_fix
from opened_traces import opened, overview
from show.browser.looks import Page

pytestmark = pytest.mark.browser
IDLE = "#panel-findings [data-finding=idle_gaps]"
# The colour of a GPU's strip at a time, near its top: there is nothing in a gap but its shade.
PIXEL = """
    const [time] = arguments, {from, to, width, rows} = foretrace.layout();
    const strip = rows.find((row) => row.kind === 'strip');
    const canvas = document.querySelector('.timeline canvas.tracks');
    const x = (time - from) / (to - from) * width;
    const {data} = canvas.getContext('2d').getImageData(Math.round(x), strip.top + 3, 1, 1);
    return [...data];
"""


@pytest.mark.once
def test_a_gap_is_a_range_that_the_timeline_goes_to(shown: Page, training: Path) -> None:
    trace = opened(training.with_suffix(".json"))
    (idle,) = [
        row
        for row in overview(training.with_suffix(".json")).look.findings
        if row.rule == "idle_gaps"
    ]
    origin = Timeline(trace).origin_ns + shown.run("return foretrace.traces[0].zero")
    start, end, _ = idle.ranges[0]
    shown.focus(shown.found("#panel-findings summary", "without a known saving"))
    shown.press("Enter")
    gap = shown.found(f"{IDLE} .places .link", "gap 1:")
    shown.click(gap)
    assert shown.state("selection") == {"kind": "finding", "trace": 0, "rule": "idle_gaps"}
    first, last = shown.view()
    assert first < start - origin < end - origin < last
    assert last - first < 2 * (end - start)
    seen = shown.run(PIXEL, (start + end) / 2 - origin)
    assert shown.text(".panel").find(idle.title[:25]) >= 0
    shown.run("foretrace.store.set({selection: null})")
    shown.settle()
    assert shown.run(PIXEL, (start + end) / 2 - origin) != seen  # it was shaded
    shown.focus(gap)
    shown.press("Enter")
    assert shown.view() == (first, last)


def test_every_fix_has_a_row_with_the_step_before_and_after(shown: Page, training: Path) -> None:
    look = overview(training.with_suffix(".json")).look
    assert look.step is not None
    assert look.fixes
    table = shown.text("#panel-findings .grid")
    for fix in look.fixes:
        for text in (fix.order, time_text(look.step.ns), time_text(fix.ns), fix.why):
            assert text in table
    assert shown.sticks_out() == []


def test_small_findings_are_folded_and_open_when_selected(shown: Page, training: Path) -> None:
    summary = overview(training.with_suffix(".json"))
    found = [row for row in summary.look.findings if row.state == "found"]
    large = [row.rule for row in found if (row.at_most_ns or 0) >= summary.worth_ns]
    small = [row.rule for row in found if row.rule not in large]
    visible = """
        return [...document.querySelectorAll('#panel-findings .finding.found')]
            .filter((each) => each.checkVisibility()).map((each) => each.dataset.finding);
    """
    assert shown.run(visible) == large
    shown.run(
        "foretrace.store.set({selection: {kind: 'finding', trace: 0, rule: arguments[0]}})",
        small[0],
    )
    shown.settle()
    assert small[0] in shown.run(visible)
    shown.focus(shown.found("#panel-findings summary", "rules found nothing"))
    shown.press("Enter")
    assert "Checked" not in shown.text("#panel-findings")
    assert shown.run("return document.querySelectorAll('.finding.clear').length") > 0
    assert shown.sticks_out() == []


def test_cards_are_the_fixes_each_once_as_the_terminal_has_them(
    shown: Page, training: Path
) -> None:
    fixes = overview(training.with_suffix(".json")).look.fixes
    second = next_fix(fixes)
    names = [fix.name for fix in (fixes[0], *([second] if second else []), *fixes)]
    cards = shown.run(
        "return [...document.querySelectorAll('.card')].map((card) => card.dataset.finding)"
    )
    assert cards == [f"fix_{name}" for name in dict.fromkeys(names)]
    heights = shown.run(
        "return [...document.querySelectorAll('.card')].map((card) => card.offsetHeight)"
    )
    assert max(heights) <= 110
