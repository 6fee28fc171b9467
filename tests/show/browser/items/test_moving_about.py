"""Item 2: moving, searching, marking and pinning; and an address that restores it all."""

from __future__ import annotations

import re

import pytest

from show.browser.hands import SHIFT
from show.browser.looks import Page

pytestmark = pytest.mark.browser
KERNEL = """
    const {events} = foretrace.traces[0].source;
    const at = [...events.event.keys()].filter((at) => events.kind(at) === 'kernel')
        .sort((a, b) => events.length[b] - events.length[a])[0];
    return [events.event[at], events.start[at] - foretrace.traces[0].zero, events.length[at]];
"""


def span(page: Page) -> float:
    first, last = page.view()
    return last - first


def test_wheel_and_drag(shown: Page) -> None:
    first, last = shown.view()
    time = first + (last - first) * 0.3
    point = shown.at(time)
    shown.hands.wheel(point, -200)
    near = shown.moved((first, last))
    assert near[1] - near[0] < last - first
    assert shown.at(time)[0] == pytest.approx(point[0], abs=0.5)  # it zooms at the pointer
    with shown.hands.holding(SHIFT):
        shown.hands.wheel(point, 100)
    right = shown.moved(near)
    assert right[0] > near[0]
    shown.hands.drag(point, (point[0] - 40, point[1]))
    moved = 40 / shown.layout()["width"] * span(shown)
    assert shown.view()[0] == pytest.approx(right[0] + moved, rel=1e-3)


@pytest.mark.once
def test_keys_zoom_pan_and_fit(shown: Page) -> None:
    whole = span(shown)
    shown.press("w")
    assert span(shown) < whole
    shown.press("s")
    assert span(shown) == pytest.approx(whole, rel=1e-3)
    first = shown.view()[0]
    shown.press("d")
    assert shown.view()[0] > first
    shown.press("a")
    assert shown.view()[0] == pytest.approx(first, abs=whole / 1e3)
    event, start, length = shown.run(KERNEL)
    shown.run(
        "foretrace.store.set({selection: {kind: 'event', trace: 0, event: arguments[0]}})", event
    )
    before = shown.view()
    shown.press("f")
    first, last = shown.moved(before)
    assert first <= start
    assert start + length <= last
    assert last - first < 20 * length


@pytest.mark.once
def test_a_kernel_is_selected_and_walked_from(shown: Page) -> None:
    event, start, length = shown.run(KERNEL)
    shown.run(
        "foretrace.store.set({view: {from: arguments[0], to: arguments[1]}})",
        start - length,
        start + 2 * length,
    )
    chosen = {"kind": "event", "trace": 0, "event": event}
    streams = [row["key"] for row in shown.layout()["rows"] if row["kind"] == "row"]
    for number in range(streams.count(streams[0])):  # annotations have rows of their own
        shown.hands.click(shown.at(start + length / 2, "row", number))
        if shown.state("selection") == chosen:
            break
    assert shown.selected() == chosen
    shown.press("ArrowRight")
    after = shown.selected(chosen)
    shown.press("ArrowLeft")
    assert shown.selected(after) == chosen
    shown.press("ArrowUp")  # what launched it
    launch = shown.selected(chosen)
    assert launch != after
    shown.press("ArrowDown")
    assert shown.selected(launch) == chosen
    shown.press("Escape")
    assert shown.state("selection") is None


def test_search_lists_counts_and_walks(shown: Page) -> None:
    shown.press("/")
    assert shown.run("return document.activeElement.type") == "search"
    shown.hands.type("gemm")
    shown.press("Enter")
    first = shown.selected()
    assert re.search(r"\d[\d,]* ", shown.text(".searching"))
    shown.press("Enter")
    second = shown.selected(first)
    with shown.hands.holding(SHIFT):
        shown.press("Enter")
    assert shown.selected(second) == first
    shown.press("Escape", "Escape")
    shown.click("input[type=search]")
    shown.hands.type("softmax")
    shown.wait("document.querySelectorAll('.searching li button').length > 0")
    shown.click(".searching li button")
    assert shown.state("selection")["kind"] == "event"
    assert shown.sticks_out() == []


@pytest.mark.once
def test_an_address_restores_the_view(shown: Page) -> None:
    event, start, length = shown.run(KERNEL)
    held = {
        "view": {"from": round(start - length), "to": round(start + 2 * length)},
        "selection": {"kind": "event", "trace": 0, "event": event},
        "tab": "kernels",
        "filter": "gemm",
    }
    shown.run("foretrace.store.set(arguments[0])", held)
    shown.wait("location.hash.includes('filter=gemm')")
    address = shown.run("return location.hash")
    shown.run("foretrace.store.set({view: null, selection: null, tab: 'findings', filter: ''})")
    shown.wait("!location.hash.includes('filter=gemm')")
    shown.run("location.hash = arguments[0]", address)
    shown.wait("foretrace.store.state.filter === 'gemm'")
    assert {key: shown.state(key) for key in held} == held
