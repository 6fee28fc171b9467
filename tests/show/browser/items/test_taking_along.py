"""Item 11: pictures, paper, the keyboard alone, contrast and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from show.browser import audit
from show.browser.looks import Page

pytestmark = pytest.mark.browser
CATCH = """
    window.saved = [];
    URL.createObjectURL = (blob) => { window.saved.push(blob); return '#'; };
    HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
"""
TABS = ("findings", "kernels", "flame", "roofline", "memory", "ledger")


@pytest.mark.once
@pytest.mark.parametrize("kind", ["PNG", "SVG"])
def test_what_is_shown_is_saved(shown: Page, kind: str) -> None:
    shown.run(CATCH)
    shown.click(shown.found(".exporting button", kind))
    shown.wait("window.saved.length === 1")
    shown.focus(shown.found(".exporting button", kind))
    shown.press("Enter")
    shown.wait("window.saved.length === 2")
    assert shown.run("return window.named").endswith(f".{kind.lower()}")
    size, head = shown.answer(
        "(async () => [saved[1].size, await saved[1].slice(0, 400).text()])()"
    )
    assert size > 10_000
    assert ("<svg" if kind == "SVG" else "PNG") in head


@pytest.mark.once
def test_paper_is_light(shown: Page) -> None:
    shown.run("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.run("return document.documentElement.dataset.theme") == "light"
    shown.run("window.dispatchEvent(new Event('afterprint'))")
    assert len(shown.browser.driver.print_page()) > 10_000


def test_every_tab_can_be_read_and_named(shown: Page) -> None:
    for tab in TABS:
        shown.run("foretrace.store.set({tab: arguments[0], selection: null})", tab)
        shown.settle()
        assert audit.faint_texts(shown) == [], tab
        assert audit.nameless(shown) == [], tab
        assert shown.sticks_out() == [], tab


@pytest.mark.once
def test_the_help_names_every_key(shown: Page) -> None:
    shown.press("?")
    text = shown.text("dialog, [role=dialog]")
    for line in shown.run("return foretrace.keys.keys.map((key) => key.text)"):
        assert line in text
    shown.press("Escape")
    shown.click(shown.found(".toolbar button", "?"))
    assert shown.run("return !!document.querySelector('dialog[open], [role=dialog]:not([hidden])')")
    shown.press("Escape")
    assert not shown.run("return !!document.querySelector('dialog[open]')")


@pytest.mark.once
def test_tab_reaches_everything_in_order(shown: Page) -> None:
    reached = audit.tabbed(shown)
    places = [
        next(at for at, name in enumerate(reached) if word in name)
        for word in ("light and dark", "Copy", "Search", "PNG", "Timeline", "card", "Findings")
    ]
    assert places == sorted(places)


def test_a_note_is_in_the_link_and_in_the_saved_page(shown: Page, tmp_path: Path) -> None:
    shown.press("r", "n")
    shown.hands.type("the <b>optimizer</b> waits & waits")
    shown.press("Enter")
    (note,) = shown.state("notes")
    assert note["text"] == "the <b>optimizer</b> waits & waits"
    shown.wait("location.hash.includes('note=')")
    shown.run("foretrace.store.set({tab: 'kernels'})")
    saved = shown.answer("""
        (async () => {
            const blobs = [], made = URL.createObjectURL;
            URL.createObjectURL = (blob) => { blobs.push(blob); return made.call(URL, blob); };
            const click = HTMLAnchorElement.prototype.click;
            HTMLAnchorElement.prototype.click = () => {};
            [...document.querySelectorAll('.notes button')].find((each) => each.textContent === 'save page').click();
            Object.assign(URL, {createObjectURL: made}); HTMLAnchorElement.prototype.click = click;
            return blobs[0].text();
        })()
    """)
    target = tmp_path / "saved.html"
    target.write_text(saved, encoding="utf-8")
    assert shown.sticks_out() == []
    shown.browser.open(target.as_uri())
    assert shown.state("notes") == [note]
    assert shown.state("tab") == "kernels"
    assert "optimizer" in shown.text(".notes")
    assert shown.said() == []
    shown.click(".notes li button:last-child")
    assert shown.state("notes") == []
