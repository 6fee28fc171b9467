"""Item 1: what a person sees before anything is clicked, and how tracks are opened."""

from __future__ import annotations

import pytest

from show.browser import audit
from show.browser.looks import HEIGHTS, Page

pytestmark = pytest.mark.browser


@pytest.mark.sweep(2)
@pytest.mark.colours
def test_answers_fixes_and_gpu_come_first(shown: Page) -> None:
    shown.browser.screenshot(f"viewer_{shown.look}.png")
    for answer in ("bound", "first", "where"):
        assert shown.text(f".answer.{answer}").count("\n") >= 2
    cards = shown.run("return [...document.querySelectorAll('.card')].map((c) => c.innerText)")
    assert len(cards) >= 1
    rows = shown.layout()["rows"]
    assert rows[0]["kind"] == "strip"
    assert "gemm" in shown.text(".legend")
    bottom = shown.at(0)[1] + rows[0]["height"] / 2
    if shown.look.width > 390:
        assert bottom < HEIGHTS[shown.look.width]
    assert shown.sticks_out() == []
    assert shown.said() == []


@pytest.mark.parametrize("fold", ["12 idle threads", "Python frames"])
def test_a_folded_track_opens_and_closes(shown: Page, fold: str) -> None:
    """Threads that wait, and the flame of Python frames."""
    shown.click(shown.found(".timeline button", fold))
    assert len(shown.state("open")) == 1
    rows = shown.run("return document.querySelectorAll('.timeline .names .track').length")
    strip = next(row for row in shown.layout()["rows"] if row["kind"] == "strip")
    assert strip["top"] >= 0, "the GPU stays in view"
    shown.focus(shown.found(".timeline button", fold))
    shown.press("Enter")
    assert shown.state("open") == []
    assert shown.run("return document.querySelectorAll('.timeline .names .track').length") < rows


def test_ruler_and_names_stay_in_view(shown: Page) -> None:
    shown.run("foretrace.store.set({open: foretrace.layout().rows.map((row) => row.key)})")
    where = """
        const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
        return [top('.timeline .ruler'), document.querySelector('.timeline .scroller').scrollTop];
    """
    ruler, _ = shown.run(where)
    x, y = shown.middle(".timeline .scroller .track")
    ruler, _ = shown.run(where)
    shown.hands.wheel((x, y), 200)
    shown.wait("document.querySelector('.timeline .scroller').scrollTop > 0")
    assert shown.run(where)[0] == ruler


def test_the_minimap_moves_the_view(shown: Page) -> None:
    x, y = shown.middle(".minimap")
    shown.hands.click((x, y))
    middle = sum(shown.view()) / 2
    shown.hands.drag((x, y), (x + 60, y))
    assert sum(shown.view()) / 2 > middle
    shown.focus(".minimap canvas, .minimap")
    before = shown.view()
    shown.press("ArrowLeft")
    assert shown.view()[0] < before[0]


@pytest.mark.colours
def test_everyone_can_read_and_name_it(shown: Page) -> None:
    assert audit.faint_texts(shown) == []
    assert audit.nameless(shown) == []
