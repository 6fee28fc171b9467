"""The page of a snapshot in a real browser: names as text, at every width."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretrace.base.terminal import plain
from foretrace.memory import memory_document
from foretrace.pages.memory_html import memory_html
from foretrace.read.snapshot import ALLOC, History, Owner, Snapshot, StackFrame
from foretrace.trace.allocator.view import memory_views
from pages.browser import hostile
from pages.browser.audit import faint_texts, nameless
from pages.browser.conftest import Browser

pytestmark = pytest.mark.browser
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


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
    snapshot = named([*hostile.NAMES.values()])
    document = memory_document(snapshot, views := memory_views(snapshot))
    path = tmp_path / "memory.html"
    path.write_text(memory_html(document, views), encoding="utf-8")
    browser.open(path.as_uri())
    browser.settle()
    assert browser.requests() == [path.as_uri()]
    browser.run("for (const each of document.querySelectorAll('.more button')) each.click()")
    text = browser.run("return document.querySelector('main').textContent")
    shown = [plain(each.line) for each in document.device.lines if len(each.line) < 200]
    assert [name for name in shown if name not in text] == []
    assert browser.run("return document.querySelectorAll('img, iframe, [onerror], b').length") == 0
    assert "\u202e" not in text
    assert browser.run(OVERFLOW) <= 0
    for switch in ("line", "module", "time"):
        browser.run(f"document.querySelector('.switch input[value={switch}]').click()")
    if width == 1440:
        assert faint_texts(browser) == []
        assert nameless(browser) == []
    assert browser.dialog() is None
    assert browser.console() == []
