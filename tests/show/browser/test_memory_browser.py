"""The page of a snapshot in a real browser: its numbers, its clicks, and names as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrace.base.units import bytes_text, count_text, percent_text, time_text
from foretrace.model.allocator.view import MemoryView, memory_views
from foretrace.read.snapshot import read_snapshot
from foretrace.schema.documents.memory import MemoryDocument
from foretrace.schema.snapshot import ALLOC, History, Owner, Snapshot, StackFrame
from foretrace.show.html import memory_html as made
from foretrace.show.overview.allocator import memory_document
from foretrace.show.render import memory_page
from foretrace.show.render.terminal import plain
from foretrace.show.serve import run
from read.snapshots import RECORDED
from show.browser import hostile
from show.browser.audit import faint_texts, nameless
from show.browser.conftest import Browser
from show.browser.looks import Page
from show.browser.test_job_browser import OVERFLOW
from show.serve.running import running

pytestmark = pytest.mark.browser
# of each point: event, and in each grouping the sum of the groups and the top of the last band
SUMS = """
const {stack, groupings} = window.memory.part, found = [];
for (let point = 0; point < stack.length; point++) found.push([stack.points.event[point],
  ...groupings.flatMap(each => [
    each.names.reduce((sum, _, group) => sum + each.bytes(group, point), 0),
    stack.bandsAt(each, point).reduce((top, band) => band.from === top ? top + band.bytes : NaN, 0),
  ])]);
return found;
"""
KEY = """
document.querySelector('svg.memory').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}));
"""
ROWS = """
return [...document.querySelectorAll(`table[aria-label="${arguments[0]}"] tbody tr`)].map(
  row => Object.fromEntries([...row.cells].map(cell => [cell.dataset.title, cell.textContent])));
"""


def opened(browser: Browser, folder: Path, found: Snapshot) -> tuple[MemoryDocument, MemoryView]:
    views = memory_views(found)
    document = memory_document(found, views)
    path = folder / "memory.html"
    path.write_text(made.memory_html(document, views), encoding="utf-8")
    browser.open(path.as_uri())
    browser.settle()
    assert browser.requests() == [path.as_uri()]
    return document, views[0]


def test_numbers_are_those_of_the_document(browser: Browser, tmp_path: Path) -> None:
    document, view = opened(browser, tmp_path, read_snapshot(str(RECORDED / "train.pickle.xz")))
    sums = np.array(browser.run(SUMS), np.int64)
    assert len(sums) == len(view.history)
    assert (sums[:, 1:] == view.curve[sums[:, :1]]).all()
    said = browser.run("return [...document.querySelectorAll('.story dd')].map(e => e.textContent)")
    head = memory_page.page(document, top=0)[0]
    assert said == [text for _, text in head.labelled]
    rows: list[dict[str, str]] = browser.run(ROWS, "At the peak, by line")
    assert rows == [
        {
            "share": percent_text(each.share),
            "bytes": bytes_text(each.bytes),
            "tensors": count_text(each.count),
            "line": each.line,
            "is": each.category,
            "live for": time_text(each.live_ns),
        }
        for each in document.device.lines[:15]
    ]
    alone = browser.run("return memory.part.stack.boxes.size.length")
    others = f"the other {count_text(len(view.lives) - alone)} are"
    assert others in browser.run("return document.querySelector('.plots').textContent")
    largest = sorted(view.lives.size[view.holders].tolist(), reverse=True)[:15]
    held = browser.run(ROWS, "The largest allocations at the peak")
    assert [row["bytes"] for row in held] == [bytes_text(size) for size in largest]
    assert browser.console() == []


def test_a_served_snapshot_has_every_event_of_what_is_in_view(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette", reason="pip install 'foretrace[serve]'")
    monkeypatch.setattr(made, "MOST_POINTS", 600)
    path = str(RECORDED / "train.pickle.xz")
    (view,) = memory_views(read_snapshot(path))
    with running(run.prepare_snapshot(path)) as viewer:
        browser.open(viewer.address)
        assert browser.run("return memory.part.drawn.left_out") > 5_000
        browser.run("document.querySelector('.grid button.link').click()")
        for _ in range(4):
            browser.run(KEY % "+")
        browser.wait("memory.part.drawn.left_out === 0")
        browser.settle()
        sums = np.array(browser.run(SUMS), np.int64)
        assert view.peak in sums[:, 0]
        assert (np.diff(sums[:, 0]) == 1).all()
        assert (sums[:, 1:] == view.curve[sums[:, :1]]).all()
        assert browser.run("return document.querySelector('.chosen').getAttribute('d').length > 10")
        browser.run(KEY % "0")
        browser.wait("memory.part.drawn.left_out > 5000")
        assert viewer.get("device/0/part?from=9&to=x")[0] == 400
        assert viewer.get("device/1/part?from=0&to=9")[0] == 404
        assert viewer.json("device/0/part?from=6000&to=999999999")["left_out"] == 0
    assert [each for each in browser.console() if "favicon" not in each] == []


def named(names: list[str]) -> Snapshot:
    """A snapshot whose files, functions, modules and marks have these names."""
    count = np.arange(len(names))
    one = np.ones(len(names), np.int64)
    history = History(0, one * ALLOC, count + 1, one << 20, count, count + 1)
    frames = [StackFrame(name, f"/{name}/x.py", 3) for name in names]
    owners = [Owner(at + 1, "parameter", f"{name}.weight") for at, name in enumerate(names)]
    stacks = [(), *((at,) for at in range(len(names)))]
    return Snapshot("<b>.pickle", [history], [], frames, stacks, [], False, owners, card=names[0])


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_names_are_text_and_everything_fits(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.driver.set_window_size(width, 900)
    names = [*hostile.NAMES.values()]
    document, _ = opened(browser, tmp_path, named(names))
    browser.run("for (const each of document.querySelectorAll('.more button')) each.click()")
    text = browser.run("return document.querySelector('main').textContent")
    shown = [plain(each.line) for each in document.device.lines if len(each.line) < 200]
    assert [name for name in shown if name not in text] == []
    assert browser.run("return document.querySelectorAll('img, iframe, [onerror], b').length") == 0
    assert "\u202e" not in text
    assert browser.run(OVERFLOW) <= 0
    for switch in ("line", "module", "time"):
        browser.run(f"document.querySelector('.switch input[value={switch}]').click()")
    page: Any = Page(browser) if width == 1440 else None
    if page:
        assert faint_texts(page) == []
        assert nameless(page) == []
    assert browser.dialog() is None
    assert browser.console() == []
