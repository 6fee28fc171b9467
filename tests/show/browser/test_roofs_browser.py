"""The page of `foretrace lab roofs` in a real browser: every measured point is on a curve."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.names import devices
from foretrace.show.html.page import roofs_html
from show.browser.conftest import Browser

pytestmark = pytest.mark.browser
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
DOTS = """
return Object.fromEntries(['read', 'write', 'copy', 'load'].map(
  name => [name, document.querySelectorAll(`.curve-dot.curve-${name}`).length]));
"""
HEIGHTS = """
return [...document.querySelectorAll('.curve-dot.curve-read')].map(dot => Number(dot.getAttribute('cy')));
"""


@pytest.mark.parametrize("width", [1440, 390])
def test_every_point_is_on_a_curve(browser: Browser, tmp_path: Path, width: int) -> None:
    roofs = devices.shown_roofs("h200")
    page = tmp_path / "roofs.html"
    page.write_text(roofs_html(roofs), encoding="utf-8")
    browser.driver.set_window_size(width, 900)
    browser.open(page.as_uri())
    browser.settle()
    points = roofs.bandwidth
    assert browser.run(DOTS) == {
        "read": sum(point.read_gbps is not None for point in points),
        "write": sum(point.write_gbps is not None for point in points),
        "copy": sum(point.copy_gbps is not None for point in points),
        "load": len(roofs.latency),
    }
    heights, rates = browser.run(HEIGHTS), [p.read_gbps for p in points if p.read_gbps is not None]
    order = sorted(range(len(rates)), key=lambda place: rates[place])
    assert [heights[place] for place in order] == sorted(heights, reverse=True)
    assert browser.run(OVERFLOW) <= 0
    assert browser.console() == []
