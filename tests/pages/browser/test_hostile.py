"""Hostile names in every field of a trace: the page shows them as the text they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import convert

import foretrace
from foretrace.base.terminal import plain
from foretrace.check.documents import CheckDocument
from foretrace.pages import write_report
from foretrace.record.lab_documents import ClaimCounts, LadderDocument, MarkedClaim, SetupRow
from pages.browser import hostile
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both sides of a comparison, guesses, a ladder, and the file's own name: hostile throughout."""
    folder = tmp_path_factory.mktemp("hostile")
    odd = os.fsdecode(b"a b'\"<img src=x onerror=alert(1)>&\n\xff.json")  # B47
    first, second = folder / odd, folder / "b.json"
    first.write_bytes(hostile.trace_bytes())
    second.write_bytes(hostile.trace_bytes())
    texts = ("text", "measured", "expected", "why")
    guesses = {
        "schema": 3,
        "hits": 0,
        "misses": 0,
        "unknown": len(hostile.NAMES),
        "guesses": [
            dict.fromkeys(texts, name) | {"verdict": "unknown"} for name in hostile.NAMES.values()
        ],
    }
    names = list(hostile.NAMES.values())
    keys = MarkedClaim.__struct_fields__
    ladder = LadderDocument(
        *(3, names[0], names[0], names[0]),
        [MarkedClaim(**dict.fromkeys(keys, name)) for name in names],
        ClaimCounts(0, 0, len(names)),
        [],
        [SetupRow(name, [name], [name]) for name in names],
        {names[0]: 1},
    )
    opened = [foretrace.open(path, cache=False) for path in (first, second)]
    return write_report(
        folder / "report.html", opened, predictions=convert(guesses, CheckDocument), ladder=ladder
    )


def test_every_name_is_text_everywhere(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    shown = browser.driver.execute_async_script("""
        const done = arguments[0], {store, traces: [{source: {events}}]} = foretrace, seen = [];
        const frame = () => new Promise(requestAnimationFrame), panel = document.querySelector('.panel');
        (async () => {
            const names = new Set();
            for (let at = 0; at < events.count; at++) if (!names.has(events.name(at))) {
                names.add(events.name(at));
                store.set({selection: {kind: 'event', trace: 0, event: events.event[at]}});
                await frame(); await frame();
                seen.push([events.name(at), panel.textContent]);
            }
        })().then(() => done(seen));
    """)
    assert {name for name, _ in shown} >= set(hostile.SHOWN)
    assert [name for name, text in shown if name not in text] == []
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.dialog() is None
    assert browser.console() == []
    assert browser.requests() == [page.as_uri()]


def test_nothing_of_the_trace_became_markup(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    assert (
        browser.run(
            "return document.querySelectorAll('img, iframe, object, embed, form, [onerror], "
            "[onload]').length"
        )
        == 0
    )
    assert browser.run("return document.scripts.length") == 2
    assert browser.run("return Object.keys(Object.prototype).length") == 0
    assert browser.run("return ({}).polluted === undefined && [].hasOwnProperty('length')")
    browser.run("for (const each of document.querySelectorAll('.more button')) each.click()")
    guesses = browser.run(
        "return [...document.querySelectorAll('#panel-predictions tbody tr')].map((row) => "
        "row.cells[0].textContent)"
    )
    assert guesses == [plain(name) for name in hostile.NAMES.values()]


def test_a_search_is_literal(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    texts = ["(a+)+$", "a" * 50, "__proto__", "<img", "\\", "["]
    found = browser.driver.execute_async_script(
        "const [texts, done] = arguments; Promise.all(texts.map((text) => "
        "foretrace.traces[0].source.search(text))).then((all) => done(all.map((f) => f.count)))",
        texts,
    )
    for text, count in zip(texts, found, strict=True):
        matching = sum(text.lower() in name.lower() for name in hostile.SHOWN)
        assert count == 4 * matching, text  # region, op, kernel and GPU range


def test_the_policy_stops_a_script_that_is_not_ours(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    text = page.read_text(encoding="utf-8").replace(
        "<main>", "<main><script>window.intruder = 1</script>", 1
    )
    (tmp_path / "tampered.html").write_text(text, encoding="utf-8")
    browser.open((tmp_path / "tampered.html").as_uri())
    assert browser.run("return window.intruder === undefined")
    assert any("Content Security Policy" in message for message in browser.console())
