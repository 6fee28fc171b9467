"""The views of a notebook in a browser: each draws itself inside its frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from foretrace.read.recordings import traces
from opened_traces import opened
from show.browser.conftest import Browser

pytestmark = pytest.mark.browser
DRAWN = """
    const canvas = document.querySelector('canvas.tracks');
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value) => value > 0);
"""


@pytest.fixture(scope="module")
def cells(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    names = ("mlp_eager", "mlp_compiled")
    eager, compiled = (opened(traces()[name]) for name in names)
    views = (eager.plot(), eager.plot(compiled), eager.roofline(compiled), eager.flame())
    page: Path = tmp_path_factory.mktemp("notebook") / "cells.html"
    frames = "".join(view._repr_html_() for view in views)
    page.write_text(f"<!doctype html><meta charset=utf-8>{frames}")
    browser.driver.get("about:blank")
    browser.driver.get_log("browser")
    browser.driver.get_log("performance")
    browser.driver.get(page.as_uri())
    yield browser
    browser.driver.switch_to.default_content()


def enter(cells: Browser, number: int) -> None:
    cells.driver.switch_to.default_content()
    # what is out of sight draws nothing
    cells.run("document.querySelectorAll('iframe')[arguments[0]].scrollIntoView()", number)
    cells.driver.switch_to.frame(number)
    cells.wait("document.documentElement.dataset.ready === 'yes'")


@pytest.mark.parametrize("number", [0, 1])
def test_a_plot_draws_its_tracks(cells: Browser, number: int) -> None:
    enter(cells, number)
    assert cells.run(DRAWN)
    assert cells.run("return getComputedStyle(document.querySelector('header')).display") == "none"
    assert cells.run("return document.querySelectorAll('[role=tab]').length") == 0
    assert cells.run("return !!document.querySelector('.changelist')") == (number == 1)
    cells.run("document.querySelector('canvas.tracks').focus()")
    cells.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'w'}))")
    cells.settle()
    assert cells.run("return foretrace.store.state.view") is not None


def test_a_roofline_has_its_dots_and_a_flame_graph_its_boxes(cells: Browser) -> None:
    enter(cells, 2)
    assert cells.run("return document.querySelectorAll('svg.roofline [role=button]').length") > 2
    enter(cells, 3)
    assert cells.run("return document.querySelectorAll('svg.flame rect').length") > 5
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert cells.run(wide) <= 0


def test_no_cell_reaches_out_or_complains(cells: Browser) -> None:
    cells.driver.switch_to.default_content()
    assert [line for line in cells.console() if "favicon" not in line] == []
    asked = [address for address in cells.requests() if not address.startswith(("file:", "data:"))]
    assert [address for address in asked if not address.startswith(("about:", "blob:"))] == []
