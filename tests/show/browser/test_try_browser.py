"""What `foretrace try` measured, in a real browser: bars as long as their times."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.show.html.report import try_html
from show.browser.conftest import Browser
from show.browser.test_roofs_browser import OVERFLOW
from show.render.test_try_page import CAST, FUSED, OTHERS, document

pytestmark = pytest.mark.browser
PLACES = """
return [...document.querySelectorAll('.spanbar')].map(track => {
  const box = track.getBoundingClientRect();
  const at = (name, end) => (track.querySelector(name).getBoundingClientRect()[end] - box.left) / box.width;
  return [at('.fill', 'right'), at('.interval', 'left'), at('.interval', 'right'), at('.base', 'left')];
});
"""


@pytest.mark.parametrize("width", [1400, 820, 390])
def test_bars_are_as_long_as_their_times(browser: Browser, tmp_path: Path, width: int) -> None:
    page = tmp_path / "try.html"
    page.write_text(try_html(document(FUSED, CAST, *OTHERS)), encoding="utf-8")
    browser.driver.set_window_size(width, 900)
    browser.open(page.as_uri())
    browser.settle()
    longest, now = 4.1e6, 4e6
    times = [(now, 3.9e6, longest), (3.2e6, 3.1e6, 3.3e6), (2e6, 2e6, 2e6)]
    for found, row in zip(browser.run(PLACES), times, strict=True):
        wanted = [*(ns / longest for ns in row), now / longest]
        assert found == pytest.approx(wanted, abs=0.02)  # the ends of an interval are 2 pixels wide
    assert "AdamW(..., fused=True)" in browser.find(".tried code").text
    assert browser.run(OVERFLOW) <= 0
    assert browser.console() == []
