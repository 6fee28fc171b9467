"""Items 2 to 5, the parts of the panels: places of a finding, other steps of a kernel, names found."""

from __future__ import annotations

import pytest

from show.browser.looks import Page

pytestmark = pytest.mark.browser
KERNEL = """
    const {events} = foretrace.traces[0].source;
    const at = [...events.event.keys()].filter((at) => events.kernel(at)?.role === 'gemm')
        .sort((a, b) => events.length[b] - events.length[a])[0];
    foretrace.store.set({selection: {kind: 'event', trace: 0, event: events.event[at]}});
    return events.event[at];
"""


def test_a_finding_walks_its_places_and_keeps_its_text(shown: Page) -> None:
    shown.click(".card")
    finding, text, start = shown.state("selection"), shown.text(".panel h3"), shown.view()
    following = shown.found(".panel button", "Next")
    shown.click(following)
    first = shown.view()
    assert first != start
    shown.focus(following)
    shown.press("Enter")
    assert shown.view() != first
    assert shown.state("selection") == finding
    assert shown.text(".panel h3") == text
    assert "2 of" in shown.text(".panel .walk")
    shown.click(shown.found(".panel button", "Previous"))
    assert shown.view() == pytest.approx(first)


def test_a_kernel_leads_to_other_steps_and_to_its_finding(shown: Page) -> None:
    event = shown.run(KERNEL)
    shown.wait("document.querySelector('.panel').innerText.includes('in other steps')")
    text = shown.text(".panel")
    for word in ("Percent of each roof", "limited by", "HBM", "queue delay", "Operands", "strides"):
        assert word in text
    name = shown.text(".panel h3")
    shown.click(".panel .meters .link")
    other = shown.state("selection")
    assert other["kind"] == "event"
    assert other["event"] != event
    shown.wait("document.querySelector('.panel .meters b')")
    assert shown.text(".panel h3") == name
    shown.focus(shown.found(".panel summary", "Name"))
    shown.press("Enter")
    assert shown.run("return document.querySelector('.panel details.wide[open] .whole') !== null")
    heading = shown.found(".panel section", "Its finding")
    shown.focus(shown.run("return arguments[0].querySelector('.link')", heading))
    shown.press("Enter")
    assert shown.state("selection")["kind"] == "finding"
    assert shown.sticks_out() == []


@pytest.mark.once
def test_a_kernel_of_a_range_can_be_followed(shown: Page) -> None:
    shown.press("r")
    chosen = shown.state("selection")["range"]
    shown.wait("document.querySelector('.panel .meters .link')")
    shown.click(".panel .meters .link")
    shown.wait("foretrace.store.state.selection.kind === 'event'")
    start = shown.run("""
        const {source, zero} = foretrace.traces[0], {events} = source;
        return events.start[events.find(foretrace.store.state.selection.event)] - zero;
    """)
    assert chosen["from"] <= start < chosen["to"]


@pytest.mark.once
def test_names_found_are_reached_by_arrows(shown: Page) -> None:
    shown.press("/")
    shown.hands.type("gemm")
    shown.wait("foretrace.store.state.search === 'gemm'")
    shown.hands.type("_no_such_name")
    shown.wait("document.querySelector('.searching [role=status]').textContent.startsWith('0 ')")
    shown.run("document.querySelector('.searching input').value = ''")
    shown.hands.type("aten::mm")
    shown.wait("document.querySelectorAll('.searching .hits button').length > 0")
    shown.press("ArrowDown", "Enter")
    shown.wait("foretrace.store.state.selection?.kind === 'event'")
    counted = shown.run("return document.querySelector('.searching .hits .count').textContent")
    number = int(counted.replace(",", ""))
    found = shown.run("""
        const {events} = foretrace.traces[0].source;
        return [...events.event.keys()].filter((at) => events.name(at) === 'aten::mm').length;
    """)
    assert number == found
    shown.press("Escape", "Escape")
    assert shown.state("search") == ""
