"""Items 6 to 9: the tables, the flame graph, the roofline and memory."""

from __future__ import annotations

import pytest

from show.browser.looks import Page

pytestmark = pytest.mark.browser
KERNELS = "#panel-kernels .grid:nth-of-type(2)"
ROWS = f"return document.querySelectorAll('{KERNELS} tbody tr').length"
COPIED = "navigator.clipboard.writeText = async (text) => { window.copied = text; }"


def open_tab(page: Page, title: str, name: str) -> None:
    page.click(page.found("[role=tab]", title))
    assert page.state("tab") == name


def test_tables_sort_filter_and_copy(shown: Page) -> None:
    """Item 6."""
    open_tab(shown, "Kernels", "kernels")
    shown.run(COPIED)
    assert shown.run(ROWS) == 15
    shown.click(shown.found(f"{KERNELS} button", "show all"))
    assert shown.run(ROWS) > 15
    shown.focus(shown.found(f"{KERNELS} button", "show fewer"))
    shown.press("Enter")
    assert shown.run(ROWS) == 15
    if shown.look.width > 390:
        shown.click(shown.found(f"{KERNELS} th button", "total"))
        shown.focus(shown.found(f"{KERNELS} th button", "count"))
        shown.press("Enter")
    else:
        shown.focus(f"{KERNELS} select")
        shown.press("ArrowDown")
    order = f"return document.querySelector('{KERNELS} select').selectedOptions[0].textContent"
    assert shown.run(order) == "by count"
    shown.click(f"{KERNELS} input[type=search]")
    shown.hands.type("softmax")
    shown.settle()
    assert 1 <= shown.run(ROWS) < 15
    shown.click(shown.found(f"{KERNELS} button", "copy as CSV"))
    assert "softmax" in shown.run("return window.copied")
    assert shown.sticks_out() == []


def test_tabs_follow_the_arrows(shown: Page) -> None:
    shown.focus("[role=tab][aria-selected=true]")
    for name in ("kernels", "flame", "roofline", "memory"):
        shown.press("ArrowRight")
        assert shown.state("tab") == name
        assert shown.sticks_out() == []


def test_a_sandwich_has_callers_above_callees_below_and_filters_the_timeline(shown: Page) -> None:
    open_tab(shown, "Flame graph", "flame")
    for choice in ("GPU time", "by module", "all", "top down"):
        shown.click(shown.found("#panel-flame label", choice))
    shown.click(shown.found("#panel-flame .flame .box", "LlamaMLP × "))
    shown.click(shown.found("#panel-flame label", "sandwich"))
    assert shown.state("filter") == "@ LlamaMLP_*", "the box that was chosen"
    shown.click(shown.found("#panel-flame .grid button.link", "fused AdamW"))
    assert "fused AdamW" in shown.state("filter")
    callers, callees = shown.run(
        "return [...document.querySelectorAll('#panel-flame svg.plot')].map((each) => "
        "[...each.querySelectorAll('.box')].map((box) => box.ariaLabel))"
    )
    assert any("aten::_fused_adamw_" in each for each in callers), "who calls the kernel"
    assert len(callees) == 1, "a kernel calls nothing"
    shown.run(
        "arguments[0].focus()", shown.found("#panel-flame .flame .box", "aten::_fused_adamw_")
    )
    shown.press("Enter")
    assert shown.state("filter") == "@ aten::_fused_adamw_"
    shown.click(shown.found("#panel-flame label", "top down"))
    assert shown.state("filter") == ""
    assert shown.sticks_out() == []


def test_the_roofline_has_its_dots_and_labels_inside(shown: Page) -> None:
    """Item 8."""
    open_tab(shown, "Roofline", "roofline")
    outside = shown.run("""
        const svg = document.querySelector('#panel-roofline svg'), frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text, .point')].map((each) => each.getBoundingClientRect())
            .filter((box) => box.width && (box.left < frame.left - 1 || box.right > frame.right + 1
                || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)).length;
    """)
    assert outside == 0
    assert "HBM" in shown.run("return document.querySelector('#panel-roofline').textContent")
    shown.click("#panel-roofline .point")
    selected = shown.state("selection")
    assert selected["kind"] == "event"
    shown.press("Escape")
    shown.run("document.querySelector('#panel-roofline .point').focus()")
    shown.press("Enter")
    assert shown.state("selection")["kind"] == "event"
