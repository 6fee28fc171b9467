"""The viewer in a real browser: a folder, any step, two traces, SQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from browser import hostile
from browser.conftest import Browser
from foretrace.cli._browser import in_browser
from foretrace.recordings import traces
from serve.running import Viewer, viewer

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("served")
    for name in ("mlp_eager", "mlp_compiled", "llama_train_eager"):
        shutil.copy(traces()[name], folder)
    (folder / "<img src=x onerror=alert(1)>.json").write_bytes(hostile.trace_bytes())
    with viewer(str(folder)) as running:
        yield running


def open_trace(browser: Browser, first: int, second: int = -1) -> None:
    browser.run(
        """
        const [one, two] = document.querySelectorAll('#catalog select');
        one.value = arguments[0]; two.value = arguments[1];
        document.querySelector('#catalog button').click();
        """,
        first,
        second,
    )
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.wait("viewer.panes.every((pane) => pane.tiles)")


def test_a_trace_is_opened_searched_and_selected(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    options = browser.find("#catalog").find_elements("css selector", "select:first-of-type option")
    assert [each.text for each in options[1:]] == [
        "llama_train_eager.json.gz",
        "mlp_compiled.json.gz",
        "mlp_eager.json.gz",
    ]
    open_trace(browser, 1)
    browser.run("viewer.panes[0].find('flash'); return 0")
    browser.run("viewer.panes[0].goToKernel(viewer.panes[0].facts.kernels[0])")
    browser.wait("document.querySelector('.detail').textContent.includes('Launched by')")
    tiles = browser.run("return viewer.panes[0].tiles")
    browser.find("canvas").send_keys("s")
    browser.wait(f"viewer.panes[0].tiles > {tiles}")
    browser.screenshot("viewer.png")
    assert browser.console() == []
    assert {
        address.split("/")[2]
        for address in browser.requests()
        if not address.startswith(("data:", "blob:"))
    } == {f"127.0.0.1:{served.port}"}


def test_any_step_can_be_opened(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    open_trace(browser, 1)
    steps = browser.find(".pane .controls select")
    assert steps.text.split("\n") == [
        "whole recording",
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
    ]
    browser.run(
        "const s = document.querySelector('.pane .controls select'); s.value = 2; "
        "s.dispatchEvent(new Event('change'))"
    )
    assert browser.run(
        "const {timeline: t, facts: f} = viewer.panes[0]; return t.zero === f.steps[2].start && "
        "t.from < t.zero"
    )


def test_two_traces_are_compared(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    open_trace(browser, 3, 2)
    assert "GPU time falls by 12.2%" in browser.find("#comparison").text
    signs = browser.run("""
        return viewer.panes.map(({timeline: {events}}) => [...new Set([...events.event.keys()]
            .filter((at) => events.kind(at) === 'kernel').map((at) => events.facts.marks[events.mark[at]]))].sort().join());
    """)
    assert signs == ["gone,same", "new,same"]
    browser.screenshot("viewer_compared.png")
    assert browser.console() == []


def test_sql_answers_and_mistakes_are_said(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    open_trace(browser, 3)
    browser.run("document.querySelector('textarea').value = 'select count(*) as n from kernels'")
    browser.run(
        "[...document.querySelectorAll('#traces button')].find((each) => each.textContent === "
        "'run').click()"
    )
    browser.wait("document.querySelector('.sql td')?.textContent === '15'")
    browser.run("document.querySelector('textarea').value = 'selec nothing'")
    browser.run(
        "[...document.querySelectorAll('#traces button')].find((each) => each.textContent === "
        "'run').click()"
    )
    browser.wait("document.querySelector('.sql .banner')?.textContent.includes('SELECT')")


def test_a_new_query_ends_the_one_before(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    open_trace(browser, 3)
    endless = "with recursive t as (select 1 n union all select n + 1 from t) select * from t"
    for query in (endless, endless, endless, "select count(*) as n from kernels"):
        browser.run(
            "document.querySelector('textarea').value = arguments[0];"
            "[...document.querySelectorAll('#traces button')].find((each) => each.textContent === "
            "'run').click()",
            query,
        )
    browser.wait("document.querySelector('.sql td')?.textContent === '15'")
    browser.run("document.querySelector('textarea').value = 'select ' + '1 '.repeat(40000)")
    browser.run(
        "[...document.querySelectorAll('#traces button')].find((each) => each.textContent === "
        "'run').click()"
    )
    browser.wait("document.querySelector('.sql .banner')?.textContent.includes('431')")


def test_a_hostile_trace_is_text(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    open_trace(browser, 0)
    assert browser.dialog() is None
    assert browser.run("return document.querySelectorAll('img, iframe, form').length") == 0
    browser.run("viewer.panes[0].goToKernel(viewer.panes[0].facts.kernels[0])")
    browser.wait("document.querySelector('.detail').textContent.includes('Launched by')")
    assert browser.dialog() is None
    assert browser.console() == []


def test_the_private_file_leads_to_the_page_and_leaves_no_trail(
    browser: Browser, served: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click, "launch", lambda given: browser.open(Path(given).as_uri()))
    with in_browser(served.address, wanted=True):
        assert browser.driver.current_url == served.address
        assert browser.run("return [document.referrer, document.cookie]") == ["", ""]
        assert served.base.strip("/") not in browser.run("return document.title")


def test_a_page_of_another_origin_gets_nothing(browser: Browser, served: Viewer) -> None:
    """Not even with the token: not by fetch, not as an image, a script or a frame."""
    browser.driver.get("data:text/html,<title>other</title>")
    outcomes = browser.driver.execute_async_script(
        """
        const [address, done] = arguments;
        const load = (tag) => new Promise((tell) => {
            const made = document.createElement(tag);
            made.onload = () => tell(tag === 'iframe' && !made.contentDocument ? 'refused' : 'loaded');
            made.onerror = () => tell('refused');
            made.src = address;
            document.body.append(made);
        });
        const text = (mode) => fetch(address, {mode}).then((answer) => answer.text())
            .then((held) => held ? 'read' : 'refused', () => 'refused');
        Promise.all([text('cors'), text('no-cors'), load('img'), load('script'), load('iframe')]).then(done);
        """,
        served.address,
    )
    assert outcomes == ["refused"] * 5
