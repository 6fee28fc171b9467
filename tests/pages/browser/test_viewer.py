"""The viewer in a real browser: a folder, its traces, and pages of strangers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import foretrace
from foretrace.cli._options import in_browser
from foretrace.pages import write_report
from foretrace.read.recordings import traces
from pages.browser import hostile
from pages.browser.conftest import Browser
from pages.serve.running import Viewer, viewer

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("served")
    for name in ("mlp_eager", "mlp_compiled", "llama_train_eager"):
        shutil.copy(traces()[name], folder)
    shutil.copy(traces()["mlp_eager"], folder / "refused.json.gz")
    (folder / "<img src=x onerror=alert(1)>.json").write_bytes(hostile.trace_bytes())
    with viewer(str(folder)) as running:
        yield running


def opened(browser: Browser, served: Viewer, *numbers: int, more: str = "") -> None:
    """Open traces by the address; they are shown when their first tile has come."""
    browser.open(f"{served.address}?traces={','.join(map(str, numbers))}{more}")


# what a source says of one view, in a form that JSON can hold
ANSWERS = """
    const done = arguments[0];
    (async () => {
        const {source, facts} = foretrace.traces[0];
        const sums = (bands) => [...bands].map(([group, ns]) => [group, Math.round(ns.reduce((a, b) => a + b, 0))]).sort();
        const lanes = facts.lanes.map((_, at) => at);
        const range = {from: 0, to: facts.end};
        const tile = await source.tile(range, 1000, lanes);
        const inside = [...tile.rows].sort((a, b) => a.track - b.track || a.row - b.row);
        const rows = inside.map(({track, row, bands}) => [track, row, sums(bands)]);
        const strips = tile.strips.map(({gpu, bands}) => [gpu, sums(bands)]);
        const third = Math.round(facts.end / 3), near = {from: third, to: third + 200000};
        const boxes = (await source.tile(near, 1000, lanes)).rows.flatMap(({boxes}) => [...boxes.event].filter((_, at) =>
            boxes.start[at] < near.to && boxes.start[at] + boxes.length[at] > near.from && boxes.length[at] >= 200));
        const kernel = facts.kernels[0].first;
        const steps = [];
        for (const way of ['next', 'previous', 'up', 'down']) {
            let event = kernel;
            for (let turn = 0; turn < 3 && event !== null; turn++) steps.push(event = await source.neighbour(event, way, 0));
        }
        for (const time of [0, near.from, 2 * facts.end]) steps.push(await source.neighbour(null, 'next', time));
        const launch = await source.neighbour(kernel, 'up', 0);
        const round = (_, value) => typeof value === 'number' ? Number(value.toPrecision(9)) : value;
        const plain = (value) => JSON.parse(JSON.stringify(value, round));
        const lists = (columns) => Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, [...column]]));
        const {names, count, events} = await source.search('GEMM');
        return {
            rows, strips, boxes: boxes.sort((a, b) => a - b), steps,
            search: [count, [...names].sort(), [...events.event]],
            launches: lists(await source.launches(0)),
            details: [[...(await source.details(kernel)).event], [...(await source.details(launch)).event]],
            ranges: plain([await source.rangeStats(range), await source.rangeStats(near)]),
        };
    })().then(done, (problem) => done(String(problem)));
"""


def test_a_trace_is_opened_and_moved(browser: Browser, served: Viewer) -> None:
    browser.open(served.address)
    options = browser.find("#catalog").find_elements("css selector", "select:first-of-type option")
    assert [each.text for each in options[1:4]] == [
        "llama_train_eager.json.gz",
        "mlp_compiled.json.gz",
        "mlp_eager.json.gz",
    ]
    opened(browser, served, 1)
    browser.run("foretrace.store.set({view: {from: 0, to: 10e6}})")
    browser.wait("location.hash.includes('view=0_10000000')")
    browser.driver.refresh()
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    assert browser.run("return [location.search, foretrace.store.state.view.to]") == [
        "?traces=1",
        10_000_000,
    ]
    browser.find("canvas.tracks").send_keys("s")
    browser.wait("foretrace.store.state.view.to > 10e6")
    assert browser.console() == []
    assert {
        address.split("/")[2]
        for address in browser.requests()
        if not address.startswith(("data:", "blob:"))
    } == {f"127.0.0.1:{served.port}"}


def test_a_server_says_what_a_report_says(browser: Browser, served: Viewer, tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", [foretrace.open(traces()["mlp_eager"])])
    browser.open(page.as_uri())
    wanted = browser.driver.execute_async_script(ANSWERS)
    opened(browser, served, 3)
    found = browser.driver.execute_async_script(ANSWERS)
    assert isinstance(wanted, dict), wanted
    for name, answer in wanted.items():
        assert found[name] == answer, name


def test_the_private_file_leads_to_the_page_and_leaves_no_trail(
    browser: Browser, served: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click, "launch", lambda given: browser.open(Path(given).as_uri()))
    with in_browser(served.address, wanted=True):
        assert browser.driver.current_url.rstrip("#") == served.address
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
