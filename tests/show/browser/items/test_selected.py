"""Items 3 to 5: a range, a kernel and a fix, each in a panel that is there only then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foretrace.base.units import time_text
from opened_traces import opened
from show.browser.hands import SHIFT
from show.browser.looks import Page

pytestmark = pytest.mark.browser
HEIGHT = "return document.querySelector('.panel').getBoundingClientRect().height"


def test_a_range_is_measured(shown: Page, training: Path) -> None:
    """Item 3."""
    first, last = shown.view()
    start, end = shown.at(first + (last - first) * 0.2), shown.at(first + (last - first) * 0.8)
    with shown.hands.holding(SHIFT):
        shown.hands.drag(start, end)
    chosen = shown.state("selection")
    assert chosen["kind"] == "range"
    assert chosen["range"]["from"] == pytest.approx(first + (last - first) * 0.2, rel=0.02)
    shown.wait("document.querySelector('.panel').innerText.includes('busy')")
    text = shown.text(".panel")
    for word in ("busy", "idle", "launches", "gemm"):
        assert word in text.lower()
    shown.press("Escape")
    trace = opened(training.with_suffix(".json"))
    whole = (
        "return foretrace.traces.map(({zero, facts}) => ({from: -zero, to: facts.end - zero}))[0]"
    )
    shown.run("foretrace.store.set({view: arguments[0]})", shown.run(whole))
    shown.press("r")
    busy = time_text(trace.gpu.busy(trace.gpu.usable))
    shown.wait(f"document.querySelector('.panel').innerText.includes({busy!r})")
    assert shown.sticks_out() == []


def test_a_kernel_is_explained(shown: Page) -> None:
    """Item 4."""
    assert shown.run(HEIGHT) == 0  # nothing is selected
    shown.run("foretrace.store.set({tab: 'kernels'})")
    shown.settle()  # the table takes the columns that fit
    shown.click(shown.found("#panel-kernels tbody .link", "nvjet"))
    selected = shown.selected()
    shown.wait("document.querySelector('.panel').innerText.includes('aten::')")
    text = shown.text(".panel")
    for word in ("aten::", "%", "queue", "LlamaForCausalLM", "step"):
        assert word in text
    assert re.search(r"registers \d+ per thread, shared memory [\d.]+ kB", text)
    assert re.search(r"traffic\s[\d.,]+ [MG]B, [\d.]+ TB/s", text), "one unit for one rate"
    height = shown.run(HEIGHT)
    assert height > 100
    shown.press("Escape")
    shown.focus(shown.found("#panel-kernels tbody .link", "nvjet"))
    shown.press("Enter")
    assert shown.state("selection") == selected
    assert shown.sticks_out() == []


def test_a_finding_leads_to_its_place(shown: Page) -> None:
    """Item 5."""
    before = shown.view()
    shown.click(".card")
    first = shown.state("selection")
    assert first["kind"] == "finding"
    assert shown.view() != before
    title = shown.run("return document.querySelector('.card .what .name').textContent")
    assert re.sub(r"\W", "", title[:30]) in re.sub(r"\W", "", shown.text(".panel"))
    shown.press("Escape")
    shown.focus(".card")
    shown.press("Enter")
    assert shown.state("selection") == first
    shown.press("Escape", "1")
    assert shown.state("selection") == first
