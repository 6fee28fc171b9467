"""Item 10: three traces on one ruler, aligned, with what changed between them."""

from __future__ import annotations

import pytest

from show.browser import audit
from show.browser.looks import Page

pytestmark = pytest.mark.browser


def strips(page: Page) -> list[int]:
    return [row["trace"] for row in page.layout()["rows"] if row["kind"] == "strip"]


@pytest.mark.sweep(2)
@pytest.mark.colours
def test_three_gpus_lie_on_one_ruler(compared: Page) -> None:
    compared.browser.screenshot(f"three_{compared.look}.png")
    assert strips(compared) == [0, 1, 2]
    assert compared.run("return document.querySelectorAll('.timeline canvas.tracks').length") == 1
    assert compared.sticks_out() == []
    assert compared.said() == []


@pytest.mark.once
def test_traces_are_aligned_by_step_or_region(compared: Page) -> None:
    zeros = "return foretrace.traces.map((trace) => trace.zero)"
    before = compared.run(zeros)
    compared.focus(".aligning select")
    compared.press("ArrowDown")
    assert compared.state("align") != ""
    assert compared.run(zeros) != before
    compared.press("ArrowUp")
    assert compared.run(zeros) == before


def test_a_change_leads_to_both_kernels(compared: Page) -> None:
    compared.click(compared.found("[role=tab]", "Changes"))
    text = compared.text("#panel-changes")
    assert "gelu" in text
    before = compared.view()
    compared.click(compared.found(".changelist button", "GeGLU"))
    selected = compared.state("selection")
    assert selected["kind"] in ("event", "range")
    assert compared.view() != before
    assert compared.sticks_out() == []
    compared.press("Escape")
    compared.focus(compared.found(".changelist button", "GeGLU"))
    compared.press("Enter")
    assert compared.state("selection") == selected


def test_a_selection_keeps_all_traces_on_screen(compared: Page) -> None:
    tops = [row["top"] for row in compared.layout()["rows"] if row["kind"] == "strip"]
    compared.press("ArrowRight")
    assert compared.selected()["kind"] == "event"
    assert [row["top"] for row in compared.layout()["rows"] if row["kind"] == "strip"] == tops


@pytest.mark.colours
def test_everyone_can_read_it(compared: Page) -> None:
    assert audit.faint_texts(compared) == []
    assert audit.nameless(compared) == []
